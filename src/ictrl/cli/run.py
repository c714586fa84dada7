"""`ictrl run`, `resume`, `evaluate` and `recipes`."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from ictrl.experiment import run as experiment
from ictrl.cli.output import open_console
from ictrl.cli.watch import Warnings, Watch, stop_requests
from ictrl.config import Recipe
from ictrl.experiment.run import Stopped
from ictrl.files import write_atomically
from ictrl.methods.ictrl import ICTRL
from ictrl.experiment.evaluation import PROTOCOLS, REPLAY_WELL
from ictrl.recipes.reader import load_recipe, reached, recipe_names

DEFAULT_RECIPE = "digits"
BELOW = 0.02  # so far below the floor is worth a word

RUN_HELP = """Learn a stream of tasks, measure after each, and write a run folder.

Without arguments, ten handwritten digits that scikit-learn carries are learned in five tasks, in about half a minute
on two cores. Every setting of the recipe can be given another value. Ctrl-C stops after the epoch that is being played
and says how to go on.

Examples:
  ictrl run
  ictrl run digits-paper --seed 1
  ictrl run digits --game.epochs 80 --anchors.replayed 100 --out runs/longer
"""
RESUME_HELP = """Go on with a run that was stopped or killed, exactly as if it had not been.

Example:
  ictrl resume runs/longer
"""
EVALUATE_HELP = """Measure the newest learner of a run again, under both protocols.

Example:
  ictrl evaluate runs/longer
"""
RECIPES_HELP = """List the recipes.

Example:
  ictrl recipes
"""


@dataclass(frozen=True)
class RunCommand:
    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")] = DEFAULT_RECIPE
    """a name that `ictrl recipes` lists, or a TOML file of your own"""
    out: Path | None = None
    """folder for the run, new or empty; by default runs/RECIPE-DATE-TIME"""
    tensorboard: bool = False
    """also write every term and accuracy for TensorBoard; needs the package tensorboard"""
    profile: bool = False
    """also measure where the time of a step goes, say so at the end, and write it to profile.json"""
    settings: Annotated[Recipe, tyro.conf.arg(name="")] = field(default_factory=Recipe)

    def execute(self) -> None:
        out = self.out or Path("runs") / f"{self.settings.name}-{time.strftime('%Y%m%d-%H%M%S')}"
        console = open_console()
        with stop_requests() as stop, Watch(console, out, self.tensorboard) as watch:
            try:
                results, learner = experiment.run(self.settings, out, watch, stop, self.profile)
            except KeyboardInterrupt:
                raise Stopped(stopped_line(out)) from None
        finish(console, results, learner, out)
        if self.profile:
            print_profile(console, json.loads((out / "profile.json").read_text(encoding="utf-8")))


@dataclass(frozen=True)
class ResumeCommand:
    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """folder of the run"""
    root: Path | None = None
    """where the data lies now, if it has moved"""
    device: str | None = None
    """another device than the recipe's; the results then differ in their last digits"""
    tensorboard: bool = False
    """also write for TensorBoard"""

    def execute(self) -> None:
        console = open_console()
        with stop_requests() as stop, Watch(console, self.run, self.tensorboard) as watch:
            try:
                results, learner = experiment.resume(self.run, watch, stop, self.device, self.root)
            except KeyboardInterrupt:
                raise Stopped(stopped_line(self.run)) from None
        finish(console, results, learner, self.run)


@dataclass(frozen=True)
class EvaluateCommand:
    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """folder of the run"""
    root: Path | None = None
    """where the data lies now, if it has moved"""
    device: str | None = None
    """another device than the recipe's"""

    def execute(self) -> None:
        results = experiment.evaluate(self.run, self.device, Warnings(), self.root)
        console = open_console()
        done = len(results["memory"]["seen"])
        table = Table("task", "classes", box=None, pad_edge=False)
        for protocol in PROTOCOLS:
            table.add_column(protocol, justify="right")
        for t, classes in enumerate(results["tasks"][:done]):
            row = (results[protocol]["matrix"][-1][t] for protocol in PROTOCOLS)
            table.add_row(
                str(t + 1), class_list(classes, results["class_names"]), *(f"{accuracy:.3f}" for accuracy in row)
            )
        table.add_row("all", "", *(f"{results[protocol]['last']:.3f}" for protocol in PROTOCOLS))
        images = results["measured_on"]
        console.print(f"Accuracy on the {images} of each task after {done} of {len(results['tasks'])} tasks\n")
        console.print(table)


@dataclass(frozen=True)
class RecipesCommand:
    def execute(self) -> None:
        table = Table("recipe", "what it shows", box=None, pad_edge=False)
        for protocol in PROTOCOLS:
            table.add_column(protocol, justify="right")
        measured = reached()
        for name in recipe_names():
            scores = measured.get(name, {})
            found = (f"{scores[p]['last']:.3f} / {scores[p]['average']:.3f}" for p in PROTOCOLS if p in scores)
            table.add_row(name, load_recipe(name).description, *found)
        console = open_console()
        console.print(table)
        console.print(
            "\nAccuracy after the last task / average over tasks, mean over seeds, where it was measured. memory: from "
            "what the learner kept alone; reencoded: the paper's protocol, which needs the old images.",
            soft_wrap=True,
        )


def stopped_line(out: Path) -> str:
    begun = (out / "config.toml").exists()
    return f"Stopped. Go on with: ictrl resume {out}" if begun else "Stopped before anything was written."


def finish(console: Console, results: dict[str, Any], learner: ICTRL, out: Path) -> None:
    """The table of a finished run, its picture, its report, and where everything lies."""
    from ictrl.report import overview, write_report  # matplotlib: a second that --help should not take

    print_results(console, results)
    replayed = {int(label): learner.sample(int(label), 10) for label in learner.classes_[:20]}
    (out / "figures").mkdir(exist_ok=True)
    write_atomically(out / "figures" / "overview.png", overview(results, replayed))
    written = write_report([out])
    learned = len(results["tasks"])
    console.print(f"Written to {out}: results.json, figures/, metrics.jsonl, config.toml.", soft_wrap=True)
    console.print(f'The learner: ICTRL.load("{out}/checkpoint/after-task-{learned:03d}.safetensors")', soft_wrap=True)
    console.print(f"Report: {written.page}", soft_wrap=True)


def print_profile(console: Console, profile: dict[str, Any]) -> None:
    """Seconds of each lap over all tasks, and their share of the run."""
    seconds: dict[str, float] = {}
    for laps in profile["tasks"]:
        for name, spent in laps.items():
            seconds[name] = seconds.get(name, 0.0) + spent
    phases = profile["seconds"]
    seconds["learning besides: memory, transport, epochs"] = phases["learn"] - sum(seconds.values())
    seconds["evaluation"], seconds["the floor"] = phases["evaluate"], phases["floor"]
    table = Table("where the time went", box=None, pad_edge=False)
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    total = sum(phases.values())
    for name, spent in sorted(seconds.items(), key=lambda item: -item[1]):
        table.add_row(name, f"{spent:.2f}", f"{spent / total:.1%}")
    console.print()
    console.print(table)


def print_results(console: Console, results: dict[str, Any]) -> None:
    """Accuracy after each task, and what was kept."""
    protocols = (*PROTOCOLS, "floor")
    table = Table("after task", "new classes", box=None, pad_edge=False)
    for title in ("memory", "reencoded", "untrained floor"):
        table.add_column(title, justify="right")
    for t, classes in enumerate(results["tasks"]):
        seen = (results[protocol]["seen"][t] for protocol in protocols)
        table.add_row(
            str(t + 1), class_list(classes, results["class_names"]), *(f"{accuracy:.3f}" for accuracy in seen)
        )
    for name in ("average", "forgetting"):
        values = (round(results[protocol][name], 3) + 0.0 for protocol in protocols)  # never -0.000
        table.add_row(name, "", *(f"{value:.3f}" for value in values))
    kept, replaced = results["memory_bytes"], results["image_bytes"]
    images = f"{sum(results['test_images'])} {results['measured_on']}"
    console.print(f"\nAccuracy over all classes seen so far (on {images} in the end)\n")
    console.print(table)
    console.print(
        "\nmemory: from what the learner kept alone\n"
        "reencoded: the paper's protocol, refitted from all old training images\n"
        "untrained floor: the same networks before any learning, reencoded\n"
    )
    console.print(
        f"Kept: {kept / 1000:,.0f} kB of moments instead of {replaced / 1000:,.0f} kB of images "
        f"({kept / replaced:.0%}), and two networks of {results['parameters']:,} parameters together."
    )
    console.print("The moments of a class take no more space however many images it has.")
    replay = results["replay"][-1]
    console.print(
        f"Replay: {replay:.0%} of the features drawn from memory are still recognised once decoded and encoded."
        + (
            " Where this is low, memory fades: try another --game.epochs or --game.learning-rate."
            if replay < REPLAY_WELL
            else ""
        )
    )
    if results["memory"]["last"] < results["floor"]["last"] - BELOW:
        console.print(
            "From memory the learner does worse than its networks untrained, reencoded: it has unlearned more than it "
            "has learned. More images a class, another rate or other anchors may help."
        )
    console.print(f"Learning took {results['seconds']['learn']:.0f} s on {results['device']}.")


def class_list(labels: list[int], names: dict[str, str]) -> str:
    """Classes for a table, by name, the first few of many."""
    shown = [names.get(str(label), str(label)) for label in labels]
    return " ".join(shown) if len(shown) <= 10 else f"{' '.join(shown[:9])} … ({len(shown)})"
