"""The folder of a run: what lies in it, who may write to it, and where a run that was stopped goes on.

    RUN/config.toml                              the resolved recipe
        metrics.jsonl                            a line per epoch
        results.json                             everything measured so far
        checkpoint/after-task-002.safetensors    the learner after its second task; the two newest are kept
        checkpoint/task-003-epoch-00040.…        the third task after 40 epochs, until it is done
        taught.safetensors                       the learner with what it was taught since, or without what it forgot
        data.json                                what the data was, to notice if it changes
        pictures/                                test images and their reconstructions, if the recipe keeps some
        report.html, figures/                    what `ictrl report` makes of all this

Every file but the log is written under another name, flushed and renamed, so a run that is killed at any moment leaves
good files. A file that went bad on the disk is found by its digest, and the one before it is used.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ictrl.config import Recipe
from ictrl.errors import InputError
from ictrl.experiment.checkpoints import Position, newest_position, save_learner, save_task
from ictrl.experiment.locks import alone
from ictrl.experiment.results import Results
from ictrl.experiment.sheets import SheetFolder
from ictrl.files import UNFINISHED, make_folder, write_atomically
from ictrl.methods.base import Learner
from ictrl.recipes.reader import read_resolved
from ictrl.recipes.tables import to_toml
from ictrl.training.loop import EpochReport

LOCK = ".lock"
PICTURES = "pictures"


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
            for part in (path, folder.checkpoints, path / PICTURES):
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
        with alone(self.path / LOCK, self.path):
            yield

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
        return SheetFolder(self.path / PICTURES, self.recipe().run.keep_pictures)

    def recipe(self) -> Recipe:
        return read_resolved(self.config)

    # writing

    def write_results(self, results: Results) -> None:
        write_atomically(self.results, results.to_json().encode())

    def write_profile(self, profile: dict[str, Any]) -> None:
        write_atomically(self.path / "profile.json", (json.dumps(profile, indent=2) + "\n").encode())

    def save_learner(self, learner: Learner[Any], done: int, notes: dict[str, str]) -> None:
        """The learner after a task; what lies further back than the one before it goes."""
        save_learner(self.checkpoints, learner, done, notes)

    def save_task(self, learner: Learner[Any], done: int, report: EpochReport) -> None:
        """The task after `done` others, half-way."""
        save_task(self.checkpoints, learner, done, report)

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
            damaged = (
                f" that can be read ({position.warnings[0].partition(' Going back')[0]})" if position.warnings else ""
            )
            raise InputError(
                f"Expected a run with a task learned but {self.path} has none{damaged}: `ictrl resume {self.path}`."
            )
        return position

    def noted_data(self) -> dict[str, Any]:
        """What was noted of the data when the run began; of older runs less, or nothing."""
        try:
            return dict(json.loads((self.path / "data.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return {}

    def check_data(self, fingerprint: dict[str, Any], about: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Note what the data is, and more about it, or refuse data that is not what was noted."""
        path = self.path / "data.json"
        if not path.exists():
            write_atomically(path, (json.dumps({**fingerprint, **about}, indent=2) + "\n").encode())
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
