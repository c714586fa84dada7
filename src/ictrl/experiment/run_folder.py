"""The folder of a run: what lies in it, who may write to it, and where a run that was stopped goes on.

    RUN/config.toml                              the resolved recipe
        metrics.jsonl                            a line per epoch
        results.json                             everything measured so far
        checkpoint/after-task-002.safetensors    the learner after its second task; the two newest are kept
        checkpoint/task-003-epoch-00040.…        the third task after 40 epochs, until it is done
        data.json                                what the data was, to notice if it changes
        pictures/                                a few test images and their reconstructions after each task
        report.html, figures/                    what `ictrl report` makes of all this

Every file but the log is written under another name, flushed and renamed, so a run that is killed at any moment leaves
good files. A file that went bad on the disk is found by its digest, and the one before it is used.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock

from ictrl.config import Recipe
from ictrl.errors import InputError
from ictrl.experiment.results import Results
from ictrl.experiment.sheets import SheetFolder
from ictrl.files import UNFINISHED, make_folder, write_atomically
from ictrl.methods.base import Learner, create_learner, load_learner
from ictrl.methods.storage import LEARNER, STOPPED_TASK, Stored, read_stored
from ictrl.recipes.reader import read_resolved
from ictrl.recipes.tables import differences, to_toml
from ictrl.training.loop import EpochReport

KEPT = 2  # checkpoints of each kind
LOCK = ".lock"


@dataclass
class Position:
    """Where a run stands."""

    learner: Learner[Any]
    done: int
    """tasks learned"""
    notes: dict[str, str] = field(default_factory=dict)
    """what was noted beside the learner"""
    stopped: Path | None = None
    """the next task, stopped half-way"""
    epoch: int = 0
    """epochs of that task"""
    warnings: list[str] = field(default_factory=list)
    """files that were passed over"""

    @property
    def class_names(self) -> dict[int, str]:
        """Names by label, as noted beside the learner."""
        return {int(label): name for label, name in json.loads(self.notes.get("class_names", "{}")).items()}


@dataclass(frozen=True)
class RunFolder:
    path: Path

    @classmethod
    @contextmanager
    def create(cls, path: Path, recipe: Recipe) -> Iterator["RunFolder"]:
        """A new run, locked. A folder that holds anything already is refused, so that no run is written over."""
        if path.exists() and (not path.is_dir() or any(entry.name != LOCK for entry in path.iterdir())):
            raise InputError(
                f"Expected a new or empty folder for the run but {path} is not: choose another --out"
                + (f", or go on with `ictrl resume {path}`." if (path / "config.toml").exists() else ".")
            )
        folder = cls(path)
        try:
            make_folder(path)
        except OSError as error:
            raise InputError(f"Expected to write the run into {path} but could not: {error.strerror}.") from None
        with folder.locked():
            folder.checkpoints.mkdir(exist_ok=True)
            write_atomically(folder.config, to_toml(recipe).encode())
            yield folder

    @classmethod
    @contextmanager
    def reopen(cls, path: Path) -> Iterator["RunFolder"]:
        """A run that was begun before, locked."""
        folder = cls.existing(path)
        with folder.locked():
            for part in (path, folder.checkpoints, folder.sheets.path):
                for unfinished in part.glob(f".*{UNFINISHED}"):  # a process was killed while it wrote this
                    unfinished.unlink()
            folder.checkpoints.mkdir(exist_ok=True)
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
        lock = filelock.FileLock(self.path / LOCK)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise InputError(f"Expected {self.path} to be free but another process is using it: wait for it.") from None
        except OSError as error:
            raise InputError(f"Expected to write into {self.path} but could not: {error.strerror}.") from None
        try:
            yield
        finally:
            lock.release()

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
        return self.path / "checkpoint"

    @property
    def sheets(self) -> SheetFolder:
        return SheetFolder(self.path / "pictures")

    def recipe(self) -> Recipe:
        return read_resolved(self.config)

    # writing

    def write_results(self, results: Results) -> None:
        write_atomically(self.results, results.to_json().encode())

    def write_profile(self, profile: dict[str, Any]) -> None:
        write_atomically(self.path / "profile.json", (json.dumps(profile, indent=2) + "\n").encode())

    def save_learner(self, learner: Learner[Any], done: int, notes: dict[str, str]) -> None:
        """The learner after a task; what lies further back than the one before it goes."""
        learner.save(self.checkpoints / f"after-task-{done:03d}.safetensors", notes)
        for old in [*self._learners()[KEPT:], *(path for _, _, path in self._stopped())]:
            old.unlink()

    def save_task(self, learner: Learner[Any], done: int, report: EpochReport) -> None:
        """The task after `done` others, half-way."""
        learner.save_task(self.checkpoints / f"task-{done + 1:03d}-epoch-{report.epoch:05d}.safetensors", report)
        for _, _, old in self._stopped()[KEPT:]:
            old.unlink()

    def keep_metrics(self, done: int, epoch: int) -> None:
        """Drop the lines of epochs that will be played again."""
        if not self.metrics.exists():
            return
        kept = []
        for line in self.metrics.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                break  # the process was killed while it wrote this line
            if (entry["task"], entry["epoch"]) <= (done, float("inf")) or (
                entry["task"] == done + 1 and entry["epoch"] <= epoch
            ):
                kept.append(line + "\n")
        write_atomically(self.metrics, "".join(kept).encode())

    # reading

    def position(self, device: str | None = None, given: Learner[Any] | None = None) -> Position:
        """The newest good state; a damaged file is passed over with a warning, and the one before it is used.

        A learner that was given, with networks of its own, takes over what the files hold.
        """
        recipe = self.recipe()
        warnings: list[str] = []
        if given is not None:
            adopt(given, recipe)
        position = Position(given or create_learner(recipe, device=device), done=0, warnings=warnings)
        for path in self._learners():
            try:
                stored = read_stored(path, LEARNER)
            except InputError as error:
                warnings.append(f"{error} Going back to the checkpoint before it.")
                continue
            self._check_unchanged(stored.recipe, recipe)
            learner = _loaded(path, stored, device if device is not None else recipe.run.device, given)
            position = Position(learner, int(path.stem.removeprefix("after-task-")), stored.notes, warnings=warnings)
            break
        for task, epoch, path in self._stopped():
            if task != position.done + 1:
                continue
            try:
                stored = read_stored(path, STOPPED_TASK)
            except InputError as error:
                warnings.append(f"{error} Going back to the checkpoint before it.")
                continue
            self._check_unchanged(stored.recipe, recipe)
            position.stopped, position.epoch = path, epoch
            break
        return position

    def learned(self, device: str | None = None) -> Position:
        """The newest good state, which must have learned something to be of use."""
        position = self.position(device)
        if not position.done:
            reasons = "".join(f" {warning}" for warning in position.warnings)
            raise InputError(
                f"Expected a run with a task learned but {self.path} has none: `ictrl resume {self.path}`.{reasons}"
            )
        return position

    def check_data(self, fingerprint: dict[str, Any]) -> None:
        """Note what the data is, or refuse data that is not what was noted."""
        path = self.path / "data.json"
        if not path.exists():
            write_atomically(path, (json.dumps(fingerprint, indent=2) + "\n").encode())
            return
        noted = json.loads(path.read_text(encoding="utf-8"))
        changed = [
            f"{key}: {noted.get(key)} → {value}" for key, value in fingerprint.items() if noted.get(key) != value
        ]
        if changed:
            raise InputError(
                f"Expected the data that {self.path} was begun with but it has changed ({'; '.join(changed)}): "
                "put it back, or begin a new run."
            )

    def _check_unchanged(self, begun_with: Recipe, recipe: Recipe) -> None:
        changed = differences(begun_with, recipe)
        if changed:
            raise InputError(
                f"Expected the recipe that {self.path} was begun with but its config.toml was changed "
                f"({'; '.join(changed)}): change it back, or begin a new run."
            )

    def _learners(self) -> list[Path]:
        """Learners after a task, newest first."""
        return sorted(self.checkpoints.glob("after-task-*.safetensors"), reverse=True)

    def _stopped(self) -> list[tuple[int, int, Path]]:
        """Tasks stopped half-way, with task and epoch, newest first."""
        pattern = re.compile(r"task-(\d+)-epoch-(\d+)\.safetensors")
        found = ((pattern.fullmatch(path.name), path) for path in self.checkpoints.glob("task-*.safetensors"))
        return sorted(((int(m[1]), int(m[2]), path) for m, path in found if m), reverse=True)


def adopt(learner: Learner[Any], recipe: Recipe) -> None:
    """Make a learner that was given, perhaps with networks of its own, that of a run with this recipe."""
    if learner.labels or learner.seed != recipe.run.seed or learner.recipe.method != recipe.method:
        raise InputError(
            f"Expected a new learner of the recipe's method, settings and seed {recipe.run.seed} but got {learner} "
            f"of seed {learner.seed}."
        )
    learner.recipe = recipe


def _loaded(path: Path, stored: Stored, device: str, given: Learner[Any] | None) -> Learner[Any]:
    """The learner of a good file; one that does not fit was written by other networks, and is not to be passed over."""
    try:
        if given is None:
            return load_learner(path, device=device)
        given.load_stored(stored, path)
        return given
    except InputError as error:
        raise InputError(
            f"{error} A run with networks of your own goes on with the same: ictrl.resume(folder, learner=…)."
        ) from None
