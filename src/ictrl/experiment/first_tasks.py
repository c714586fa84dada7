"""First tasks that runs of a study share: put aside by the run that learned one first, for those that begin alike."""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from ictrl.config import Recipe
from ictrl.errors import InputError
from ictrl.experiment.metrics_log import read_log
from ictrl.experiment.results import Results
from ictrl.experiment.run import Listener
from ictrl.files import make_folder, remove_unfinished, write_atomically
from ictrl.methods.storage import LEARNER, read_stored
from ictrl.recipes.tables import beginning

FOLDER, LOG = "first-tasks", "metrics.jsonl"


def place_of(out: Path, recipe: Recipe) -> Path:
    """The learner after the first task of all runs of a study that begin as this one does; the log lies beside it."""
    return out / FOLDER / sha256(beginning(recipe).encode()).hexdigest()[:16] / "learner.safetensors"


def damage(first_task: Path) -> str:
    """Why a first task that was put aside cannot be used; nothing if it can, or is not there."""
    if not first_task.exists():
        return ""
    try:
        read_stored(first_task, LEARNER)
        log = read_log(first_task.with_name(LOG))
    except (InputError, OSError) as error:
        return str(error)
    if not first_task.with_name(LOG).exists() or log.damaged or log.tasks:
        return f"Expected the log of one task in {first_task.with_name(LOG)} but got something else."
    return ""


def clear(out: Path) -> list[str]:
    """Remove first tasks that cannot be used, and what processes that died were writing; returns what was removed.

    They are copies of what a run has, and the next run that needs one makes it again.
    """
    said = []
    for folder in sorted((out / FOLDER).glob("*/")):
        remove_unfinished(folder)
        first_task = folder / "learner.safetensors"
        if reason := damage(first_task):
            first_task.unlink(missing_ok=True)  # another process of the same study may have done so already
            said.append(f"{reason} The first task is learned again.")
    return said


class KeepFirst(Listener):
    """Puts the learner aside after its first task."""

    def __init__(self, listener: Listener, folder: Path, first_task: Path | None) -> None:
        self.on_begin, self.on_task, self.on_epoch = (  # type: ignore[method-assign]
            listener.on_begin,
            listener.on_task,
            listener.on_epoch,
        )
        self.listener, self.folder, self.first_task = listener, folder, first_task

    def on_measured(self, results: Results) -> None:
        if self.first_task is not None and results.done == 1:
            with suppress(OSError):  # the others learn it themselves; this run has all that it needs
                self._keep(self.first_task)
        self.listener.on_measured(results)

    def _keep(self, first_task: Path) -> None:
        make_folder(first_task.parent)
        write_atomically(first_task.with_name(LOG), (self.folder / LOG).read_bytes())
        # last: where it is, all is there
        write_atomically(first_task, (self.folder / "checkpoint" / "after-task-001.safetensors").read_bytes())
