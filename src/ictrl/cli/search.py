"""`ictrl search`: settings chosen by validation images."""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.progress import Progress, TaskID

from ictrl.cli.many_runs import Jobs, check_jobs
from ictrl.cli.on_ray import Address, Asked, Cpus, Gpus, On, crew_on
from ictrl.cli.options import Flag, OptionalPath, OtherDevice
from ictrl.cli.output import open_console
from ictrl.cli.terminal import tell
from ictrl.cli.watch import bars_on, stop_requests
from ictrl.data import Task
from ictrl.errors import InputError, RunsFailedError
from ictrl.experiment.crew import Crew, Here, Processes
from ictrl.experiment.locks import alone
from ictrl.experiment.run import Listener, Stopped
from ictrl.experiment.run_data import stream_of
from ictrl.experiment.run_folder import LOCK
from ictrl.experiment.search import load_search
from ictrl.files import make_folder, remove_unfinished
from ictrl.training.loop import EpochReport

if TYPE_CHECKING:
    from ictrl.experiment.search_work import SearchWork

SEARCH_HELP = """Search the best settings of a recipe, by accuracy from memory on validation images.

A search is a TOML file: a recipe, and ranges of settings. Trial after trial is learned, each with settings that Optuna
draws from the ranges, more and more often near those that did well. Test images are never looked at: the file has to
hold out validation images. Needs the extra: pip install 'ictrl[search]'.

The folder gets a run folder per trial and seed, search.json with every trial, table.md with the best ones, best.toml, a
recipe with the best settings, and Optuna's journal. Ctrl-C stops after the current epoch, and the same command goes on;
a larger --trials goes on too. Trials that are over are not repeated; one that fails is noted and stops no other.

Examples:
  ictrl search my-search.toml --trials 50
  ictrl search my-search.toml --trials 100           (fifty more)
  ictrl search my-search.toml --trials 50 --prune    (leave off trials that fall behind)
  ictrl search my-search.toml --trials 50 --jobs 4
  ictrl search my-search.toml --trials 50 --on ray
  ictrl run runs/searches/my-search/best.toml --stream.class-order-seed 1 --seed 1

A search file:
  description = "How the digits' trunk is trained best"
  recipe = "digits"
  seeds = [11]
  maximise = "last"                      # or "average"
  settings.stream = { validation = 0.2, class_order_seed = 7 }
  [ranges]
  method.trunk.learning_rate = { low = 1e-4, high = 1e-2, log = true }
  method.trunk.epochs = { low = 10, high = 40, step = 10 }
  method.trunk.schedule = ["cosine", "constant"]
"""


@dataclass(frozen=True)
class SearchCommand:
    """Settings chosen by validation images."""

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SEARCH.toml")]
    """a search, as described above"""
    trials: int = 20
    """trials in all, those of earlier times included"""
    seed: int = 0
    """of what is drawn: the same seed, one job at a time, draws the same trials"""
    prune: Flag = False
    """leave off a trial that after a task is worse than the median of those before it"""
    out: Path = Path("runs") / "searches"
    """folder in which the search gets a folder of its own"""
    root: OptionalPath = None
    """folder that holds the datasets' files; by default where downloads go"""
    device: OtherDevice = None
    jobs: Jobs = 1
    on: On = None
    address: Address = None
    cpus: Cpus = None
    gpus: Gpus = None

    def execute(self) -> None:
        from ictrl.experiment.search_record import best_recipe, table, write_record
        from ictrl.experiment.search_trials import Trials, optuna_module
        from ictrl.experiment.search_work import SearchWork

        check_jobs(self.jobs)
        if self.trials < 1 or self.seed < 0:
            wrong = f"--trials {self.trials}" if self.trials < 1 else f"--seed {self.seed}"
            raise InputError(f"Expected --trials of at least 1 and --seed of at least 0 but got {wrong}.")
        asked = Asked(self.on, self.address, self.cpus, self.gpus, self.jobs)
        asked.check()
        optuna_module()
        search = load_search(self.file)
        out, console = self.out / search.name, open_console()
        root = None if self.root is None else str(self.root)
        make_folder(out)
        with ExitStack() as held:
            held.enter_context(alone(out / LOCK, out))
            remove_unfinished(out)
            trials = Trials(search, out, self.seed)
            begun, left = time.perf_counter(), max(0, self.trials - trials.over)
            console.print(search.description, soft_wrap=True)
            seeds = f", each with {len(search.line.seeds)} seeds" if len(search.line.seeds) > 1 else ""
            console.print(f"Trials: {self.trials}{seeds}, still to be done: {left}; written to {out}.", soft_wrap=True)

            def ended(number: int, how: str) -> None:
                passed = f"{(time.perf_counter() - begun) / 60:.1f} min"
                to_do = max(0, self.trials - trials.over)
                console.print(f"trial {number}: {how}; {to_do} to do after {passed}", soft_wrap=True)

            work = SearchWork(search, trials, out, root, self.device, self.prune, ended)
            recipe = search.planned(0, {}, out, root, self.device)[0].recipe
            with crew_on(console, asked, {recipe.run.device} if left else set(), out) as crew:
                if left:
                    if crew is None:
                        stream_of(recipe)  # a mistake in the data shows before anything is drawn
                    self._carry_out(work, crew, console)
            write_record(search, trials, out)
            if not (best := trials.best(1)):
                raise RunsFailedError(f"Expected a trial that came to its end but all {trials.over} did not: {out}.")
            console.print(f"\nThe best trials, by accuracy from memory on validation images ({search.maximise})\n")
            console.print(table(search, trials), markup=False, soft_wrap=True)
            console.print(f"\nThe best settings, as a recipe ({out / 'best.toml'}):\n", soft_wrap=True)
            console.print(best_recipe(search, best[0]).rstrip(), markup=False, soft_wrap=True)
            tell(
                "warning: these settings were chosen by this very figure, which is therefore too good. Before one "
                "is published, run the recipe with another class order and other seeds."
            )

    def _carry_out(self, work: "SearchWork", crew: Crew | None, console: Console) -> None:
        """Until all trials are over, with a bar that shows how many are."""
        bars = bars_on(console)
        bar = bars.add_task("trials", total=self.trials, completed=work.trials.over, note="")

        def glance() -> None:
            bars.update(bar, completed=work.trials.over)

        try:
            with stop_requests() as stop, bars:
                here = Here(lambda item: _Shown(bars, bar), stop) if self.jobs == 1 else Processes(self.jobs)
                work.carry_out(self.trials, crew or here, glance, stop)
        except KeyboardInterrupt:
            raise Stopped("Stopped. The same command goes on where it was.") from None


class _Shown(Listener):
    """Where a trial stands, beside the bar of all."""

    def __init__(self, bars: Progress, bar: TaskID) -> None:
        self.bars, self.bar, self.tasks = bars, bar, 0

    def on_task(self, index: int, total: int, task: Task) -> None:
        self.tasks = total

    def on_epoch(self, index: int, report: EpochReport) -> None:
        note = f"task {index + 1} of {self.tasks}, epoch {report.epoch} of {report.epochs}"
        self.bars.update(self.bar, note=note)
