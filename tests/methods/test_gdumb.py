"""gdumb: balanced images, and networks that know nothing else."""

from typing import Any

import pytest
import torch
from method_support import TASKS, TEST_LABELS, TESTS, everything, learner_of, recipe_of, same
from torch.nn.functional import cross_entropy

from ictrl import ConfigError, EpochReport
from ictrl.methods.gdumb import GDumb, GDumbConfig
from ictrl.methods.supervised import Seen
from ictrl.nets.wrappers import to_float
from ictrl.recipes.tables import recipe_with
from ictrl.training.schedule import learning_rate


def test_networks_come_from_the_kept_images_and_the_seed_alone() -> None:
    learner, other = (learner_of("gdumb", 1) for _ in range(2))
    with torch.no_grad():
        for network in other._state.networks.values():
            for parameter in network.parameters():
                parameter.zero_()
    assert not same(everything(learner), everything(other))
    for one in (learner, other):
        one.learn(*TASKS[1])
    assert same(everything(learner), everything(other))


def test_an_epoch_sees_the_kept_images_only(monkeypatch: pytest.MonkeyPatch) -> None:
    learner: Any = learner_of("gdumb", 0, buffer={"images": 10}, stage={"batch": 2})
    steps, loss = [], GDumb.loss

    def counted(self: GDumb, seen: Seen, working: Any) -> Any:
        steps.append(seen.pixels)
        return loss(self, seen, working)

    monkeypatch.setattr(GDumb, "loss", counted)
    learner.learn(*TASKS[0])
    assert len(steps) == 3 * 5  # epochs, batches
    kept = {tuple(image.flatten().tolist()) for image in learner.kept.images}
    assert {tuple(image.flatten().tolist()) for image in torch.cat(steps)} == kept


def test_equally_many_images_of_each_class_are_kept_and_all_bytes_count() -> None:
    learner = learner_of("gdumb")
    kept = learner.kept_tensors()
    assert kept["rows"].bincount().tolist() == [9, 9, 9, 9]
    assert learner.kept_bytes == 36 * (64 + 8) + 4 * 8  # pixels, rows, labels
    given = {tuple(image.flatten().tolist()) for images, _ in TASKS for image in images}
    assert {tuple(image.flatten().tolist()) for image in kept["images"]} <= given


def test_old_classes_are_known_as_well_as_new_ones() -> None:
    learner = learner_of("gdumb", 2, stage={"epochs": 12})
    other = learner_of("finetune", 2, later={"epochs": 30})
    old = (TEST_LABELS == 5) | (TEST_LABELS == -4)
    assert learner.score(TESTS, TEST_LABELS) > 0.9
    assert learner.score(TESTS[old], TEST_LABELS[old]) > other.score(TESTS[old], TEST_LABELS[old]) + 0.3


def test_without_mixing_the_loss_is_cross_entropy() -> None:
    learner: Any = learner_of("gdumb", 1, cutmix=0.0)
    images, rows = TASKS[0][0][:10], torch.arange(10) % 2
    found = learner.loss(Seen(to_float(images), rows, images, torch.arange(10)), {})
    expected = cross_entropy(learner.logits(to_float(images)), rows)
    assert float(found["cross_entropy"].detach()) == pytest.approx(float(expected.detach()), rel=1e-6)


def test_gradients_are_clipped() -> None:
    learner: Any = learner_of("gdumb", 1, clip=0.01)

    def norm() -> float:
        learner.backward(100 * learner.logits(to_float(TASKS[0][0])).square().mean())
        return float(torch.cat([parameter.grad.flatten() for parameter in learner.trained]).norm())

    assert norm() == pytest.approx(0.01, rel=1e-3)


def test_256_epochs_end_with_a_cycle() -> None:
    """1 of warmup, and then 1 + 2 + 4 + … + 128."""
    stage = GDumbConfig().stage
    rates = [learning_rate(0.05, epoch, 256, stage.schedule, stage.warmup) for epoch in range(1, 258)]
    assert rates[:4] == pytest.approx([0.025, 0.05, 0.05, 0.02525])
    assert rates[255] < 0.0006
    assert rates[256] == 0.05


def test_every_epoch_is_reported() -> None:
    reports: list[EpochReport] = []
    learner_of("gdumb", 1).learn(*TASKS[1], progress=reports.append)
    assert [(report.epoch, set(report.terms)) for report in reports] == [(e, {"cross_entropy"}) for e in (1, 2, 3)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"buffer": {"images": 0}}, "Expected buffer.images to be at least 1 but got 0"),
        ({"cutmix": 1.5}, "Expected cutmix to be from 0 to 1 but got 1.5"),
        ({"clip": 0.0}, "Expected clip to be above 0 but got 0.0"),
        ({"stage": {"augmentation": {"rotations": True}}}, "Expected stage.augmentation.rotations to be false"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("gdumb"), {"method": settings})
