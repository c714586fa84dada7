"""eec and eecs: what an autoencoder pays, which images the classifier sees again, what is kept, what is drawn."""

from typing import Any

import numpy as np
import pytest
import torch
from generative_support import accuracies, digits, learned, recognised
from method_support import TASKS, learner_of, recipe_of

from ictrl import ConfigError, Learner
from ictrl.methods.supervised import Seen
from ictrl.nets.wrappers import to_float
from ictrl.recipes.tables import recipe_with
from ictrl.training.autoencoder import content


def test_content_against_its_formula() -> None:
    learner: Any = learner_of("eec", 1)
    X, X_hat = (to_float(TASKS[i][0][:6]) for i in (0, 1))
    found = float(content(learner.encoder, X, X_hat, torch.float32).detach())
    with torch.no_grad():
        a, b = (learner.encoder.stages(part)[-1].double().numpy() for part in (X, X_hat))
    assert found == pytest.approx(((a - b) ** 2).mean() / (a**2).mean(), rel=1e-4)
    assert float(content(learner.encoder, X, X, torch.float32).detach()) == 0.0


def test_decoded_images_weigh_less_with_age() -> None:
    learner: Any = learner_of("eec", 1, decay=0.5)
    images, rows = TASKS[0][0][:6], torch.arange(6) % 2
    learner._weights = torch.tensor([1.0, np.exp(-0.5), np.exp(-1.0), 1.0, 1.0, 1.0])
    chosen = torch.tensor([0, 1, 2, 2, 1, 0])
    loss = learner.loss(Seen(to_float(images), rows, images, chosen), {})["cross_entropy"]
    with torch.no_grad():
        logits = learner.logits(to_float(images)).double().numpy()
    each = np.log(np.exp(logits).sum(1)) - logits[np.arange(6), rows]
    assert float(loss.detach()) == pytest.approx((np.exp(-0.5 * np.array([0, 1, 2, 2, 1, 0])) * each).mean(), rel=1e-5)


@pytest.mark.parametrize("method", ["eec", "eecs"])
def test_old_classes_come_back_as_often_as_they_were(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All images that the classifier is given in the second task, with their classes and weights."""
    learner: Any = learner_of(method, 1, vectors=30, decay=0.5)
    given: list[Any] = []
    train = type(learner).train

    def watched(self: Any, images: Any, rows: Any, *more: Any) -> None:
        given.append((images, rows, self._weights))
        train(self, images, rows, *more)

    monkeypatch.setattr(type(learner), "train", watched)
    learner.learn(*TASKS[1])
    images, rows, weights = given[0]
    assert images.dtype == torch.uint8
    assert rows.bincount().tolist() == [20, 20, 20, 20]
    assert torch.equal(images[:40], TASKS[1][0])
    torch.testing.assert_close(weights, torch.where(rows < 2, np.exp(-0.5), 1.0).float())


def test_codes_are_kept_until_room_is_short() -> None:
    learner: Any = learner_of("eec", 1, vectors=60)
    kept = learner.kept
    assert kept.counts.tolist() == [1] * 40
    place = (TASKS[0][1] == -4).nonzero()[:, 0]
    assert torch.equal(kept.of(0).means, learner.coded(TASKS[0][0][place], 0))
    learner.learn(*TASKS[1])  # 80 codes, and room for 15 of each class
    assert learner.kept.vectors() <= 60
    assert learner.kept.born.tolist() == [0, 0, 1, 1]
    assert [int(learner.kept.of(row).counts.sum()) for row in range(4)] == [20] * 4


def test_an_autoencoder_of_an_old_class_stays_as_it_was() -> None:
    learner: Any = learner_of("eec", 1)
    before = [tensor.clone() for tensor in learner.coder_of(1)[1].state_dict().values()]
    learner.learn(*TASKS[1])
    assert all(torch.equal(one, other) for one, other in zip(before, learner.coder_of(1)[1].state_dict().values()))
    assert learner.parameter_count > learner_of("eecs").parameter_count
    learner.forget(5)
    assert len(learner._state.networks["decoder"]) == 3


def test_eecs_encodes_old_classes_anew() -> None:
    learner: Any = learner_of("eecs", 1, vectors=400)
    before = learner.kept.of(0).means.clone()
    learner.learn(*TASKS[1])
    assert learner.kept.of(0).counts.tolist() == [1] * 20  # as many as they were
    assert not torch.equal(learner.kept.of(0).means, before)


@pytest.fixture(scope="module", params=["eec", "eecs"])
def two_tasks(request: pytest.FixtureRequest) -> Learner[Any]:
    return learned(request.param, stage={"epochs": 8}, coding={"epochs": 25}, vectors=80)


def test_pictures_of_old_and_new_digits_are_recognised(two_tasks: Learner[Any]) -> None:
    shares = recognised(two_tasks)
    assert min(shares) > 0.8, shares


def test_old_digits_are_not_forgotten(two_tasks: Learner[Any]) -> None:
    every, old = accuracies(two_tasks)
    assert every > 0.9
    assert old > accuracies(learned("finetune", later={"epochs": 8}))[1] + 0.6


def test_a_picture_is_reconstructed(two_tasks: Any) -> None:
    images = digits()[2][:30]
    again = two_tasks.reconstruct(images)
    mean = images.float().mean(0)
    apart, spread = ((images.float() - other).square().mean() for other in (again.float(), mean))
    assert float(apart) < 0.6 * float(spread)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"content": 1.5}, "Expected content to be from 0 to 1 but got 1.5"),
        ({"decay": -1.0}, "Expected decay to be at least 0 but got -1.0"),
        ({"vectors": 1}, "Expected vectors to be at least 2, a concept's, but got 1"),
        ({"coding": {"batch": "rule"}}, "Expected coding.batch to be a number but got"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("eecs"), {"method": settings})
