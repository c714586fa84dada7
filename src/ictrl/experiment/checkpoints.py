"""Checkpoints of a run: learners after each task, tasks stopped half-way, and the newest that is good."""

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ictrl.config import CheckpointConfig, Recipe
from ictrl.errors import InputError, UnreadableError
from ictrl.files import remove
from ictrl.methods.base import Learner, create_learner, load_learner
from ictrl.methods.storage import LEARNER, STOPPED_TASK, Stored, files_in, learners_in, read_stored, task_of
from ictrl.recipes.tables import differences
from ictrl.training.loop import EpochReport
from ictrl.typed_json import noted

KEPT = 2  # checkpoints of each kind, unless learners are kept after every task
STOPPED_NAME = re.compile(r"task-(\d{3,})-epoch-(\d{5,})\.safetensors", re.ASCII)


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
    damaged: list[Path] = field(default_factory=list)
    """the same files"""

    @property
    def class_names(self) -> dict[int, str]:
        """Names by label, as noted beside the learner."""
        return noted(self.notes, "class_names", dict[int, str], {})


class Due:
    """Whether a checkpoint is due."""

    def __init__(self, schedule: CheckpointConfig) -> None:
        self.schedule = schedule
        self.last = time.monotonic()

    def after(self, epoch: int) -> bool:
        epochs, minutes = self.schedule.every_epochs, self.schedule.every_minutes
        due = bool(epochs and epoch % epochs == 0) or bool(minutes and time.monotonic() - self.last >= 60 * minutes)
        if due:
            self.last = time.monotonic()
        return due


def save_learner(
    folder: Path, learner: Learner[Any], done: int, notes: dict[str, str], every_task: bool = False
) -> None:
    """The learner after a task; what lies further back than the one before it goes, unless every task's is kept."""
    learner.save(folder / f"after-task-{done:03d}.safetensors", notes)
    remove([*_superseded(folder, every_task), *(path for _, _, path in _stopped(folder))])


def save_task(folder: Path, learner: Learner[Any], done: int, report: EpochReport) -> None:
    """The task after `done` others, half-way."""
    learner.save_task(folder / f"task-{done + 1:03d}-epoch-{report.epoch:05d}.safetensors", report)
    remove(path for _, _, path in _stopped(folder)[KEPT:])


def remove_superseded(folder: Path, done: int, every_task: bool = False) -> None:
    """What a process that was killed between writing a checkpoint and removing older ones has left, after so many
    tasks."""
    stopped = _stopped(folder)
    learned = [path for task, _, path in stopped if task <= done]
    remove([*_superseded(folder, every_task), *learned, *(path for _, _, path in stopped[KEPT:])])


def _superseded(folder: Path, every_task: bool) -> list[Path]:
    return [] if every_task else learners_in(folder)[KEPT:]


def newest_position(
    run: Path, folder: Path, recipe: Recipe, device: str | None = None, given: Learner[Any] | None = None
) -> Position:
    """Where the run stands by its checkpoints in `folder`; a file that is not good is passed over with a warning."""
    if given is not None:
        adopt(given, recipe)
    position = Position(given or create_learner(recipe, device=device), done=0)
    learners = learners_in(folder)
    for path in learners:
        if (stored := _good(path, LEARNER, run, recipe, position)) is not None:
            position.learner = _loaded(path, stored, device if device is not None else recipe.run.device, given)
            position.done, position.notes = task_of(path), stored.notes
            break
    if learners and not position.done:
        lost = f"No checkpoint of a learned task in {folder} can be read: the run goes back to its beginning."
        position.warnings.append(lost)
    for task, epoch, path in _stopped(folder):
        if task == position.done + 1 and _good(path, STOPPED_TASK, run, recipe, position) is not None:
            position.stopped, position.epoch = path, epoch
            break
    return position


def _good(path: Path, kind: str, run: Path, recipe: Recipe, position: Position) -> Stored | None:
    """What a file holds; None, and a warning, if it is damaged. One of another recipe ends the search with an error,
    and so does one that cannot be read: it may be whole."""
    try:
        stored = read_stored(path, kind)
    except UnreadableError as error:
        raise OSError(str(error)) from None  # nobody named this file: it is no mistake of the user's
    except InputError as error:
        position.warnings.append(f"{error} Going back to the checkpoint before it.")
        position.damaged.append(path)
        return None
    if changed := differences(stored.recipe, recipe):
        raise InputError(
            f"Expected the recipe that {run} was begun with but its config.toml was changed "
            f"({'; '.join(changed)}): change it back, or begin a new run."
        )
    return stored


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


def _stopped(folder: Path) -> list[tuple[int, int, Path]]:
    """Tasks stopped half-way, with task and epoch, newest first."""
    found = ((STOPPED_NAME.fullmatch(path.name), path) for path in files_in(folder))
    return sorted(((int(m[1]), int(m[2]), path) for m, path in found if m), reverse=True)
