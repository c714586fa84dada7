"""The folder of a run: what lies in it, who may write to it, and where a run that was stopped goes on.

    RUN/config.toml                              the resolved recipe
        metrics.jsonl                            a line per epoch
        results.json                             everything measured so far
        checkpoint/after-task-002.safetensors    the learner after its second task; the two newest are kept, or all
        checkpoint/task-003-epoch-00040.…        the third task after 40 epochs, until it is done
        taught.safetensors                       the learner with what it was taught since, or without what it forgot
        data.json                                what the data was, to notice if it changes
        pictures/                                test images and their reconstructions, if the recipe keeps some
        report.html, figures/                    what `ictrl report` makes of all this

Every file but the log is written under another name, flushed and renamed, so a run that is killed at any moment leaves
good files. A file that went bad on the disk is found by its digest, and the one before it is used. What a run that goes
on would write over without being able to write the same again is kept beside it, and said.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ictrl.config import Recipe
from ictrl.errors import InputError
from ictrl.experiment.checkpoints import Position, newest_position, remove_superseded, save_learner, save_task
from ictrl.experiment.locks import alone
from ictrl.experiment.metrics_log import read_log
from ictrl.experiment.results import Results
from ictrl.experiment.sheets import SheetFolder
from ictrl.files import Log, free_name, is_failure, is_unfinished, make_folder, remove_unfinished, write_atomically
from ictrl.methods.base import Learner
from ictrl.methods.storage import CHECKPOINTS
from ictrl.recipes.reader import read_resolved
from ictrl.recipes.tables import to_toml
from ictrl.training.loop import EpochReport
from ictrl.typed_json import read_json, refuse

LOCK = ".lock"
PICTURES = "pictures"
WRITTEN_TO = (".", CHECKPOINTS, PICTURES, "figures", "review", "review-with-labels")


@dataclass(frozen=True)
class RunFolder:
    path: Path

    @classmethod
    @contextmanager
    def create(cls, path: Path, recipe: Recipe) -> Iterator["RunFolder"]:
        """A new run, locked. A folder that holds anything already is refused, so that no run is written over; what a
        run that was killed at its very beginning has left is nothing."""
        folder, config = cls(path), to_toml(recipe).encode()
        folder._check_new()
        try:
            make_folder(path)
        except OSError as error:
            if is_failure(error):
                raise
            raise InputError(f"Expected to write the run into {path} but could not: {error.strerror}.") from None
        with folder.locked():
            folder._check_new()  # once more: another process may have made it in the meantime
            folder.remove_unfinished()
            write_atomically(folder.config, config)
            yield folder

    def _check_new(self) -> None:
        if not self.path.exists() or (self.path.is_dir() and all(map(_left_by_the_dead, self.path.iterdir()))):
            return
        raise InputError(
            f"Expected a new or empty folder for the run but {self.path} is not: choose another --out"
            + (f", or go on with `ictrl resume {self.path}`." if self.config.exists() else ".")
        )

    @classmethod
    @contextmanager
    def reopen(cls, path: Path) -> Iterator["RunFolder"]:
        """A run that was begun before, locked."""
        folder = cls.existing(path)
        with folder.locked():
            folder.remove_unfinished()
            yield folder

    @classmethod
    def existing(cls, path: Path) -> "RunFolder":
        """A run to look at."""
        folder = cls(path)
        if not folder.config.is_file():
            what = "has no config.toml" if path.exists() else "is not there"
            raise InputError(f"Expected a run folder but {path} {what}: `ictrl run` makes one.")
        return folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time; the system lets go of the lock when its holder dies."""
        with alone(self.path / LOCK, self.path):
            yield

    def remove_unfinished(self) -> None:  # of processes that died
        for part in WRITTEN_TO:
            remove_unfinished(self.path / part)

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def results(self) -> Path:
        return self.path / "results.json"

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    @property
    def sheets(self) -> SheetFolder:
        return SheetFolder(self.path / PICTURES, self.recipe().run.keep_pictures)

    def recipe(self) -> Recipe:
        return read_resolved(self.config)

    # writing

    def write_results(self, results: Results) -> None:
        write_atomically(self.results, results.to_json().encode())

    def write_profile(self, profile: dict[str, Any]) -> None:
        write_atomically(self.path / "profile.json", (json.dumps(profile, indent=2) + "\n").encode())

    def save_learner(self, learner: Learner[Any], done: int, notes: dict[str, str]) -> None:
        """The learner after a task; what lies further back than the one before it goes, unless the recipe keeps all."""
        make_folder(self.checkpoints)
        save_learner(self.checkpoints, learner, done, notes, self.recipe().run.checkpoint.every_task)

    def save_task(self, learner: Learner[Any], done: int, report: EpochReport) -> None:
        """The task after `done` others, half-way."""
        make_folder(self.checkpoints)
        save_task(self.checkpoints, learner, done, report)

    def log(self) -> Log:
        """To be written a line per epoch, and flushed before each checkpoint."""
        return Log(self.metrics)

    def go_on(self, position: Position) -> None:
        """Make the folder that of a run at this position: lines of epochs that will be played again go, and so do
        checkpoints that others have superseded. What would be lost is kept beside it, and said."""
        log, learned = read_log(self.metrics), self._learned()
        told = max(log.tasks, learned)
        if told and not position.done and not position.damaged:
            raise InputError(
                f"Expected the checkpoints of {self.path}, which has learned {told} task{'s' * (told > 1)}, but "
                f"{self.checkpoints} has none: put them back, or begin a new run in another folder."
            )
        for path in position.damaged:
            aside = free_name(path.with_name(f"{path.name}.damaged"))
            path.rename(aside)
            position.warnings.append(f"Kept the damaged {path.name} as {aside.name}.")
        if told > position.done:
            position.warnings.append(
                f"Of {told} tasks that {self.path} has learned, checkpoints are left of {position.done}: the rest is "
                "learned again."
            )
            if learned > position.done:
                self._keep_aside(self.results, position)
        if log.damaged:
            numbers = ", ".join(map(str, log.damaged[:5])) + (" …" if len(log.damaged) > 5 else "")
            position.warnings.append(
                f"Expected JSON with a task and an epoch in every line of {self.metrics} but could not read "
                f"{len(log.damaged)} ({numbers}): left out."
            )
        if log.damaged or log.tasks > position.done:
            self._keep_aside(self.metrics, position)
        remove_superseded(self.checkpoints, position.done, self.recipe().run.checkpoint.every_task)
        if self.metrics.exists() and (kept := log.until(position.done, position.epoch)) != self.metrics.read_bytes():
            write_atomically(self.metrics, kept)

    def _learned(self) -> int:
        """Tasks that results.json tells of."""
        try:
            return Results.read(self.results).done if self.results.exists() else 0
        except InputError:
            return 0  # it is written again from the checkpoint

    def _keep_aside(self, path: Path, position: Position) -> None:
        aside = free_name(path.with_name(f"{path.stem}-before{path.suffix}"))
        write_atomically(aside, path.read_bytes())
        position.warnings.append(f"Kept {path.name} as it was as {aside.name}.")

    def keep_pictures(self, each: int) -> None:
        """From now on, keep so many test images of each class."""
        recipe = self.recipe()
        if each != recipe.run.keep_pictures:
            recipe = replace(recipe, run=replace(recipe.run, keep_pictures=each))
            write_atomically(self.config, to_toml(recipe).encode())

    # reading

    def position(self, device: str | None = None, given: Learner[Any] | None = None) -> Position:
        """The newest good state; a damaged file is passed over with a warning, and the one before it is used.

        A learner that was given, with networks of its own, takes over what the files hold.
        """
        return newest_position(self.path, self.checkpoints, self.recipe(), device, given)

    def learned(self, device: str | None = None) -> Position:
        """The newest good state, which must have learned something to be of use."""
        position = self.position(device)
        if not position.done:
            why = f" that can be read ({position.warnings[0].partition(' Going back')[0]})" if position.warnings else ""
            raise InputError(
                f"Expected a run with a task learned but {self.path} has none{why}: `ictrl resume {self.path}`."
            )
        return position

    def noted_data(self) -> dict[str, Any]:
        """What was noted of the data when the run began; of older runs less, or nothing."""
        with suppress(OSError, InputError):
            return dict(found) if isinstance(found := read_json(self.path / "data.json"), dict) else {}
        return {}

    def check_data(self, fingerprint: dict[str, Any], about: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Note what the data is, and more about it, or refuse data that is not what was noted."""
        path = self.path / "data.json"
        if not path.exists():
            write_atomically(path, (json.dumps({**fingerprint, **about}, indent=2) + "\n").encode())
            return
        noted = read_json(path)
        if not isinstance(noted, dict):
            refuse(path, "it has no entries")
        changed = [
            f"{key}: {noted.get(key)} → {value}" for key, value in fingerprint.items() if noted.get(key) != value
        ]
        if changed:
            raise InputError(
                f"Expected the data that {self.path} was begun with but it has changed ({'; '.join(changed)}): "
                "put it back, or begin a new run."
            )


def _left_by_the_dead(entry: Path) -> bool:
    """Whether this is all that a run can leave that was killed before it had a config.toml."""
    if entry.name == CHECKPOINTS and entry.is_dir() and not entry.is_symlink():
        return all(is_unfinished(inner.name) for inner in entry.iterdir())
    return entry.name == LOCK or is_unfinished(entry.name)
