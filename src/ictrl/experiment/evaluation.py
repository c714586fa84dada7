"""What is measured of a learner after each task: accuracy under both protocols, the floors, drift, replay.

The *memory* protocol is the learner's own `predict`. The rest is asked of learners that have class moments
(`KeepsMoments`); the *reencoded* protocol and the floors also of those that can only remember (`Remembers`).
"""

import platform
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictrl.config import Recipe
from ictrl.data import Dataset, Task
from ictrl.experiment.measured import Measured
from ictrl.experiment.results import FLOORS, PROTOCOLS, CalibrationScores, Drift, Results
from ictrl.memory.classifiers import Classifier
from ictrl.memory.compensation import measure_drift
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import KeepsMoments, Remembers, Replays, StandsStill
from ictrl.theory.metrics import Scores, confusion, summarise
from ictrl.theory.statistics import Moments
from ictrl.training.loader import fits

REPLAY_WELL = 0.8  # share of what memory replays that should be recognised: below it, say so


Predictions = list[tuple[Tensor, Tensor]]
"""of each task: labels of its test images, and the labels predicted for them"""

Features = list[tuple[Tensor, Tensor, Tensor, Tensor]]
"""of each task: features and labels of its training images, and views and labels of its test images"""


class ReadBefore:
    """Wide features of the test images of each task, so far: an encoder that stands still gives them again.

    Evaluation after every task would read the first task's images as often as there are tasks. Only as many are kept
    as take little memory; the images of the other tasks are read again.
    """

    most = 2**28  # bytes

    def __init__(self) -> None:
        self._kept: dict[int, Tensor] = {}

    def predicted(self, learner: Learner[Any], number: int, images: Tensor) -> Tensor:
        """What the learner says of the test images of that task."""
        if not isinstance(learner, StandsStill) or learner.moves():
            return learner.predict(images)
        if number not in self._kept:
            room = self.most - sum(phi.nbytes for phi in self._kept.values())
            if learner.read_bytes(len(images)) > room:
                return learner.predict(images)
            self._kept[number] = learner.read(images)
        return learner.predict_read(self._kept[number])


def features_of(learner: KeepsMoments, tasks: list[Task]) -> Features:
    """Everything that is computed from images, once for all that is measured."""
    return [
        (learner.features(task.images), task.labels, learner.views(task.test_images), task.test_labels)
        for task in tasks
    ]


def reencoded(features: Features) -> Moments:
    """The moments of the training images of all tasks, as the *reencoded* protocol has them."""
    Z, y = (torch.cat(parts) for parts in list(zip(*features))[:2])
    return Moments.of_features(Z, y.to(Z.device))


def predictions(features: Features, classifier: Classifier) -> Predictions:
    """What a classifier says of the test images."""
    return [(labels, classifier.decide(views).cpu()) for _, _, views, labels in features]


def predict_all(learner: Learner[Any], tasks: list[Task], before: ReadBefore | None = None) -> dict[str, Predictions]:
    """Predictions for the test images of these tasks, under each protocol that the learner can be measured by."""
    if isinstance(learner, KeepsMoments):
        return _by_moments(learner, features_of(learner, tasks))[0]
    before = before or ReadBefore()
    predicted = [before.predicted(learner, t, task.test_images).cpu() for t, task in enumerate(tasks)]
    found = {"memory": [(task.test_labels, labels) for task, labels in zip(tasks, predicted)]}
    if isinstance(learner, Remembers) and learner.moves():
        again = learner.remembering()
        for task in tasks:
            again.learn(task.images, task.labels)
        found["reencoded"] = predict_all(again, tasks)["memory"]
    return found


def _by_moments(learner: KeepsMoments, features: Features) -> tuple[dict[str, Predictions], Moments]:
    """Predictions from memory alone, and with the classifier refitted from re-encoded training images."""
    moments = reencoded(features)
    stored = learner.classifier_of(Moments.of_classes(learner.class_memory()))
    refitted = learner.classifier_of(moments)
    return {"memory": predictions(features, stored), "reencoded": predictions(features, refitted)}, moments


def never_learning(learner: KeepsMoments, tasks: list[Task]) -> list[list[float]]:
    """The accuracy matrix if the encoder stayed as it is; with nothing moving, memory and reencoded are the same."""
    features = features_of(learner, tasks)
    moments, learned, rows = reencoded(features), set[int](), []
    for t, task in enumerate(tasks, start=1):
        learned.update(task.classes)
        classifier = learner.classifier_of(moments.among(learned))
        rows.append(_accuracies(predictions(features[:t], classifier)))
    return rows


def only_remembering(learner: Learner[Any], tasks: list[Task]) -> list[list[float]]:
    """The accuracy matrix of a learner that is shown all tasks but trains on none."""
    rows, before = [], ReadBefore()
    for t, task in enumerate(tasks, start=1):
        learner.learn(task.images, task.labels)
        rows.append(_accuracies(predict_all(learner, tasks[:t], before)["memory"]))
    return rows


def measure_floor(learner: Learner[Any], tasks: list[Task], measured: Measured, floor: str) -> None:
    """One of the floors: the learner as it is before the first task, or after it, never trained again."""
    if isinstance(learner, KeepsMoments):
        with measured.timed("floors"):
            setattr(measured, floor, never_learning(learner, tasks))
    elif isinstance(learner, Remembers):
        with measured.timed("floors"):
            setattr(measured, floor, only_remembering(learner.remembering(), tasks))


def measure_frozen(learner: Learner[Any], tasks: list[Task], measured: Measured, done: int) -> None:
    """The floor of the learner as it is after the first task; called after every one, when memory has been measured.

    Of an encoder that stands still the floor is what memory says, to the last bit: nothing is learned or read again.
    """
    if isinstance(learner, StandsStill) and not learner.moves():
        measured.frozen = [list(row) for row in measured.memory[:done]]
    elif done == 1:
        measure_floor(learner, tasks, measured, "frozen")


def measure(learner: Learner[Any], tasks: list[Task], measured: Measured, before: ReadBefore | None = None) -> None:
    """The row after these tasks of each protocol's matrix and of the drift; the confusion matrices are replaced."""
    rows: dict[str, list[float]] = {}
    if isinstance(learner, KeepsMoments):
        found, moments = _by_moments(learner, features_of(learner, tasks))
        rows["drift_mean"], rows["drift_affinity"] = measure_drift(learner.class_memory(), moments)
    else:
        found = predict_all(learner, tasks, before)
    for protocol, decided in found.items():
        true, predicted = (torch.cat(parts).tolist() for parts in zip(*decided))
        measured.confusion[protocol] = confusion(true, predicted, learner.classes_.tolist())
        rows[protocol] = _accuracies(decided)
    for name, row in rows.items():
        getattr(measured, name)[len(tasks) - 1 :] = [row]
    if isinstance(learner, Replays):
        measured.replay[len(tasks) - 1 :] = [learner.replay_recognised()]


def _accuracies(decided: Predictions) -> list[float]:
    return [float((true == predicted).double().mean()) for true, predicted in decided]


def describe(recipe: Recipe, learner: Learner[Any], measured: Measured, dataset: Dataset, tasks: list[Task]) -> Results:
    """What was measured so far, as a record."""
    done = len(measured.memory)
    scores: dict[str, Scores | None] = {}
    for name in (*PROTOCOLS, *FLOORS):
        rows = getattr(measured, name)[:done]
        scores[name] = None
        if rows:
            found = summarise(rows, measured.test_images)
            scores[name] = Scores(**_rounded({**asdict(found), "confusion": measured.confusion.get(name)}))
    memory = scores["memory"]
    assert memory is not None
    return Results(
        complete=done == len(tasks),
        memory=memory,
        reencoded=scores["reencoded"],
        untrained=scores["untrained"],
        frozen=scores["frozen"],
        drift=_drift(learner.labels, measured),
        replay=_rounded(measured.replay) or None,
        tasks=[list(task.classes) for task in tasks],
        class_names=dict(dataset.class_names),
        test_images=measured.test_images,
        kept_bytes=learner.kept_bytes,
        image_bytes=sum(len(task.rows) for task in tasks[:done]) * dataset.images.shape[1:].numel(),
        parameters=learner.parameter_count,
        seconds={phase: round(seconds, 3) for phase, seconds in measured.seconds.items()},
        seed=learner.seed,
        device=device_name(learner.device),
        versions=versions(),
        recipe=recipe,
        calibration=CalibrationScores(**_rounded(measured.calibration)) if measured.calibration else None,
        measured_on="validation images" if recipe.stream.validation else "test images",
    )


def _drift(classes: list[int], measured: Measured) -> Drift | None:
    if not any(measured.drift_mean):
        return None

    def padded(rows: list[list[float]]) -> list[list[float | None]]:
        return [[*_rounded(row), *[None] * (len(classes) - len(row))] for row in rows]

    return Drift(list(classes), padded(measured.drift_mean), padded(measured.drift_affinity))


def near(tasks: list[Task], device: torch.device) -> list[Task]:
    """The same tasks, with their images on the device if there is ample room: a run gathers them again and again."""
    dataset = tasks[0].dataset
    parts = dataset.images, dataset.test_images
    if not all(fits(images, device, share=0.2) for images in parts):  # a task's images are gathered beside them
        return tasks
    images, test_images = (part.to(device) for part in parts)
    moved = replace(dataset, images=images, test_images=test_images)
    return [replace(task, dataset=moved) for task in tasks]


def versions() -> dict[str, str]:
    """Of what results depend on."""
    from ictrl import __version__  # the package itself is still being imported when this module is

    found = {"ictrl": __version__, "python": platform.python_version()}
    return found | {"torch": torch.__version__, "numpy": np.__version__}


def device_name(device: torch.device) -> str:
    """The device as results name it."""
    if device.type == "cuda":
        return f"{device}, {torch.cuda.get_device_name(device)}"
    threads = torch.get_num_threads()
    return f"{device}, {platform.machine()}, {threads} thread{'s' if threads > 1 else ''}"


def _rounded(value: Any) -> Any:
    """Six digits are more than a test set can tell apart."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value
