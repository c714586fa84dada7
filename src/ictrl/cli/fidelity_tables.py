"""What `ictrl fidelity` prints: a table of one learner, a row for each of several, or JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from ictrl.cli.terminal import shown
from ictrl.visualize.fidelity import ENOUGH, SETS, Comparison, Fidelity

SAMPLES, TEST = SETS[2], SETS[0]
NONE = "–"  # not measured


def as_json(measured: Mapping[str, Fidelity], classifier: Mapping[str, Any]) -> dict[str, Any]:
    """What --json prints: of one learner its figures, of several a list of them."""
    first = next(iter(measured.values()))
    head = {"distance": first.distance, "features": first.features, "to": "training images"}
    if classifier:
        head["classifier"] = dict(classifier)
    if len(measured) == 1:
        return {**head, **figures(first)}
    return {**head, "learners": [{"name": name, **figures(found)} for name, found in measured.items()]}


def figures(found: Fidelity) -> dict[str, Any]:
    """All that was measured of one learner."""
    scores = {
        name: {"mean": mean, "deviation": deviation} for name, (mean, deviation) in found.inception_scores.items()
    }
    return {
        "overall": asdict(found.overall),
        "by_class": {str(label): asdict(comparison) for label, comparison in found.by_class.items()},
        **({"inception_score": scores} if scores else {}),
    }


def print_fidelity(console: Console, found: Fidelity, names: Mapping[int, str]) -> None:
    """A row per set of images, one per class, and what to make of them."""
    whole = found.overall
    console.print(
        f"{found.distance} to {whole.images['training']:,} training images; smaller is better, and the test images' is "
        "the floor\n"
    )
    _print_sets(console, whole)
    _print_copies(console, whole)
    if found.inception_scores:
        scores = (f"{name} {mean:.2f} ± {spread:.2f}" for name, (mean, spread) in found.inception_scores.items())
        console.print(f"\nInception score, larger is better: {', '.join(scores)}.")
    console.print("\nSamples of each class\n")
    table = _table("class", whole)
    for label, comparison in found.by_class.items():
        table.add_row(shown(names[label]), *_cells(comparison))
    console.print(table)
    _print_notes(console, [found], [*found.by_class.values()])


def print_rows(
    console: Console, measured: Mapping[str, Fidelity], names: Mapping[int, str], by_class: bool = False
) -> None:
    """A row of samples for each of several learners, and for each class one below the other."""
    first = next(iter(measured.values()))
    console.print(
        f"Samples: {first.distance} to training images; smaller is better, and the test images' is the floor\n"
    )
    table = _table("learner", first.overall)
    for name, found in measured.items():
        table.add_row(name, *_cells(found.overall))
    console.print(table)
    if by_class:
        table = _table("class", first.overall, "learner")
        for label in first.by_class:
            for name, found in measured.items():
                if label in found.by_class:
                    table.add_row(shown(names[label]), name, *_cells(found.by_class[label]))
        console.print()
        console.print(table)
    classes = [comparison for found in measured.values() for comparison in found.by_class.values()]
    _print_notes(console, [*measured.values()], classes if by_class else [])


def _print_sets(console: Console, whole: Comparison) -> None:
    table = Table("", box=None, pad_edge=False)
    columns = ["images", "distance", "precision", "recall", "recognised"]
    for name in columns + (["by the classifier"] if whole.classified else []):
        table.add_column(name, justify="right")
    for name in SETS:
        shares = (whole.precision, whole.recall, whole.recognised, *([whole.classified] if whole.classified else []))
        table.add_row(
            name, str(whole.images[name]), f"{whole.distances[name]:.2f}", *(_share(some.get(name)) for some in shares)
        )
        if name == SAMPLES and whole.fewer_samples is not None:
            table.add_row("as few of them", str(whole.images[TEST]), f"{whole.fewer_samples:.2f}")
    console.print(table)


def _print_copies(console: Console, whole: Comparison) -> None:
    found = whole.copies
    assert found is not None  # of all classes together there are enough
    console.print(
        f"\nIn pixels, samples lie {found.nearness:.2f} times as far from their nearest training image as test images "
        f"do. {found.share:.1%} stand out as copies of one; of images that are none {found.expected:.1%} would."
    )


def _table(first: str, like: Comparison, *second: str) -> Table:
    table = Table(first, *second, box=None, pad_edge=False)
    for name in ("images", "distance", "floor", "precision", "recall", "recognised"):
        table.add_column(name, justify="right")
    if like.classified:
        table.add_column("by the classifier", justify="right")
    for name in ("nearness", "copies"):
        table.add_column(name, justify="right")
    return table


def _cells(found: Comparison) -> list[str]:
    """Of the samples; the distance is that of as few as there are test images, whose distance is the floor."""
    shares = (found.precision, found.recall, found.recognised, *([found.classified] if found.classified else []))
    distance = found.distances.get(SAMPLES) if found.fewer_samples is None else found.fewer_samples
    return [
        str(found.images[TEST]),
        *(NONE if value is None else f"{value:.2f}" for value in (distance, found.distances.get(TEST))),
        *(_share(some.get(SAMPLES)) for some in shares),
        *((NONE, NONE) if found.copies is None else (f"{found.copies.nearness:.2f}", f"{found.copies.share:.1%}")),
    ]


def _share(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _print_notes(console: Console, found: list[Fidelity], classes: list[Comparison]) -> None:
    if any(not comparison.distances for comparison in classes):
        console.print(f"\n{NONE}: a class with fewer than {ENOUGH} images in each set is not measured alone in this.")
    every = [*(one.overall for one in found), *classes]
    features = found[0].features
    fewest = min(n for comparison in every if comparison.distances for n in comparison.images.values())
    if fewest <= features:
        console.print(
            f"\nDistances from no more images than the network has features ({features}) are much too large: "
            "compare them with the floor beside them, and with nothing measured from another number of images."
        )
