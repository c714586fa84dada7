"""Drift of what was stored from what the images are now."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from support import pictures, tiny_recipe
from scipy.linalg import subspace_angles

from ictrl import ICTRL
from ictrl.memory.classifiers import Moments
from ictrl.memory.drift import leading_components, measure_drift


def test_what_has_not_moved_has_no_drift(learned: Callable[..., ICTRL]) -> None:
    learner = learned()
    images, labels = pictures([2, 3])  # the newest classes: the encoder is as it was when they were stored
    moments = Moments.of_features(learner.features(images), labels)
    newest = type(learner.memory)({label: learner.memory[label] for label in (3, 2)})
    distances, affinities = measure_drift(newest, moments)
    assert distances == pytest.approx([0, 0], abs=1e-5)
    assert affinities == pytest.approx([1, 1], abs=1e-4)


def test_drift_of_old_classes_against_numpy(learned: Callable[..., ICTRL]) -> None:
    learner = learned()
    images, y = (torch.cat(parts) for parts in zip(pictures([0, 1]), pictures([2, 3])))  # those it has learned from
    Z = learner.features(images)
    distances, affinities = measure_drift(learner.memory, Moments.of_features(Z, y))
    assert max(distances[:2]) > 10 * max(distances[2:])  # learned first, moved since
    q = leading_components(16)
    for label, distance, affinity in zip(learner.memory, distances, affinities):
        own, kept = Z[y == label].double().numpy(), learner.memory[label]
        assert distance == pytest.approx(np.linalg.norm(own.mean(0) - kept.mean.double().numpy()), abs=1e-5)
        bases = [np.linalg.eigh(C)[1][:, -q:] for C in (np.cov(own.T), kept.covariance.double().numpy())]
        assert affinity == pytest.approx(np.square(np.cos(subspace_angles(*bases))).mean(), abs=1e-3)


def test_drift_is_in_the_order_of_learning() -> None:
    learner = ICTRL(tiny_recipe()).learn(*pictures([5, 6])).learn(*pictures([1, 2]))
    images, labels = (torch.cat(parts) for parts in zip(pictures([1, 2]), pictures([5, 6])))
    distances, _ = measure_drift(learner.memory, Moments.of_features(learner.features(images), labels))
    assert list(learner.memory) == [5, 6, 1, 2]
    assert min(distances[:2]) > max(distances[2:])
    assert torch.tensor(distances).isfinite().all()
