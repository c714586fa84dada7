"""One run, several processes: all of them learn and measure, the first one writes.

What the others hold is a folder that looks like that of the run, and in which nothing is written.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ictrl.config import Recipe, StageConfig
from ictrl.data import Task
from ictrl.errors import InputError
from ictrl.experiment.checkpoints import Position
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.sheets import SheetFolder
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import check_shares
from ictrl.parallel.agreement import any_of, from_first, wait_for_all
from ictrl.parallel.sharing import group, is_first


class Onlooker(RunFolder):
    """The folder of a run that another process writes."""

    def write_results(self, *_: Any) -> None: ...

    def write_profile(self, *_: Any) -> None: ...

    def save_learner(self, *_: Any) -> None: ...

    def save_task(self, *_: Any) -> None: ...

    def keep_pictures(self, *_: Any) -> None: ...

    def go_on(self, *_: Any) -> None: ...

    def check_data(self, *_: Any) -> None: ...

    def log(self) -> Any:
        return nullcontext(_NoLog())

    @property
    def sheets(self) -> SheetFolder:
        return _NoSheets(self.path)


class _NoLog:
    def add(self, line: str) -> None: ...

    def flush(self) -> None: ...


class _NoSheets(SheetFolder):
    def begin(self, *_: Any) -> None: ...

    def write_reconstructions(self, *_: Any) -> None: ...


@contextmanager
def opened(folder: AbstractContextManager[RunFolder], path: Path) -> Iterator[RunFolder]:
    """The folder of a run: opened and locked by the first process, for the others to look at."""
    if not is_first():
        wait_for_all()
        yield Onlooker(path)
        return
    with folder as found:
        wait_for_all()
        yield found


def agreed(fingerprint: dict[str, Any]) -> dict[str, Any]:
    """What data is, if all processes read the same."""
    if any_of(from_first(fingerprint) != fingerprint):
        raise InputError(
            "Expected every process to read the same data but some read other data: put the same files in the same "
            "place on every machine."
        )
    return fingerprint


def same_position(position: Position, path: Path) -> Position:
    """Where a run goes on, if all processes have found the same."""
    found = position.done, position.epoch
    if any_of(from_first(found) != found):
        raise InputError(f"Expected every process to see the same files in {path}: share the folder between machines.")
    return position


def check_together(learner: Learner[Any], tasks: list[Task]) -> None:
    """Whether several processes can learn these tasks: refused before anything is written."""
    if (found := group()) is None:
        return
    check_shares(learner)
    for number, task in enumerate(tasks, start=1):
        for name, stage in _stages(learner.recipe).items():
            images = len(task.rows)
            if stage.batch == "rule" or not stage.epochs:
                continue
            batch = images // -(-images // stage.batch)
            if batch < found.size:
                raise InputError(
                    f"Expected at most {batch} processes, since a batch ({name}, task {number}) has {batch} "
                    f"image{'s' * (batch > 1)}, but got {found.size}: begin fewer, or raise {name}.batch."
                )


def _stages(recipe: Recipe) -> Mapping[str, StageConfig]:
    return {name: stage for name, stage in vars(recipe.method).items() if isinstance(stage, StageConfig)}
