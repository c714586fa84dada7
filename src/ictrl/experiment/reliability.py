"""How true a learner's probabilities are, on the test images of all tasks."""

from typing import Any

import torch

from ictrl.data import Task
from ictrl.experiment.measured import Measured
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import Probabilities
from ictrl.theory.metrics import reliability

BINS = 15


def measure_calibration(learner: Learner[Any], tasks: list[Task], measured: Measured) -> None:
    """The expected calibration error of a learner that gives probabilities; nothing of another."""
    if not isinstance(learner, Probabilities):
        return
    probabilities = torch.cat([learner.predict_proba(task.test_images).cpu() for task in tasks])
    labels = torch.cat([task.test_labels for task in tasks]).cpu()
    found = reliability(probabilities, torch.searchsorted(torch.as_tensor(learner.classes_), labels), BINS)
    bins = zip(found.images, found.confidence, found.accuracy)
    measured.calibration = {
        "ece": found.ece,
        "temperature": learner.temperature(),
        "reliability": [list(entry) for entry in bins],
    }
