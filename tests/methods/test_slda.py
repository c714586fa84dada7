"""slda: the image-by-image recursion, all at once."""

from typing import Any

import numpy as np
import pytest
import torch
from method_support import TASKS, TESTS, learner_of, recipe_of
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from support import pictures

from ictrl import ConfigError, create_learner
from ictrl.memory.triangles import whole
from ictrl.methods.slda import streamed
from ictrl.recipes.tables import recipe_with


class Recursion:
    """The paper's, in NumPy, one image after another."""

    def __init__(self, d: int) -> None:
        self.t, self.covariance = 0, np.zeros((d, d))
        self.means: dict[int, np.ndarray] = {}
        self.counts: dict[int, int] = {}

    def see(self, z: np.ndarray, y: int) -> None:
        mean, count, t = self.means.get(y, z), self.counts.get(y, 0), self.t
        delta = z - mean
        self.covariance = (t * self.covariance + t / (t + 1) * np.outer(delta, delta)) / (t + 1)
        self.means[y], self.counts[y], self.t = (count * mean + z) / (count + 1), count + 1, t + 1


@pytest.mark.parametrize("seen", [0, 5])
def test_all_at_once_is_image_by_image(seen: int, generator: torch.Generator) -> None:
    Z = torch.randn(30, 4, generator=generator, dtype=torch.float64)
    rows = torch.cat([torch.arange(3), torch.randint(0, 3, (27,), generator=generator)])
    expected = Recursion(4)
    expected.t = seen
    for z, row in zip(Z.numpy(), rows.tolist()):
        expected.see(z, row)
    counts, means, scatter = streamed(Z, rows, seen)
    assert counts.tolist() == [expected.counts[row] for row in range(3)]
    np.testing.assert_allclose(means, [expected.means[row] for row in range(3)], atol=1e-12)
    np.testing.assert_allclose(scatter / (seen + 30), expected.covariance, atol=1e-12)


def test_a_learner_is_where_the_recursion_ends() -> None:
    """After two tasks, and its scores are those of the paper's formula."""
    learner: Any = learner_of("slda")
    expected = Recursion(16)
    for X, y in TASKS:
        for z, label in zip(learner.encode(X).double().numpy(), y.tolist()):
            expected.see(z, label)
    kept = learner.kept
    means = np.array([expected.means[label] for label in learner.labels])
    np.testing.assert_allclose(whole(kept["covariance"]), expected.covariance, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(kept["means"], means, rtol=1e-4, atol=1e-6)
    precision = np.linalg.inv((1 - 1e-4) * expected.covariance + 1e-4 * np.eye(16))
    z = learner.encode(TESTS).double().numpy()
    order = np.argsort(learner.labels)
    scores = z @ precision @ means.T - 0.5 * np.einsum("kd,de,ke->k", means, precision, means)
    np.testing.assert_allclose(learner.scores(TESTS), scores[:, order], rtol=1e-3, atol=1e-2)


def test_with_many_images_it_classifies_as_scikit_learns_lda() -> None:
    learner: Any = create_learner(recipe_of("slda", shrinkage=1e-6))
    tasks = [pictures([0, 1], each=150), pictures([2, 3], each=150)]
    for task in tasks:
        learner.learn(*task)
    X, y = (torch.cat(parts) for parts in zip(*tasks))
    reference = LinearDiscriminantAnalysis(solver="lsqr", priors=[0.25] * 4).fit(learner.encode(X), y)
    tests, _ = pictures([0, 1, 2, 3], each=40, seed=5)
    assert (learner.predict(tests).numpy() == reference.predict(learner.encode(tests))).mean() > 0.98


def test_bytes_are_counts_means_and_half_a_covariance() -> None:
    assert learner_of("slda").kept_bytes == 4 * (8 + 8 + 4 * 16) + 4 * 16 * 17 // 2


@pytest.mark.parametrize("shrinkage", [0.0, 1.5])
def test_wrong_settings_are_refused(shrinkage: float) -> None:
    with pytest.raises(ConfigError, match=f"Expected shrinkage to be above 0 and at most 1 but got {shrinkage}"):
        recipe_with(recipe_of("slda"), {"method": {"shrinkage": shrinkage}})
