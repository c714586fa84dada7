"""Memory follows a linear drift, and what is left of drift is measured."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles
from sklearn.linear_model import Ridge
from support import pictures, tiny_recipe
from torch import Tensor

from ictrl import ICTRL
from ictrl.memory.compensation import fit_compensation, fit_movement, leading_components, measure_drift
from ictrl.memory.wide_memory import nothing_yet
from ictrl.theory.statistics import Moments


def features(n: int, d: int, seed: int = 0) -> Tensor:
    Z = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(Z * torch.linspace(3, 0.3, d, dtype=torch.float64), dim=1)


def test_compensation_finds_a_linear_drift() -> None:
    Z = features(500, 6)
    W = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))).Q
    found = fit_compensation(Z, Z @ W.T, torch.full((500,), 1 / 500, dtype=torch.float64), ridge=1e-9)
    assert torch.allclose(found, W, atol=1e-6)


def test_compensation_leaves_unseen_directions_where_they_were() -> None:
    Z = features(500, 6)
    Z[:, 4:] = 0
    found = fit_compensation(Z, 2 * Z, torch.full((500,), 1 / 500, dtype=torch.float64), ridge=1e-6)
    assert torch.allclose(found[:4, :4], 2 * torch.eye(4, dtype=torch.float64), atol=1e-2)
    assert torch.allclose(found[4:, 4:], torch.eye(2, dtype=torch.float64))


def test_compensation_obeys_its_weights() -> None:
    Z = features(200, 4)
    after = torch.cat([Z[:100], 3 * Z[100:]])
    first, second = torch.zeros(2, 200, dtype=torch.float64)
    first[:100], second[100:] = 1, 1
    assert torch.allclose(fit_compensation(Z, after, first, 1e-9), torch.eye(4, dtype=torch.float64), atol=1e-6)
    assert torch.allclose(fit_compensation(Z, after, second, 1e-9), 3 * torch.eye(4, dtype=torch.float64), atol=1e-6)


def test_compensation_solves_the_ridge_regression_it_names() -> None:
    """Against scikit-learn: W − I is a ridge regression of the moves, each row with its weight."""
    Z, noise = features(60, 5), 0.3 * features(60, 5, seed=4)
    weights = torch.linspace(0.1, 2, 60, dtype=torch.float64)
    gram = (Z * weights[:, None]).T @ Z
    ridge = Ridge(alpha=float(0.1 * gram.trace() / 5), fit_intercept=False)
    ridge.fit(Z.numpy(), noise.numpy(), sample_weight=weights.numpy())
    found = fit_compensation(Z, Z + noise, weights, ridge=0.1)
    np.testing.assert_allclose(found - torch.eye(5, dtype=torch.float64), ridge.coef_, atol=1e-9)


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


def test_wide_memory_follows_an_affine_drift() -> None:
    """As if all images had been read where they are now; what the map leaves unexplained widens the covariance."""
    random = torch.Generator().manual_seed(2)
    y = torch.arange(3).repeat(400)
    X = torch.randn(1200, 5, generator=random) * torch.tensor([1.0, 5.0, 0.1, 1.0, 2.0]) + 3 * y[:, None]
    A, b = torch.randn(5, 5, generator=random), torch.randn(5, generator=random)
    after = X @ A.T + b + 0.5 * torch.randn(1200, 5, generator=random)
    moved = nothing_yet(X.device).with_classes(X, y).moved(fit_movement(X, after, ridge=1e-9))
    expected = nothing_yet(X.device).with_classes(after, y)
    torch.testing.assert_close(moved.means, expected.means, atol=0.15, rtol=0.0)
    scale = expected.covariance().diagonal().sqrt()
    assert float(((moved.covariance() - expected.covariance()) / (scale[:, None] * scale)).abs().max()) < 0.05


def test_wide_features_that_stayed_leave_memory_as_it_was() -> None:
    X, y = features(90, 6).float(), torch.arange(3).repeat(30)
    memory = nothing_yet(X.device).with_classes(X, y)
    moved = memory.moved(fit_movement(X[:20], X[:20], ridge=0.1))
    torch.testing.assert_close(moved.means, memory.means)
    torch.testing.assert_close(moved.covariance(), memory.covariance(), atol=1e-6, rtol=1e-3)
