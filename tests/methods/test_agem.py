"""agem: a step does not raise the loss on images from memory."""

from typing import Any

import numpy as np
import pytest
import torch
from method_support import TASKS, learner_of, recipe_of
from torch import Tensor
from torch.nn.functional import cross_entropy

from ictrl import ConfigError
from ictrl.methods import agem
from ictrl.nets.wrappers import to_float
from ictrl.recipes.tables import recipe_with


def flat(parts: Any) -> np.ndarray[Any, Any]:
    return np.concatenate([part.detach().double().flatten().numpy() for part in parts])


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_projection_against_numpy(sign: float) -> None:
    generator = torch.Generator().manual_seed(0)
    reference = tuple(torch.randn(*shape, generator=generator) for shape in [(3, 4), (5,)])
    gradients = [sign * r + 0.5 * torch.randn(r.shape, generator=generator) for r in reference]
    g, r = flat(gradients), flat(reference)
    assert np.sign(g @ r) == sign
    agem.project(gradients, reference)
    expected = g - (g @ r) / (r @ r) * r if sign < 0 else g
    np.testing.assert_allclose(flat(gradients), expected, rtol=1e-5, atol=1e-6)
    if sign < 0:
        assert flat(gradients) @ r == pytest.approx(0.0, abs=1e-5)


def test_no_reference_changes_nothing() -> None:
    gradients = [torch.ones(3)]
    agem.project(gradients, (torch.zeros(3),))
    assert gradients[0].tolist() == [1.0, 1.0, 1.0]


def losses(learner: Any) -> tuple[Tensor, Tensor]:
    """On the second task's images, and on all that are kept of the first."""

    def loss(images: Tensor, rows: Tensor) -> Tensor:
        return cross_entropy(learner.head(learner.encoder(to_float(images))), rows)

    return loss(TASKS[1][0], 2 + (TASKS[1][1] == 30).long()), loss(*learner.kept)


def test_what_the_optimiser_follows_is_the_projected_gradient() -> None:
    learner: Any = learner_of("agem", 1, buffer={"images": 12, "batch": 12})
    learner.resize(4)
    new, old = losses(learner)
    g, r = (flat(torch.autograd.grad(loss, learner.trained, retain_graph=True)) for loss in (new, old))
    assert g @ r < 0  # or there would be nothing to see
    learner._state.optimisers["network"].zero_grad()
    learner.backward(new)
    found = flat(parameter.grad for parameter in learner.trained)
    np.testing.assert_allclose(found, g - (g @ r) / (r @ r) * r, rtol=1e-3, atol=1e-6)


def test_the_first_task_follows_the_plain_gradient() -> None:
    learner: Any = learner_of("agem", 0)
    learner.resize(2)
    loss = cross_entropy(learner.logits(to_float(TASKS[0][0])), learner.rows_of(TASKS[0][1]))
    learner._state.optimisers["network"].zero_grad()
    expected = torch.autograd.grad(loss, learner.trained, retain_graph=True)
    learner.backward(loss)
    assert all(torch.equal(parameter.grad, part) for parameter, part in zip(learner.trained, expected))


def test_old_images_are_forgotten_less_than_without_the_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    def old_loss() -> float:
        learner: Any = learner_of("agem", 1)
        kept = learner.kept
        learner.learn(*TASKS[1])
        with torch.no_grad():
            return float(cross_entropy(learner.head(learner.encode(kept.images)), kept.rows))

    protected = old_loss()
    monkeypatch.setattr(agem, "project", lambda gradients, reference: None)
    assert protected < 0.7 * old_loss()


def test_equally_many_images_of_each_class_are_kept_and_all_bytes_count() -> None:
    first, both = learner_of("agem", 1), learner_of("agem", 2)
    assert first.kept_tensors()["rows"].bincount().tolist() == [6, 6]
    assert both.kept_tensors()["rows"].bincount().tolist() == [3, 3, 3, 3]
    assert both.kept_bytes == 12 * (64 + 8) + 4 * 8  # pixels, rows, labels
    of_class: dict[int, Any] = {
        row: TASKS[row // 2][0][TASKS[row // 2][1] == label] for row, label in enumerate(both.labels)
    }
    for image, row in zip(both.kept_tensors()["images"], both.kept_tensors()["rows"].tolist()):
        assert any(torch.equal(image, other) for other in of_class[row])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"buffer": {"images": 0}}, "Expected buffer.images to be at least 1 but got 0"),
        ({"buffer": {"batch": 0}}, "Expected buffer.batch to be at least 1 but got 0"),
        ({"stage": {"batch": "rule"}}, 'Expected stage.batch to be a number but got "rule"'),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("agem"), {"method": settings})
