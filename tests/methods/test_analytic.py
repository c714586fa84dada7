"""analytic: task by task it is the ridge regression of all tasks at once."""

from typing import Any

import numpy as np
import pytest
import torch
from method_support import TASKS, TESTS, learner_of, recipe_of
from torch.nn.functional import one_hot, pad

from ictrl import ConfigError, create_learner
from ictrl.memory.triangles import whole
from ictrl.methods import analytic
from ictrl.methods.analytic import regressed
from ictrl.recipes.tables import recipe_with


def test_the_recursion_is_the_joint_ridge_regression(generator: torch.Generator) -> None:
    """Five tasks of three classes, more images than features and fewer."""
    gamma, D = 0.1, 40
    R, W = torch.eye(D, dtype=torch.float64) / gamma, torch.zeros(D, 0, dtype=torch.float64)
    seen, targets = [], []
    for task, n in enumerate((90, 8, 30, 200, 1)):
        phi = torch.randn(n, D, generator=generator, dtype=torch.float64).relu()
        rows = 3 * task + torch.randint(0, 3, (n,), generator=generator)
        R, W = regressed(R, pad(W, (0, 3)), phi, one_hot(rows, 3 * task + 3).double())
        seen.append(phi)
        targets.append(one_hot(rows, 15).double())
    phi, Y = torch.cat(seen).numpy(), torch.cat(targets).numpy()
    joint = np.linalg.inv(phi.T @ phi + gamma * np.eye(D))
    np.testing.assert_allclose(R, joint, rtol=1e-5, atol=1e-10)
    np.testing.assert_allclose(W, joint @ phi.T @ Y, rtol=1e-5, atol=1e-10)


def test_a_learner_ends_where_all_tasks_at_once_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the chunks that a task's images come in."""
    monkeypatch.setattr(analytic, "CHUNK", 7)
    learner: Any = learner_of("analytic", ridge=0.3)
    X, y = (torch.cat(parts) for parts in zip(*TASKS))
    phi = learner.expanded(learner.encode(X)).numpy()
    Y = np.array([[label == other for other in learner.labels] for label in y.tolist()], dtype=float)
    joint = np.linalg.inv(phi.T @ phi + 0.3 * np.eye(48))
    np.testing.assert_allclose(whole(learner.kept["inverse"]), joint, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(learner.kept["weights"], joint @ phi.T @ Y, rtol=1e-5, atol=1e-8)
    scores = learner.expanded(learner.encode(TESTS)).numpy() @ joint @ phi.T @ Y
    np.testing.assert_allclose(learner.scores(TESTS), scores[:, np.argsort(learner.labels)], rtol=1e-4, atol=1e-5)


def test_the_expansion_comes_from_the_seed_and_costs_nothing() -> None:
    one, same, other = (create_learner(recipe_of("analytic"), seed=seed)._expansion for seed in (3, 3, 4))  # type: ignore[attr-defined]
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert one.shape == (16, 48)
    assert float(one.abs().max()) == pytest.approx(16**-0.5, rel=0.01)
    learner: Any = learner_of("analytic")
    assert learner.kept_bytes == 8 * 4 + 8 * (48 * 49 // 2 + 48 * 4)
    assert learner.parameter_count == learner_of("slda").parameter_count


def test_the_expansion_is_a_relu_of_random_projections() -> None:
    learner: Any = learner_of("analytic", 0)
    Z = torch.randn(5, 16, generator=torch.Generator().manual_seed(1))
    expected = np.maximum(Z.double().numpy() @ learner._expansion.double().numpy(), 0)
    found = learner.expanded(Z)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"expansion": 0}, "Expected expansion to be at least 1 but got 0"),
        ({"ridge": 0.0}, "Expected ridge to be above 0 but got 0.0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("analytic"), {"method": settings})
