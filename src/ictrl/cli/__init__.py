"""The command line: parsing and printing only."""

import io
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

import ictrl
from ictrl import experiment
from ictrl.cli import data, use
from ictrl.config import Recipe, load_recipe, recipe_names
from ictrl.data import Task
from ictrl.errors import NonFiniteError, UserError
from ictrl.experiment import Listener
from ictrl.files import write_atomically
from ictrl.game import EpochReport

FAILURE, USER_MISTAKE, INTERRUPTED = 1, 2, 130
DEFAULT_RECIPE = "digits"

RUN_HELP = """Learn a stream of tasks, measure after each, and write a run folder.

Without arguments, ten handwritten digits that scikit-learn carries are learned in five tasks, in about half a minute
on two cores. Every setting of the recipe can be given another value.

Examples:
  ictrl run
  ictrl run digits-paper --seed 1
  ictrl run digits --game.epochs 80 --anchors.replayed 100 --out runs/longer
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
    settings: Annotated[Recipe, tyro.conf.arg(name="")] = field(default_factory=Recipe)


@dataclass(frozen=True)
class RecipesCommand:
    pass


Command = (
    RunCommand
    | use.PredictCommand
    | use.SampleCommand
    | data.DataListCommand
    | data.DataDownloadCommand
    | data.DataShowCommand
    | RecipesCommand
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, 1 for a failure, 2 for a user's mistake, 130 after Ctrl-C."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):  # × and Δ do not stop at a terminal that cannot show them
        sys.stdout.reconfigure(errors="backslashreplace")
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    if arguments == ["--version"]:
        print(f"ictrl {ictrl.__version__}")
        return 0
    try:
        return dispatch(parse(arguments))
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return INTERRUPTED
    except (UserError, NonFiniteError, OSError) as error:
        if debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        return USER_MISTAKE if isinstance(error, UserError) else FAILURE


def parse(arguments: list[str]) -> Command:
    """The command that was typed. A recipe's values are the defaults that options override, so it is read first."""
    run_name, show_name = _word_after(["run"], arguments), _word_after(["data", "show"], arguments)
    command = _parse_with(run_name, show_name, arguments)
    if isinstance(command, RunCommand) and command.recipe != run_name:  # the recipe was typed after an option
        command = _parse_with(command.recipe, show_name, arguments)
    if isinstance(command, data.DataShowCommand) and command.what != show_name:
        command = _parse_with(run_name, command.what, arguments)
    return command


def _word_after(words: list[str], arguments: list[str]) -> str:
    """What follows these words; the default recipe if it is an option or nothing."""
    typed = arguments[len(words)] if arguments[: len(words)] == words and len(arguments) > len(words) else "-"
    return DEFAULT_RECIPE if typed.startswith("-") else typed


def _parse_with(run_name: str, show_name: str, arguments: list[str]) -> Command:
    def subcommand(name: str, text: str, **default: Any) -> Any:
        """All of its help for a command that was typed; in a list of commands its first line."""
        shown = text if name in arguments else text.splitlines()[0]
        return tyro.conf.subcommand(name, description=shown, **default)

    run_default = RunCommand(run_name, settings=load_recipe(run_name))
    show_default = data.show_default(show_name)
    data_commands = (
        Annotated[data.DataListCommand, subcommand("list", data.LIST_HELP)]
        | Annotated[data.DataDownloadCommand, subcommand("download", data.DOWNLOAD_HELP)]
        | Annotated[data.DataShowCommand, subcommand("show", data.SHOW_HELP, default=show_default)]
    )
    commands = (
        Annotated[RunCommand, subcommand("run", RUN_HELP, default=run_default)]
        | Annotated[use.PredictCommand, subcommand("predict", use.PREDICT_HELP)]
        | Annotated[use.SampleCommand, subcommand("sample", use.SAMPLE_HELP)]
        | Annotated[data_commands, subcommand("data", data.DATA_HELP)]
        | Annotated[RecipesCommand, subcommand("recipes", RECIPES_HELP)]
    )
    description = (
        "Learn image classes one task after another, without keeping an old image. `ictrl run` is a good beginning.\n\n"
        "Also: --help after any command, --version, and --debug with any command for the traceback of an error."
    )
    command: Command = tyro.cli(
        commands,
        prog="ictrl",
        description=description,
        args=arguments,
    )
    return command


def dispatch(command: Command) -> int:
    match command:
        case RunCommand():
            return run(command)
        case use.PredictCommand():
            return use.predict(command)
        case use.SampleCommand():
            return use.sample(command)
        case data.DataListCommand():
            return data.data_list(command)
        case data.DataDownloadCommand():
            return data.data_download(command)
        case data.DataShowCommand():
            return data.data_show(command)
        case RecipesCommand():
            return recipes()


def recipes() -> int:
    table = Table("recipe", "what it shows", box=None, pad_edge=False)
    for name in recipe_names():
        table.add_row(name, load_recipe(name).description)
    Console().print(table)
    return 0


def run(command: RunCommand) -> int:
    console = Console(highlight=False)
    recipe = command.settings
    out = command.out or Path("runs") / f"{recipe.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    with Watch(console) as watch:
        try:
            results, learner = experiment.run(recipe, out, watch)
        except KeyboardInterrupt:
            kept = f"What was learned and measured before it is in {out}." if watch.done else "Nothing was learned yet."
            print(f"Stopped in task {watch.done + 1}. {kept}", file=sys.stderr)
            return INTERRUPTED
    print_results(console, results)
    from ictrl.report import overview  # matplotlib: a second that --help should not take

    replayed = {int(label): learner.sample(int(label), 10) for label in learner.classes_[:20]}
    write_atomically(out / "figures" / "overview.png", overview(results, replayed))
    console.print(f"Written to {out}: results.json, figures/overview.png, metrics.jsonl, config.toml and the learner,")
    console.print(f'ready for ICTRL.load("{out / experiment.LEARNER}").')
    return 0


class Watch(Listener):
    """The progress of a run: bars on a terminal, a line a task everywhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.done = 0
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self.bars = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.tasks = self.bars.add_task("tasks", total=None, note="")
        self.epochs = self.bars.add_task("epochs", total=None, note="")

    def __enter__(self) -> "Watch":
        self.bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bars.stop()

    def on_task(self, index: int, total: int, task: Task) -> None:
        self.bars.update(self.tasks, total=total, completed=index, note=f"now {_classes(task.classes)}")
        self.bars.reset(self.epochs, note="")

    def on_epoch(self, report: EpochReport) -> None:
        terms = report.terms
        note = f"ΔR(Z) {terms['encoder.reduction']:.1f}  distance of new classes {terms['decoder.distance_new']:.2f}"
        if self.done:
            note += f", of old {terms['decoder.distance_old']:.2f}"
        self.bars.update(self.epochs, total=report.epochs, completed=report.epoch, note=note)

    def on_measured(self, results: dict[str, Any]) -> None:
        self.done += 1
        self.bars.update(self.tasks, completed=self.done)
        tasks, scores = results["tasks"], (f"{name} {results[name]['last']:.3f}" for name in ("memory", "reencoded"))
        self.console.print(
            f"task {self.done} of {len(tasks)}, {_classes(tasks[self.done - 1])}: accuracy so far {', '.join(scores)}"
        )


def _classes(labels: Sequence[int]) -> str:
    return ("class " if len(labels) == 1 else "classes ") + " ".join(map(str, labels))


def print_results(console: Console, results: dict[str, Any]) -> None:
    """The table of a finished run, and what it kept."""
    protocols = ("memory", "reencoded", "floor")
    table = Table("after task", "new classes", box=None, pad_edge=False)
    for title in ("memory", "reencoded", "untrained floor"):
        table.add_column(title, justify="right")
    for t, classes in enumerate(results["tasks"]):
        seen = (results[protocol]["seen"][t] for protocol in protocols)
        table.add_row(str(t + 1), " ".join(map(str, classes)), *(f"{accuracy:.3f}" for accuracy in seen))
    for name in ("average", "forgetting"):
        table.add_row(name, "", *(f"{results[protocol][name]:.3f}" for protocol in protocols))
    kept, replaced = results["memory_bytes"], results["image_bytes"]
    console.print(f"\nAccuracy over all classes seen so far ({sum(results['test_images'])} test images in the end)\n")
    console.print(table)
    console.print(
        "\nmemory: from what the learner kept alone. reencoded: the paper's protocol, refitted from all old training\n"
        "images. untrained floor: the same networks before any learning, reencoded.\n"
    )
    console.print(
        f"Kept: {kept / 1000:,.0f} kB of moments instead of {replaced / 1000:,.0f} kB of images "
        f"({kept / replaced:.0%}), and two networks of {results['parameters']:,} parameters together."
    )
    console.print("The moments of a class take the same space however many images it has.")
    console.print(f"Learning took {results['seconds']['learn']:.0f} s on {results['device']}.")
