"""Tasks that are stopped half-way, and how a learner like the one that they were written by goes on with them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ictrl.errors import InputError
from ictrl.methods.labels import names_from_notes
from ictrl.methods.storage import STOPPED_TASK, fitting, read_stored
from ictrl.recipes.tables import differences
from ictrl.training.loop import Resume
from ictrl.training.state import TrainingState

if TYPE_CHECKING:
    from ictrl.methods.base import Learner


def stopped_task(learner: "Learner[Any]", path: Path) -> Resume:
    """Where to go on, by a file of this very learner; one of another is refused."""
    stored = read_stored(path, STOPPED_TASK)
    same = not differences(stored.recipe, learner.recipe)
    if learner._by_name:
        same &= names_from_notes(stored.notes, stored.labels) == (learner.class_names, True)
    if not same or (stored.seed, stored.labels) != (learner.seed, learner.labels):
        raise InputError(f"Expected a task stopped by this very learner but {path} belongs to another.")

    def restore(state: TrainingState) -> None:
        with fitting(path):
            state.load(stored.tensors, same_device=stored.device == learner.device.type)

    return Resume(stored.epoch, restore)
