"""The learners that lie in a run folder: after each task, and before and after review."""

from pathlib import Path
from typing import Any

from ictrl.errors import InputError
from ictrl.experiment.review_record import read_progress
from ictrl.experiment.run_folder import RunFolder
from ictrl.methods.base import Learner, load_learner
from ictrl.methods.capabilities import Reviews, ask
from ictrl.methods.storage import LEARNER, learners_in, read_stored, task_of

REVIEWS = ("review", "review-with-labels")


def after_each_task(folder: RunFolder, device: str) -> dict[int, Learner[Any]]:
    """The learners that the run has kept, by the number of tasks they had learned."""
    found = {task_of(path): load_learner(path, device=device) for path in reversed(learners_in(folder.checkpoints))}
    if not found:
        folder.learned(device)  # says what is wrong
    return found


def around_review(folder: RunFolder, device: str) -> dict[str, Learner[Any]]:
    """The learner as the run left it, and as each manner of review did."""
    found: dict[str, Learner[Any]] = {}
    for manner in REVIEWS:
        path = folder.path / manner / "learner.safetensors"
        if path.exists():
            cycles = _cycles(path)
            how = " with labels" if manner != REVIEWS[0] else ""
            found[f"after {cycles}{how}"] = load_learner(path, device=device)
    before = folder.learned(device).learner
    if not found:
        ask(before, Reviews, "review")
        raise InputError(
            f"Expected a learner that was reviewed but {folder.path} has none: `ictrl review {folder.path}` makes one."
        )
    return {"before review": before, **found}


def _cycles(path: Path) -> str:
    progress = read_progress(read_stored(path, LEARNER).notes)
    done, more = max(0, len(progress["cycles"]) - 1), len(progress["classes"])
    text = f"{done} {'cycle' if done == 1 else 'cycles'} of review"
    return f"{text} and {more} {'class' if more == 1 else 'classes'}" if more else text
