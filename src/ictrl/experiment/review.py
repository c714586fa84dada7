"""Cycles of review: a finished run goes through its stream again, one class at a time, without being told the labels.

    RUN/review/learner.safetensors    the learner after the class that was reviewed last, and where it stands
    RUN/review.json                   accuracy after each cycle, and what every class was taken for

With labels it is review-with-labels in both, so that the two can be compared. The run itself stays as it was. A review
that was stopped or killed goes on after the last class it had finished, exactly; one that is finished goes on with more
cycles.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ictrl.config import ICTRLConfig, Recipe
from ictrl.data import Task
from ictrl.errors import InputError
from ictrl.experiment.checkpoints import Position
from ictrl.experiment.evaluation import device_name, near, predict_all, versions
from ictrl.experiment.joint_run import joint_accuracy
from ictrl.experiment.review_record import read_progress
from ictrl.experiment.run import Stopped
from ictrl.experiment.run_data import run_data
from ictrl.experiment.run_folder import RunFolder
from ictrl.files import make_folder, write_atomically
from ictrl.methods.base import Learner, load_learner
from ictrl.methods.capabilities import Reviews, ask
from ictrl.methods.ictrl import Review, review_stage
from ictrl.methods.storage import LEARNER, read_stored
from ictrl.recipes.tables import recipe_to_table
from ictrl.training.loop import EpochReport


@dataclass(frozen=True)
class Manner:
    """How classes are reviewed."""

    with_labels: bool = False
    """tell the learner which class it reviews, for comparison, in RUN/review-with-labels"""
    merge: bool = False
    """merge what is learned with what was stored, weighted by counts, instead of replacing it"""
    doubtful: bool = False
    """review classes that are recognised with doubt too, as what they look most like"""
    epochs: int | None = None
    """passes over the images of each class; the recipe's by default"""
    distillation: float = 1.0
    """the recipe's weights of distillation times this: what is seen again may move more freely"""

    def __post_init__(self) -> None:
        review_stage(ICTRLConfig().later, self.epochs, self.distillation)  # refuses what is out of range

    @property
    def name(self) -> str:
        """What files and folder of such a review are called."""
        return "review-with-labels" if self.with_labels else "review"


class Listener:
    """What someone watching a review is told. Each method does nothing until it is overridden."""

    def on_warning(self, line: str) -> None:
        """A file was passed over."""

    def on_begin(self, cycles: int, done: int) -> None:
        """So many cycles are asked for, so many are done."""

    def on_class(self, cycle: int, index: int, total: int, name: str) -> None:
        """A class, counted from 0, is about to be reviewed."""

    def on_epoch(self, report: EpochReport) -> None:
        """An epoch of that class has passed."""

    def on_reviewed(self, cycle: int, name: str, seen: dict[str, Any]) -> None:
        """What became of it, as review.json has it."""

    def on_cycle(self, entry: dict[str, Any]) -> None:
        """A cycle was measured; cycle 0 is the run as it was."""


@dataclass
class Progress:
    """Where a review stands."""

    manner: dict[str, Any]
    cycles: list[dict[str, Any]] = field(default_factory=list)
    """measured ones, the run as it was first"""
    classes: list[dict[str, Any]] = field(default_factory=list)
    """of the cycle that is going on: what was reviewed so far"""


def review(
    out: Path,
    cycles: int,
    manner: Manner,
    *,
    joint: Path | None = None,
    device: str | None = None,
    root: Path | None = None,
    listener: Listener | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Review every class of a finished run `cycles` times in all; returns what review.json holds.

    `joint` is the folder of a run that learned the same classes at once, whose accuracy is put beside. Data that has
    moved is read from `root`. Where `stop` gives True after a class, `Stopped` is raised and nothing is lost.
    """
    listener = listener or Listener()
    if cycles < 1:
        raise InputError(f"Expected at least 1 cycle but got {cycles}.")
    together = joint_accuracy(joint) if joint is not None else None
    with RunFolder.reopen(out) as folder:
        position, progress = _position(folder, manner, device)
        for line in position.warnings:
            listener.on_warning(line)
        learner = position.learner
        reviewer = ask(learner, Reviews, "review")
        dataset, tasks = run_data(folder, root, stop)
        tasks = near(tasks, learner.device)
        if len(learner.labels) != sum(len(task.classes) for task in tasks):
            raise InputError(f"Expected a finished run but {out} is not: go on with `ictrl resume {out}` first.")
        labels = [label for task in tasks for label in task.classes]

        def write() -> dict[str, Any]:
            found = {
                "cycles": progress.cycles,
                "joint": together,
                **progress.manner,
                "seed": learner.seed,
                "device": device_name(learner.device),
                "versions": versions(),
                "recipe": recipe_to_table(_anywhere(folder.recipe())),
            }
            write_atomically(out / f"{manner.name}.json", (json.dumps(found, indent=1) + "\n").encode())
            return found

        listener.on_begin(cycles, max(0, len(progress.cycles) - 1))
        if not progress.cycles:
            progress.cycles.append(_measured(learner, tasks, 0, []))
            listener.on_cycle(progress.cycles[0])
        found = write()
        while len(progress.cycles) <= cycles:
            cycle = len(progress.cycles)
            for index, label in enumerate(labels):
                if index < len(progress.classes):
                    continue
                name = dataset.class_names[label]
                listener.on_class(cycle, index, len(labels), name)
                task = next(task for task in tasks if label in task.classes)
                reviewed = reviewer.review(
                    task.images[task.labels == label],
                    label=label if manner.with_labels else None,
                    merge=manner.merge,
                    certain=not manner.doubtful,
                    epochs=manner.epochs,
                    distillation=manner.distillation,
                    progress=listener.on_epoch,
                )
                progress.classes.append(_described(label, reviewed))
                listener.on_reviewed(cycle, name, progress.classes[-1])
                if index + 1 == len(labels):
                    progress.cycles.append(_measured(learner, tasks, cycle, progress.classes, manner.with_labels))
                    progress.classes = []
                _save(out / manner.name, learner, progress, position.notes)
                if stop() and (index + 1 < len(labels) or cycle < cycles):
                    write()
                    raise Stopped
            found = write()
            listener.on_cycle(progress.cycles[-1])
        return found


def _anywhere(recipe: Recipe) -> Recipe:
    """Without the place where the data lay: the file may be published."""
    return replace(recipe, stream=replace(recipe.stream, root=None))


def _position(folder: RunFolder, manner: Manner, device: str | None) -> tuple[Position, Progress]:
    """The learner as the last review left it, or as the run did."""
    saved = folder.path / manner.name / "learner.safetensors"
    if not saved.exists():
        _check_not_begun(folder.path / f"{manner.name}.json", saved)
        return folder.learned(device), Progress(asdict(manner))
    stored = read_stored(saved, LEARNER)
    progress = Progress(**read_progress(stored.notes))
    if "anchors" in progress.manner:  # what distillation was called in version 0.1
        progress.manner["distillation"] = progress.manner.pop("anchors")
    if progress.manner != asdict(manner):
        changed = [
            f"{name.replace('_', ' ')} was {progress.manner.get(name)} and is {value}"
            for name, value in asdict(manner).items()
            if progress.manner.get(name) != value
        ]
        raise InputError(
            f"Expected the manner in which the review in {saved.parent} was begun but {', '.join(changed)}: "
            "use the same, or remove that folder to begin anew."
        )
    return Position(load_learner(saved, device), len(stored.labels), stored.notes), progress


def _check_not_begun(written: Path, saved: Path) -> None:
    """Accuracies of cycles whose learner is gone are not to be written over."""
    try:
        begun = written.exists() and len(json.loads(written.read_bytes())["cycles"]) > 1
    except (ValueError, KeyError, TypeError, RecursionError):
        begun = True
    if begun:
        raise InputError(
            f"Expected {saved}, with which the review in {written} goes on, but it is not there: put it back, or "
            f"remove {written} to begin anew."
        )


def _save(folder: Path, learner: Learner[Any], progress: Progress, notes: dict[str, str]) -> None:
    make_folder(folder)
    kept = {"review": json.dumps(asdict(progress)), "class_names": notes.get("class_names", "{}")}
    learner.save(folder / "learner.safetensors", kept)


def _described(label: int, reviewed: Review) -> dict[str, Any]:
    seen = reviewed.recognition
    return {
        "label": label,
        "taken_for": seen.label,
        "affinity": round(seen.affinity, 4),
        "margin": round(seen.margin, 4),
        "share": round(seen.share, 4),
        "changed": reviewed.label,
        "reason": reviewed.reason,
        "few": reviewed.few,
    }


def _measured(
    learner: Learner[Any], tasks: list[Task], cycle: int, classes: list[dict[str, Any]], told: bool = False
) -> dict[str, Any]:
    """Accuracy on all test images under both protocols, and the share of classes that were recognised untold, of those
    with enough images to learn from."""
    accuracy = {}
    for protocol, decided in predict_all(learner, tasks).items():
        true, predicted = (torch.cat(parts) for parts in zip(*decided))
        accuracy[protocol] = round(float((true == predicted).double().mean()), 6)
    recognised = [
        entry["taken_for"] == entry["label"] and not entry["reason"] for entry in classes if not entry.get("few")
    ]
    share = sum(recognised) / len(recognised) if recognised and not told else None
    return {"cycle": cycle, **accuracy, "recognised": share, "classes": classes}
