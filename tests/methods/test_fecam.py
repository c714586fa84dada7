"""fecam: every class in a measure of its own, against NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
from method_support import TASKS, TESTS, learner_of, recipe_of

from ictrl import ConfigError
from ictrl.recipes.tables import recipe_with

RESNET = {"kind": "resnet18", "width": 2, "feature_dim": 16}


def reference(learner: Any, power: float, variance: float, covariance: float) -> np.ndarray:
    """Distances by the formula, from the images of all tasks."""
    found = {}
    for X, y in TASKS:
        Z = learner.encode(X).double().numpy()
        for label in y.unique().tolist():
            z = Z[y.numpy() == label]
            mean = np.sign(z.mean(0)) * np.abs(z.mean(0)) ** power
            S = np.cov((np.sign(z) * np.abs(z) ** power).T)
            for _ in range(2):
                off = S[~np.eye(16, dtype=bool)].mean()
                S = S + variance * np.diag(S).mean() * np.eye(16) + covariance * off * (1 - np.eye(16))
            s = np.sqrt(np.diag(S))
            found[label] = mean / np.linalg.norm(mean), np.linalg.inv(S / np.outer(s, s))
    z = learner.encode(TESTS).double().numpy()
    z = np.sign(z) * np.abs(z) ** power
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    return np.array([[(row - m) @ C @ (row - m) for m, C in (found[label] for label in sorted(found))] for row in z])


@pytest.mark.parametrize(("power", "variance", "covariance"), [(0.5, 1.0, 1.0), (1.0, 2.0, 0.5)])
@pytest.mark.parametrize("network", [{}, RESNET])
def test_scores_against_numpy(power: float, variance: float, covariance: float, network: dict[str, Any]) -> None:
    """With features that can be negative and with those of ResNet-18, which cannot."""
    settings = {"power": power, "shrink_variance": variance, "shrink_covariance": covariance}
    learner: Any = learner_of("fecam", network=network, **settings)
    expected = -reference(learner, power, variance, covariance)
    np.testing.assert_allclose(learner.scores(TESTS), expected, rtol=2e-3, atol=1e-4)


def test_covariances_of_old_classes_stay_as_they_are() -> None:
    first, second = (learner_of("fecam", tasks).kept for tasks in (1, 2))
    assert all(torch.equal(second[name][:2], first[name]) for name in first)


def test_all_covariances_are_counted() -> None:
    assert learner_of("fecam").kept_bytes == 4 * (8 + 4 * 16 + 4 * 16 * 17 // 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"power": 0.0}, "Expected power to be above 0 but got 0.0"),
        ({"shrink_variance": 0.0}, "Expected shrink_variance to be above 0 but got 0.0"),
        ({"shrink_covariance": 1.5}, r"Expected shrink_covariance from 0 to shrink_variance \(1.0\) but got 1.5"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("fecam"), {"method": settings})
