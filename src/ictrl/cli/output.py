"""What commands print with: a console, numbers with their nouns, the table of a run."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from ictrl.cli.terminal import SafeConsole, shown
from ictrl.experiment.findings import filled, remarks, verdict, what_is_recognised
from ictrl.experiment.results import PROTOCOLS, Results

TITLES = {
    "memory": ("memory", "from what the learner kept alone"),
    "reencoded": ("reencoded", "the paper's protocol, refitted from all old training images"),
    "untrained": ("untrained floor", "the same networks before any learning, reencoded"),
    "frozen": ("frozen floor", "never trained again after the first task, reencoded"),
}


def open_console() -> Console:
    """A console that prints texts as they are, and cuts no line of a table where the output is a file or a pipe."""
    console = SafeConsole(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 100_000
    return console


def counted(number: int, one: str, many: str) -> str:
    """A number with its noun.

    >>> counted(1, "task", "tasks"), counted(3, "task", "tasks")
    ('1 task', '3 tasks')
    """
    return f"{number} {one if number == 1 else many}"


def accuracies(found: Mapping[str, Any]) -> str:
    """Accuracy under each protocol that was measured.

    >>> accuracies({"cycle": 3, "memory": 0.9167, "reencoded": 0.95})
    'memory 0.917, reencoded 0.950'
    """
    return ", ".join(f"{protocol} {found[protocol]:.3f}" for protocol in PROTOCOLS if protocol in found)


def last_accuracies(results: Results) -> str:
    """Accuracy after the newest task, under each protocol."""
    return accuracies({protocol: scores.last for protocol, scores in results.protocols.items()})


def print_results(console: Console, results: Results, keeps_images: bool = False) -> None:
    """Accuracy after each task, and what was kept."""
    scores = results.scores
    table = Table("after task", "new classes", box=None, pad_edge=False)
    for name in scores:
        table.add_column(TITLES[name][0], justify="right")
    for t, classes in enumerate(results.tasks):
        seen = (found.seen[t] for found in scores.values())
        table.add_row(str(t + 1), class_list(classes, results.class_names), *(f"{accuracy:.3f}" for accuracy in seen))
    for row in ("average", "forgetting"):
        values = (round(getattr(found, row), 3) + 0.0 for found in scores.values())  # never -0.000
        table.add_row(row, "", *(f"{value:.3f}" for value in values))
    images = f"{sum(results.test_images)} {results.measured_on}"
    console.print(f"\nAccuracy over all classes seen so far (on {images} in the end)\n")
    console.print(table)
    console.print("\n" + "\n".join(f"{title}: {what}" for title, what in (TITLES[name] for name in scores)) + "\n")
    print_kept(console, results, keeps_images)
    if results.replay:
        console.print(f"Replay: {results.replay[-1]:.0%} {what_is_recognised(results)}.")
    console.print(f"\n{filled(verdict(results), results)}")
    for remark in remarks(results):
        console.print(remark)
    console.print(f"Learning took {results.seconds['learn']:.0f} s on {results.device}.")


def print_kept(console: Console, results: Results, keeps_images: bool) -> None:
    """Bytes of everything that is kept, compared with those of the images."""
    kept, replaced, name = results.kept_bytes, results.image_bytes, results.recipe.method.name
    networks = f"networks with {results.parameters:,} parameters"
    if keeps_images and kept < replaced:
        console.print(
            f"Kept: {kept / 1000:,.0f} kB, training images among it, of {replaced / 1000:,.0f} kB of images "
            f"({kept / replaced:.1%}), and {networks}."
        )
    elif keeps_images:
        console.print(
            f"Kept: every training image ({kept / 1000:,.0f} kB), and {networks}. Keeping them makes {name} an upper "
            "bound to compare with, not a method that does without old images."
        )
    elif results.reencoded is None:
        console.print(
            f"Kept: {kept / 1000:,.1f} kB where the images had {replaced / 1000:,.0f} kB ({kept / replaced:.1%}), and "
            f"{networks}."
        )
    else:
        console.print(
            f"Kept: {kept / 1000:,.0f} kB of moments instead of {replaced / 1000:,.0f} kB of images "
            f"({kept / replaced:.0%}), and {networks}."
        )
        console.print("The moments of a class take the same space however many images it has.")


def class_list(labels: list[int], names: Mapping[int, str]) -> str:
    """Classes for a table, by name, the first few of many."""
    listed = [shown(names.get(label, str(label))) for label in labels]
    return " ".join(listed) if len(listed) <= 10 else f"{' '.join(listed[:9])} … ({len(listed)})"
