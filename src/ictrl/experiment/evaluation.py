"""What is measured of a learner, under two protocols, which are never mixed.

- **memory**: the learner as its user has it; all that is classified by comes from the moments it kept;
- **reencoded**: the paper's protocol; the same is refitted from the training images of every class seen so far, old
  ones included, under the current encoder. It needs the data that the method says it does not keep.

Beside them stand two floors, reencoded: the same networks untrained, and as they were after the first task. What lies
below the one was not learned; what lies below the other would have been better left alone after the first task.
"""

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

import ictrl
from ictrl.memory.classifiers import Classifier, Moments, classifier_of
from ictrl.config import Recipe
from ictrl.data import Dataset, Task
from ictrl.memory.drift import measure_drift
from ictrl.methods.ictrl import ICTRL
from ictrl.theory.metrics import confusion, summarise
from ictrl.recipes.reader import recipe_to_table

REPLAYED = 20  # features drawn from each direction to see whether memory survives the loop
REPLAY_WELL = 0.8  # share of them that should be recognised
PROTOCOLS = ("memory", "reencoded")


@dataclass
class Measured:
    """Accuracies, row by row of each matrix, and the time that went into them."""

    test_images: list[int]
    floor: list[list[float]] = field(default_factory=list)
    frozen: list[list[float]] = field(default_factory=list)
    memory: list[list[float]] = field(default_factory=list)
    reencoded: list[list[float]] = field(default_factory=list)
    replay: list[float] = field(default_factory=list)
    confusion: dict[str, list[list[int]]] = field(default_factory=dict)
    """under each protocol after the newest task; rows: true class, columns: predicted"""
    drift_mean: list[list[float]] = field(default_factory=list)
    drift_affinity: list[list[float]] = field(default_factory=list)
    """of each class seen so far, in the order of learning; nothing for tasks that were measured before drift was"""
    seconds: dict[str, float] = field(default_factory=lambda: {"learn": 0.0, "evaluate": 0.0, "floor": 0.0})

    def __post_init__(self) -> None:
        for rows in (self.drift_mean, self.drift_affinity):
            rows += [[] for _ in range(len(self.memory) - len(rows))]

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # the device may still be at work
        self.seconds[phase] += time.perf_counter() - start


Predictions = list[tuple[Tensor, Tensor]]
"""of each task: labels of its test images, and the labels predicted for them"""


Features = list[tuple[Tensor, Tensor, Tensor, Tensor]]
"""of each task: features and labels of its training images, and views and labels of its test images"""


def features_of(learner: ICTRL, tasks: list[Task]) -> Features:
    return [
        (learner.features(task.images), task.labels, learner.views(task.test_images), task.test_labels)
        for task in tasks
    ]


def reencoded(features: Features) -> Moments:
    """The moments of the training images of all tasks, as the *reencoded* protocol has them."""
    Z, y = (torch.cat(parts) for parts in list(zip(*features))[:2])
    return Moments.of_features(Z, y.to(Z.device))


def predictions(features: Features, classifier: Classifier) -> Predictions:
    return [(labels, classifier.decide(views).cpu()) for _, _, views, labels in features]


def both_protocols(learner: ICTRL, features: Features, moments: Moments) -> dict[str, Predictions]:
    """Predictions from memory alone, and with all that is classified by refitted from re-encoded training images."""
    refitted = classifier_of(moments, learner.recipe.classifier)
    return {"memory": predictions(features, learner.classifier), "reencoded": predictions(features, refitted)}


def never_learning(learner: ICTRL, tasks: list[Task]) -> list[list[float]]:
    """The accuracy matrix if the encoder stayed as it is; with nothing moving, memory and reencoded are the same."""
    features = features_of(learner, tasks)
    moments, learned, rows = reencoded(features), set[int](), []
    for t, task in enumerate(tasks, start=1):
        learned.update(task.classes)
        classifier = classifier_of(moments.among(learned), learner.recipe.classifier)
        rows.append(_accuracies(predictions(features[:t], classifier)))
    return rows


def measure(learner: ICTRL, tasks: list[Task], measured: Measured) -> None:
    """The row after these tasks of each protocol's matrix and of the drift; the confusion matrices are replaced."""
    features = features_of(learner, tasks)
    moments = reencoded(features)
    found = both_protocols(learner, features, moments)
    for protocol, decided in found.items():
        true, predicted = (torch.cat(parts).tolist() for parts in zip(*decided))
        measured.confusion[protocol] = confusion(true, predicted, learner.classes_.tolist())
    distances, affinities = measure_drift(learner.memory, moments)
    rows = {
        "memory": _accuracies(found["memory"]),
        "reencoded": _accuracies(found["reencoded"]),
        "drift_mean": distances,
        "drift_affinity": affinities,
    }
    for name, row in rows.items():
        getattr(measured, name)[len(tasks) - 1 :] = [row]


def _accuracies(decided: Predictions) -> list[float]:
    return [float((true == predicted).double().mean()) for true, predicted in decided]


def replay_recognised(learner: ICTRL) -> float:
    """Share of features drawn from memory that the classifier still assigns to their class after f(g(z)).

    Where it is low, the decoder has not learned to replay, and memory will not hold: train longer.
    """
    generator = torch.Generator(learner.device).manual_seed(0)
    Z, y = learner.memory.gaussians().sample(REPLAYED, generator)
    with torch.no_grad():
        Z_hat = torch.cat([learner.encoder(learner.decoder(part)) for part in Z.split(2048)])
    labels = torch.tensor(list(learner.memory), device=Z.device)[y]
    return float((learner.classifier.predict(Z_hat) == labels).double().mean())


def describe(recipe: Recipe, learner: ICTRL, measured: Measured, dataset: Dataset, tasks: list[Task]) -> dict[str, Any]:
    """The contents of `results.json`."""
    done = len(measured.memory)
    protocols: dict[str, Any] = {}
    for protocol in PROTOCOLS:
        scores = asdict(summarise(getattr(measured, protocol), measured.test_images))
        protocols[protocol] = {**_rounded(scores), "confusion": measured.confusion[protocol]}
    return {
        "complete": done == len(tasks),
        **protocols,
        "floor": _rounded(asdict(summarise(measured.floor[:done], measured.test_images))),
        **(
            {"frozen": _rounded(asdict(summarise(measured.frozen[:done], measured.test_images)))}
            if measured.frozen
            else {}
        ),
        "drift": _rounded(_drift(learner, measured)),
        "measured_on": "validation images" if recipe.data.validation else "test images",
        "replay": _rounded(measured.replay),
        "tasks": [list(task.classes) for task in tasks],
        "class_names": {str(label): name for label, name in dataset.class_names.items()},
        "test_images": measured.test_images,
        "memory_bytes": learner.memory.nbytes,
        "image_bytes": sum(len(task.rows) for task in tasks[:done]) * dataset.images[0].numel(),
        "parameters": learner.parameters,
        "seconds": {phase: round(seconds, 3) for phase, seconds in measured.seconds.items()},
        "seed": learner.seed,
        "device": device_name(learner.device),
        "versions": versions(),
        "recipe": recipe_to_table(recipe),
    }


def _drift(learner: ICTRL, measured: Measured) -> dict[str, Any]:
    """A row a task, a column a class in the order of learning, None where it was still to come or not measured."""
    classes = list(learner.memory)
    rows = {"mean": measured.drift_mean, "affinity": measured.drift_affinity}
    padded = {name: [[*row, *[None] * (len(classes) - len(row))] for row in part] for name, part in rows.items()}
    return {"classes": classes, **padded}


def versions() -> dict[str, str]:
    """Of what results depend on."""
    return {
        "ictrl": ictrl.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def device_name(device: torch.device) -> str:
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
