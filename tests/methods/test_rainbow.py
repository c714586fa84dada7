"""rainbow: how unsure the network is, which images are kept by it, and that they are replayed."""

from typing import Any

import numpy as np
import pytest
import torch
from method_support import TASKS, TEST_LABELS, TESTS, learner_of, recipe_of
from torch import Tensor
from torch.nn.functional import cross_entropy

from ictrl import ConfigError
from ictrl.memory.buffer import Exemplars
from ictrl.methods.rainbow import Rainbow
from ictrl.methods.supervised import Seen
from ictrl.nets.wrappers import to_float
from ictrl.recipes.tables import recipe_with


def test_uncertainty_counts_the_views_of_the_commonest_class() -> None:
    learner: Any = learner_of("rainbow", 1, views=7)
    noise = torch.randint(0, 256, (30, 1, 8, 8), generator=torch.Generator().manual_seed(0)).byte()
    state = learner._state.generator.get_state()
    found = learner.uncertainty(noise)
    learner._state.generator.set_state(state)
    with torch.no_grad():
        said = [learner.head(learner.encoder(learner.shown(noise, learner.settings.perturbation))) for _ in range(7)]
    classes = torch.stack([logits.argmax(1) for logits in said], 1).tolist()  # (n, views)
    expected = [1 - max(views.count(c) for c in set(views)) / 7 for views in classes]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)
    assert len(set(expected)) > 1


def test_of_each_class_images_are_kept_at_even_steps_of_uncertainty(monkeypatch: pytest.MonkeyPatch) -> None:
    learner: Any = learner_of("rainbow", 1)
    unsure = torch.rand(60, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(learner, "uncertainty", lambda images: unsure)
    among = Exemplars(torch.zeros(60, 1, 8, 8, dtype=torch.uint8), torch.arange(60) % 3)
    places = learner.diverse(among, 15)
    for row in range(3):
        mine = np.flatnonzero(among.rows.numpy() == row)
        ranked = mine[np.argsort(unsure.numpy()[mine])]
        assert places[among.rows[places] == row].tolist() == ranked[::4].tolist()  # 5 of 20


def test_after_a_task_old_and_new_images_are_chosen_anew_and_all_bytes_count() -> None:
    first, learner = learner_of("rainbow", 1), learner_of("rainbow")
    kept, before = learner.kept_tensors(), first.kept_tensors()
    assert before["rows"].bincount().tolist() == [6, 6]
    assert kept["rows"].bincount().tolist() == [3, 3, 3, 3]
    assert learner.kept_bytes == 12 * (64 + 8) + 4 * 8  # pixels, rows, labels

    def all_of(images: Tensor) -> set[tuple[int, ...]]:
        return {tuple(image.flatten().tolist()) for image in images}

    assert all_of(kept["images"][kept["rows"] < 2]) < all_of(before["images"])
    assert all_of(kept["images"][kept["rows"] >= 2]) < all_of(TASKS[1][0])


def test_without_mixing_it_pays_for_new_and_old_images_alike() -> None:
    learner: Any = learner_of("rainbow", 1, cutmix=0.0, buffer={"batch": 12})
    images, rows = TASKS[0][0][:10], torch.arange(10) % 2
    found = learner.loss(Seen(to_float(images), rows, images, torch.arange(10)), {})
    both = torch.cat([images, learner.kept.images])
    expected = cross_entropy(learner.logits(to_float(both)), torch.cat([rows, learner.kept.rows]))
    assert float(found["cross_entropy"].detach()) == pytest.approx(float(expected.detach()), rel=1e-5)


def test_the_first_task_has_steps_of_as_many_images(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    learner: Any = learner_of("rainbow", 0, stage={"batch": 4}, buffer={"batch": 4})
    logits = Rainbow.logits

    def counted(self: Rainbow, X: Tensor) -> Tensor:
        if self.encoder.training:
            sizes.append(len(X))
        return logits(self, X)

    monkeypatch.setattr(Rainbow, "logits", counted)
    for task in TASKS:
        learner.learn(*task)
    assert set(sizes) == {8}
    assert len(sizes) == 3 * 5 + 3 * 10


def test_old_classes_survive() -> None:
    learner = learner_of("rainbow", 2, stage={"epochs": 12})
    other = learner_of("finetune", 2, later={"epochs": 30})
    old = (TEST_LABELS == 5) | (TEST_LABELS == -4)
    assert learner.score(TESTS, TEST_LABELS) > 0.8
    assert learner.score(TESTS[old], TEST_LABELS[old]) > other.score(TESTS[old], TEST_LABELS[old]) + 0.3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"views": 0}, "Expected views to be at least 1 but got 0"),
        ({"cutmix": -0.5}, "Expected cutmix to be from 0 to 1 but got -0.5"),
        ({"perturbation": {"rotations": True}}, "Expected perturbation.rotations to be false"),
        ({"buffer": {"batch": 0}}, "Expected buffer.batch to be at least 1 but got 0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("rainbow"), {"method": settings})
