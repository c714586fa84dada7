"""Many runs by one command: their progress, a line for each that ends, and their table."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import Progress, TaskID

from ictrl.cli.output import counted, last_accuracies
from ictrl.cli.terminal import tell
from ictrl.cli.watch import Watch, bars_on, stop_requests
from ictrl.errors import InputError, RunsFailedError
from ictrl.experiment.crew import Crew
from ictrl.experiment.run import Stopped
from ictrl.experiment.study import Planned, Study
from ictrl.experiment.study_table import results_of, table
from ictrl.experiment.study_workers import carry_out, told

Jobs = Annotated[
    int,
    tyro.conf.arg(
        help="runs at once, each with its memory; on a CPU they share the cores, and results may differ in their last "
        "digits"
    ),
]


def check_jobs(jobs: int) -> None:
    """Refuse fewer than one run at once."""
    if jobs < 1:
        raise InputError(f"Expected --jobs to be at least 1 but got {jobs}.")


def do_all(
    console: Console,
    study: Study,
    planned: list[Planned],
    out: Path,
    jobs: int,
    *,
    only: Sequence[Planned] | None = None,
    crew: Crew | None = None,
    finished: Callable[[], None] = lambda: None,
    shown: Callable[[], None] = lambda: None,
) -> None:
    """Do the runs that are still to be done and print the table, also where some failed.

    With `only` no others are done here; the table has all that there are. `finished` is called after each run, `shown`
    after the table.
    """
    own = planned if only is None else only
    left = sum(not item.finished for item in own)
    console.print(study.description, soft_wrap=True)
    runs = str(len(own)) if only is None else f"{len(own)} of {len(planned)}"
    console.print(f"Runs: {runs}, still to be done: {left}; written to {out}.", soft_wrap=True)
    begun = time.perf_counter()

    def ended(item: Planned, how: str) -> None:
        nonlocal left
        left -= 1
        passed = f"{(time.perf_counter() - begun) / 60:.1f} min"
        console.print(f"{item.folder.name}: {how}; {left} to do after {passed}", soft_wrap=True)

    def done(item: Planned) -> None:
        if (results := item.results) is None:
            raise InputError(item.damage or f"Expected results in {item.folder} but found none.")
        ended(item, last_accuracies(results))
        finished()

    def show() -> None:
        console.print("\nLast ± deviation / average accuracy\n")
        console.print(table(study, results_of(planned)), markup=False, soft_wrap=True)
        if only is not None and (others := sum(not item.finished for item in planned if item not in only)):
            left_to_them = counted(others, "run is", "runs are")
            console.print(f"\nOf the other parts {left_to_them} still to be done.", soft_wrap=True)
        shown()

    with stop_requests() as stop:
        try:
            with _Bars(console, own) as bars:
                carry_out(
                    study,
                    planned,
                    out,
                    only=only,
                    jobs=jobs,
                    crew=crew,
                    listener=bars.of_run,
                    finished=done,
                    failed=lambda item, error: ended(item, f"failed ({told(error).rstrip('.')})"),
                    glance=bars.of_all,
                    stop=stop,
                    said=lambda line: tell(f"warning: {line}"),
                )
        except KeyboardInterrupt:
            raise Stopped("Stopped. The same command goes on where it was.") from None
        except (InputError, RunsFailedError):
            if any(item.finished for item in planned):
                show()
            raise
    show()


class _Bars:
    """The bars of one run after another, or one bar for all."""

    def __init__(self, console: Console, planned: Sequence[Planned]) -> None:
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
