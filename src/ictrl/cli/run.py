"""`ictrl run`, `resume` and `evaluate`."""

import json
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import tyro
from rich.console import Console
from rich.table import Table

from ictrl.cli.options import Flag, KeepPictures, OptionalPath, OtherDevice, Root, Run
from ictrl.cli.output import class_list, open_console, print_results
from ictrl.cli.watch import Warnings, stop_requests, watching
from ictrl.config import ICTRLConfig, MethodConfig, Recipe, RunConfig, StreamConfig
from ictrl.experiment import run as experiment
from ictrl.experiment.run import Finished, Stopped
from ictrl.experiment.run_folder import RunFolder
from ictrl.files import make_folder, write_atomically
from ictrl.methods.capabilities import Draws
from ictrl.parallel.agreement import from_first
from ictrl.parallel.joining import joined, launched
from ictrl.parallel.sharing import is_first

DEFAULT_RECIPE = "letters"
TAKES_A_NAME = ("--out", "--name", "--description", "--stream.root")
"""Options whose value may look like a recipe."""
LONGEST = 100  # name of a folder, without its date

RUN_HELP = """Learn a stream of tasks, measure after each, and write a run folder.

Without arguments, twenty letters, drawn in many fonts and colours, are learned in five tasks, in about half a minute on
two cores. A recipe names a method and gives every setting a value; options change settings for this run.
Which there are depends on the method: `ictrl run finetune-digits --help` shows those of finetune. Ctrl-C stops the run
after the current epoch and says how to go on. Started by torchrun, several processes learn one run, one for each GPU.

Examples:
  ictrl run
  ictrl run paper-digits --seed 1
  ictrl run ictrl-digits --later.epochs 80 --later.weights.distill-replayed 100 --out runs/longer
  ictrl run finetune-digits
  ictrl run pictures --stream.root holiday --stream.task-sizes 2 1
  torchrun --nproc-per-node 4 -m ictrl run best-cifar10-5 --stream.root data
  ictrl run ictrl-pictures --stream.root holiday --stream.task-sizes 2 1 --keep-pictures 4
"""
RESUME_HELP = """Continue a run that was stopped or killed, exactly as if it had not been.

Examples:
  ictrl resume runs/longer
  ictrl resume runs/longer --keep-pictures 0
"""
EVALUATE_HELP = """Measure the newest learner of a run again, under each protocol.

Without options this reproduces the last row of the run's table; --device and --root say where else to measure.

Example:
  ictrl evaluate runs/longer
"""


Method = TypeVar("Method", bound=MethodConfig)


@dataclass(frozen=True)
class RunCommand(Generic[Method]):
    """One run; the options of the method are those of its settings."""

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[RECIPE]")] = DEFAULT_RECIPE
    """a name that `ictrl recipes` lists, or a TOML file of your own"""
    out: OptionalPath = None
    """folder for the run, new or empty; by default runs/RECIPE-DATE-TIME"""
    tensorboard: Flag = False
    """also write every term and accuracy for TensorBoard; needs the package tensorboard"""
    profile: Flag = False
    """also measure where the time of a step goes; printed at the end and written to profile.json"""
    name: str = "custom"
    """what results and run folders are called"""
    description: str = ""
    """one line on what this run shows"""
    method: Annotated[Method, tyro.conf.arg(name="")] = field(default_factory=ICTRLConfig)  # type: ignore[assignment]
    stream: StreamConfig = field(default_factory=StreamConfig)
    settings: Annotated[RunConfig, tyro.conf.arg(name="")] = field(default_factory=RunConfig)

    @classmethod
    def of(cls, name: str, recipe: Recipe) -> "RunCommand[Any]":
        """The command before any option: a recipe by the name that was typed, with all its values."""
        return cls(
            name,
            name=recipe.name,
            description=recipe.description,
            method=recipe.method,  # type: ignore[arg-type]
            stream=recipe.stream,
            settings=recipe.run,
        )

    def execute(self) -> None:
        recipe = Recipe(self.name, self.description, self.method, self.stream, self.settings)
        out = self.out or Path("runs") / f"{folder_name(recipe.name)}-{time.strftime('%Y%m%d-%H%M%S')}"
        console = open_console()
        with joined(recipe.run.device, recipe.run.wait_minutes, lambda: go_on_line(out)):
            out = from_first(out)  # named by one clock
            with stop_requests() as stop, watching(console, out, self.tensorboard) as watch:
                try:
                    finished = experiment.run(recipe, out, listener=watch, stop=stop, profile=self.profile)
                except KeyboardInterrupt:
                    raise Stopped(stopped_line(out)) from None
            if not is_first():
                return
        finish(console, finished, out)
        if self.profile:
            print_profile(console, json.loads((out / "profile.json").read_text(encoding="utf-8")))


@dataclass(frozen=True)
class ResumeCommand:
    """The rest of a run."""

    run: Run
    root: Root = None
    device: OtherDevice = None
    keep_pictures: KeepPictures = None
    tensorboard: Flag = False
    """also write every term and accuracy for TensorBoard"""

    def execute(self) -> None:
        console = open_console()
        settings = RunFolder.existing(self.run).recipe().run
        with joined(self.device or settings.device, settings.wait_minutes, lambda: go_on_line(self.run)):
            with stop_requests() as stop, watching(console, self.run, self.tensorboard) as watch:
                try:
                    finished = experiment.resume(
                        self.run,
                        listener=watch,
                        stop=stop,
                        device=self.device,
                        root=self.root,
                        keep_pictures=self.keep_pictures,
                    )
                except KeyboardInterrupt:
                    raise Stopped(stopped_line(self.run)) from None
            if not is_first():
                return
        finish(console, finished, self.run)


@dataclass(frozen=True)
class EvaluateCommand:
    """A run measured again."""

    run: Run
    root: Root = None
    device: OtherDevice = None

    def execute(self) -> None:
        results = experiment.evaluate(self.run, self.device, Warnings(), self.root)
        console = open_console()
        table = Table("task", "classes", box=None, pad_edge=False)
        for protocol in results.protocols:
            table.add_column(protocol, justify="right")
        for t, classes in enumerate(results.tasks[: results.done]):
            row = (scores.matrix[-1][t] for scores in results.protocols.values())
            table.add_row(
                str(t + 1), class_list(classes, results.class_names), *(f"{accuracy:.3f}" for accuracy in row)
            )
        table.add_row("all", "", *(f"{scores.last:.3f}" for scores in results.protocols.values()))
        tasks = f"{results.done} of {len(results.tasks)} tasks"
        console.print(f"Accuracy on the {results.measured_on} of each task after {tasks}\n")
        console.print(table)


def folder_name(recipe: str) -> str:
    """What a recipe is called, as the name of a folder: no path, no hidden file, nothing that a shell would read.

    >>> folder_name("digits"), folder_name("../../etc/x y"), folder_name("..")
    ('digits', 'etc-x-y', 'run')
    """
    return re.sub(r"[^\w.+=@-]+", "-", recipe)[:LONGEST].strip("-.") or "run"


def stopped_line(out: Path) -> str:
    """What to do next with a run that was stopped."""
    return f"Stopped. {go_on_line(out)}" if begun(out) else "Stopped before anything was written."


def go_on_line(out: Path) -> str:
    """How to go on with a run; nothing, if nothing was written."""
    if not begun(out):
        return ""
    if (together := launched()) is not None:
        here = os.environ.get("LOCAL_WORLD_SIZE", together.size)  # on this machine
        return f"Go on with any number of processes: torchrun --nproc-per-node {here} -m ictrl resume {out}"
    return f"Go on with: ictrl resume {out}"


def begun(out: Path) -> bool:
    """Whether there is a run to go on with."""
    return (out / "config.toml").exists()


def finish(console: Console, finished: Finished, out: Path) -> None:
    """The table of a finished run, its picture, its report, and where everything lies."""
    from ictrl.report import overview, write_report  # matplotlib: a second that --help should not take

    results, learner = finished.results, finished.learner
    print_results(console, results, keeps_images=learner.keeps_images)
    replayed = {}
    if isinstance(learner, Draws):
        replayed = {int(label): learner.sample(int(label), 10) for label in learner.classes_[:20]}
    make_folder(out / "figures")
    write_atomically(out / "figures" / "overview.png", overview(results, replayed))
    written = write_report([out])
    learned = len(results.tasks)
    console.print(f"Written to {out}: results.json, figures/, metrics.jsonl, config.toml.", soft_wrap=True)
    saved = f"{out}/checkpoint/after-task-{learned:03d}.safetensors"
    console.print(f'The learner: ictrl.load_learner("{saved}")', soft_wrap=True)
    console.print(f"Report: {written.page}", soft_wrap=True)


def print_profile(console: Console, profile: dict[str, Any]) -> None:
    """Seconds of each lap over all tasks, and their share of the run."""
    seconds: dict[str, float] = {}
    for laps in profile["tasks"]:
        for name, spent in laps.items():
            seconds[name] = seconds.get(name, 0.0) + spent
    phases = profile["seconds"]
    rest = "learning, outside of steps" if seconds else "learning"  # not every method measures its steps
    seconds[rest] = phases["learn"] - sum(seconds.values())
    seconds["evaluation"], seconds["the floors"] = phases["evaluate"], phases["floors"]
    table = Table("where the time went", box=None, pad_edge=False)
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    total = sum(phases.values())
    for name, spent in sorted(seconds.items(), key=lambda item: -item[1]):
        table.add_row(name, f"{spent:.2f}", f"{spent / total:.1%}")
    console.print()
    console.print(table)
