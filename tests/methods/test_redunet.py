"""redunet: a layer is a gradient step, its second moments are those of features, and increments are exact."""

from typing import Any

import numpy as np
import pytest
import torch
from generative_support import digits
from method_support import TASKS, TESTS, learner_of, recipe_of
from support import pictures
from torch import Tensor

from ictrl import ConfigError, InputError, create_learner, load_recipe
from ictrl.memory.triangles import whole
from ictrl.methods.redunet import built
from ictrl.recipes.tables import recipe_with

EPS_SQ, STEP = 0.5, 0.3


def classes(d: int = 6) -> list[Tensor]:
    """Features of three classes, of unit length."""
    generator = torch.Generator().manual_seed(0)
    found = [torch.randn(n, d, generator=generator, dtype=torch.float64) + i for i, n in enumerate((9, 14, 11))]
    return [Z / Z.norm(dim=1, keepdim=True) for Z in found]


def reduction(Z: list[Tensor]) -> Tensor:
    """ΔR(Z), as the paper writes it, of features as rows."""
    d, n = Z[0].shape[1], sum(map(len, Z))
    eye = torch.eye(d, dtype=torch.float64)
    every = torch.cat(Z)
    whole_rate = torch.logdet(eye + d / (n * EPS_SQ) * every.T @ every) / 2
    return whole_rate - sum(len(z) / n * torch.logdet(eye + d / (len(z) * EPS_SQ) * z.T @ z) / 2 for z in Z)


def moments(Z: list[Tensor]) -> tuple[Tensor, Tensor]:
    return torch.stack([z.T @ z for z in Z]), torch.tensor([float(len(z)) for z in Z], dtype=torch.float64)


def test_a_layer_is_a_step_along_the_gradient_of_the_rate_reduction() -> None:
    Z = [z.requires_grad_(True) for z in classes()]
    slopes = torch.autograd.grad(reduction(Z), Z)
    S, n = moments([z.detach() for z in Z])
    E, C, _ = built(S, n, EPS_SQ, STEP)
    for j, (z, slope) in enumerate(zip(Z, slopes)):
        torch.testing.assert_close(z.detach() @ (E - n[j] / n.sum() * C[j]), slope)


def test_second_moments_behind_a_layer_are_those_of_the_features_there() -> None:
    """In NumPy, image by image."""
    Z = classes()
    S, n = moments(Z)
    E, C, after = (part.numpy() for part in built(S, n, EPS_SQ, STEP))
    before = float(reduction(Z))
    moved = []
    for j, features in enumerate(Z):
        share = len(features) / float(n.sum())
        steps = np.array([z + STEP * (E @ z - share * C[j] @ z) for z in features.numpy()])
        moved.append(steps / np.sqrt((steps**2).sum() / len(steps)))
        np.testing.assert_allclose(sum(np.outer(z, z) for z in moved[-1]), after[j], rtol=1e-10, atol=1e-12)
    assert float(reduction([torch.from_numpy(z) for z in moved])) > before


def test_what_is_kept_are_the_second_moments_of_pixels() -> None:
    learner: Any = learner_of("redunet", 1)
    X = TASKS[0][0][TASKS[0][1] == 5].double().flatten(1).numpy()
    Z = X / np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(whole(learner.kept.moments[1]).numpy(), Z.T @ Z, rtol=1e-5, atol=1e-6)
    assert learner.kept.counts.tolist() == [20, 20]


def test_two_tasks_are_exactly_one_of_all_classes() -> None:
    learner: Any = learner_of("redunet")
    images, labels = (torch.cat(parts) for parts in zip(*TASKS))
    order = {-4: 0, 5: 1, 2: 2, 30: 3}  # of learning: a joint learner takes labels as they ascend
    joint: Any = create_learner(recipe_of("redunet")).learn(images, torch.tensor([order[y] for y in labels.tolist()]))
    for name in ("E", "C", "bases"):
        one, other = (getattr(each._state.networks["layers"], name) for each in (learner, joint))
        assert torch.equal(one, other)
    expected = joint.scores(TESTS)[:, [0, 2, 1, 3]]  # columns by ascending label
    torch.testing.assert_close(learner.scores(TESTS), expected)


def test_a_class_that_is_forgotten_leaves_nothing() -> None:
    learner: Any = learner_of("redunet").forget(2)
    never: Any = create_learner(recipe_of("redunet")).learn(*TASKS[0])
    mine = TASKS[1][1] == 30
    never.learn(TASKS[1][0][mine], TASKS[1][1][mine])
    assert torch.equal(learner.scores(TESTS), never.scores(TESTS))


def test_digits_are_learned_and_not_forgotten() -> None:
    learner = create_learner(load_recipe("redunet-digits"), device="cpu")
    images, labels, tests, expected = digits()
    for task in ([0, 1], [2, 3]):
        mine = torch.isin(labels, torch.tensor(task))
        learner.learn(images[mine], labels[mine])
    assert learner.score(tests, expected) > 0.97


def test_it_draws_nothing_and_keeps_no_small_class() -> None:
    learner = learner_of("redunet", 1)
    assert not hasattr(learner, "sample")
    with pytest.raises(InputError, match="at least 10 training images of each class but got 4"):
        learner.learn(*pictures([7], each=4))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": 0}, "Expected layers to be at least 1 but got 0"),
        ({"side": 0}, "Expected side to be at least 1 but got 0"),
        ({"eps_sq": 0.0}, "Expected eps_sq to be above 0 but got 0.0"),
        ({"sharpness": -1.0}, "Expected sharpness to be above 0 but got -1.0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("redunet"), {"method": settings})
