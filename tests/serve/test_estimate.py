"""Accuracy from memory alone, where it is known what it must be."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ictrl.memory.store import ClassMemory
from ictrl.serve.estimate import LEAST, MOST, accuracy_from_memory

SPREAD = 0.5


class Points:
    """Classes on a line, drawn as points, told by the nearest mean: what is recognised follows from the distances."""

    parts, class_names, _by_name = "all", dict[int, str](), False

    def __init__(self, means: dict[int, float]) -> None:
        self.means, self.labels, self.drawn = means, list(means), 0

    def recall(self, label: int) -> ClassMemory:
        mean, spread = torch.tensor([self.means[label], 0.0]), torch.tensor([[SPREAD, 0.0]])
        return ClassMemory(torch.tensor(50), mean, spread.T @ spread, mean.expand(2, 2), spread.expand(2, 1, 2))

    def decode(self, Z: Tensor) -> Tensor:
        self.drawn += len(Z)
        return Z

    def scores(self, X: Tensor) -> Tensor:
        means = torch.tensor([self.means[label] for label in sorted(self.labels)])
        return -(X[:, :1] - means).abs()

    def sample(self, *arguments: Any) -> Any: ...

    def reconstruct(self, images: Any) -> Any: ...

    def features(self, images: Any) -> Any: ...


def test_the_share_of_replayed_pictures_that_are_recognised() -> None:
    learner: Any = Points({7: 0.0, 2: 1.0, 5: 50.0})
    found, of = accuracy_from_memory(learner)
    within = 0.5 * (1 + math.erf(0.5 / SPREAD / math.sqrt(2)))  # of a Gaussian, what lies on its own side of the middle
    assert found[5] == 1.0
    assert (found[7], found[2]) == (pytest.approx(within, abs=0.12), pytest.approx(within, abs=0.12))
    assert of.startswith("share of up to 100 pictures per class")
    learner.means[2] = 0.0  # the same class twice: half of each is taken for the other
    learner.means = {7: 0.0, 2: 1e-6, 5: 50.0}
    again = accuracy_from_memory(learner)[0]
    assert again[7] == pytest.approx(0.5, abs=0.15)
    assert again[7] < found[7]


def test_many_classes_take_no_longer() -> None:
    learner: Any = Points({label: 10.0 * label for label in range(1000)})
    accuracy_from_memory(learner)
    assert learner.drawn == 1000 * LEAST > MOST
    few: Any = Points({label: 10.0 * label for label in range(100)})
    accuracy_from_memory(few)
    assert few.drawn == MOST
