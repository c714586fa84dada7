"""`ictrl study`: the runs behind a table."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from ictrl.cli.options import OptionalPath, OtherDevice
from ictrl.cli.output import last_accuracies, open_console
from ictrl.cli.watch import Watch, bars_on, stop_requests
from ictrl.errors import InputError
from ictrl.experiment.run import Stopped
from ictrl.experiment.study import Planned, chosen, load_study, plan, study_names
from ictrl.experiment.study_table import publish, results_of, table
from ictrl.experiment.study_workers import carry_out, check_planned
from ictrl.files import make_folder

STUDY_HELP = """Do all the runs of a study, one by one or several at once, and write its table. No name: list them.

A study is a set of recipes, seeds and changed settings: those of the paper's tables come with ictrl, and you can write
your own as a TOML file. Finished runs are not repeated, and runs that begin alike share their first task. Ctrl-C stops
after the current epoch; the same command goes on. A run that fails does not stop the others.

Examples:
  ictrl study
  ictrl study methods-digits --seeds 0
  ictrl study constraint --root data
  ictrl study table1 --root data --only MNIST --seeds 0
  ictrl study my-study.toml --jobs 2

A study file with three lines: a recipe, the same with one setting changed, and another method:
  description = "What the weight of new classes does"
  seeds = [0, 1]
  recipe = "ictrl-digits"
  [[lines]]
  label = "as it is"
  [[lines]]
  label = "a weight of 10"
  settings.method.later.weights.lambda_new = 10.0
  [[lines]]
  label = "no protection"
  recipe = "finetune-digits"
"""


@dataclass(frozen=True)
class StudyCommand:
    """The runs behind a table."""

    name: Annotated[
        tyro.conf.Positional[str | None],
        tyro.conf.DisallowNone,
        tyro.conf.arg(metavar="[STUDY]", help_behavior_hint=""),
    ] = None
    """a study that `ictrl study` lists, or a TOML file of your own"""
    out: Path = Path("runs") / "studies"
    """folder in which the study gets a folder of its own"""
    root: OptionalPath = None
    """folder that holds the datasets' files; by default where downloads go"""
    device: OtherDevice = None
    seeds: tuple[int, ...] = ()
    """other seeds than the study's"""
    only: tuple[str, ...] = ()
    """only the lines whose labels contain one of these"""
    jobs: int = 1
    """runs at once, each with its memory; on a CPU they share the cores, and results may differ in their last digits"""
    publish: OptionalPath = None
    """folder in which to write the results of every finished run too, one JSON file each, below the study's name"""

    def execute(self) -> None:
        console = open_console()
        if self.name is None:
            listed = Table("study", "runs", "what it answers", box=None, pad_edge=False)
            for name in study_names():
                study = load_study(name)
                listed.add_row(name, str(sum(len(line.seeds) for line in study.lines)), study.description)
            console.print(listed)
            return
        if self.jobs < 1:
            raise InputError(f"Expected --jobs to be at least 1 but got {self.jobs}.")
        study = chosen(load_study(self.name), self.only)
        out = self.out / study.name
        root = None if self.root is None else str(self.root)
        planned = plan(study, out, root=root, device=self.device, seeds=self.seeds)
        check_planned(planned)
        if self.publish is not None:  # better refused now than after hours
            make_folder(self.publish / study.name)
        left = sum(not item.finished for item in planned)
        console.print(study.description, soft_wrap=True)
        console.print(f"Runs: {len(planned)}, still to be done: {left}; written to {out}.", soft_wrap=True)
        begun = time.perf_counter()

        def ended(item: Planned, how: str) -> None:
            nonlocal left
            left -= 1
            passed = f"{(time.perf_counter() - begun) / 60:.1f} min"
            console.print(f"{item.folder.name}: {how}; {left} to do after {passed}", soft_wrap=True)

        def finished(item: Planned) -> None:
            results = item.results
            assert results is not None
            ended(item, last_accuracies(results))
            if self.publish is not None:
                publish(study, planned, self.publish / study.name)

        def show() -> None:
            console.print("\nLast ± deviation / average accuracy\n")
            console.print(table(study, results_of(planned)), markup=False, soft_wrap=True)
            if self.publish is not None:
                publish(study, planned, self.publish / study.name)

        with stop_requests() as stop:
            try:
                with _Bars(console, planned) as bars:
                    carry_out(
                        study,
                        planned,
                        out,
                        jobs=self.jobs,
                        listener=bars.of_run,
                        finished=finished,
                        failed=lambda item, error: ended(item, f"failed ({str(error).rstrip('.')})"),
                        glance=bars.of_all,
                        stop=stop,
                    )
            except KeyboardInterrupt:
                raise Stopped("Stopped. The same command goes on where it was.") from None
            except InputError:
                if any(item.finished for item in planned):
                    show()
                raise
        show()


class _Bars:
    """The bars of one run after another, or one bar for all."""

    def __init__(self, console: Console, planned: list[Planned]) -> None:
        self.console = console
        self.planned = [item for item in planned if not item.finished]
        self.shown: Watch | Progress | None = None

    def of_run(self, item: Planned) -> Watch:
        self._close()
        self.shown = Watch(self.console, item.folder)
        return self.shown.__enter__()

    def of_all(self) -> None:
        if not isinstance(self.shown, Progress):
            self.shown = bars_on(self.console)
            self.shown.add_task("epochs of all runs", total=None, note="")
            self.shown.start()
        if not self.shown.disable:
            played, whole = map(sum, zip(*(item.epochs for item in self.planned)))
            self.shown.update(TaskID(0), completed=played, total=whole)

    def __enter__(self) -> "_Bars":
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def _close(self) -> None:
        if self.shown is not None:
            self.shown.__exit__(None, None, None)
            self.shown = None
