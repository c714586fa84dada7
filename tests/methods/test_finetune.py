"""finetune: cross-entropy on each task alone, a head that grows, and nothing that protects old classes."""

from typing import Any

import numpy as np
import pytest
import torch
from method_support import TASKS, TESTS, learner_of, recipe_of
from support import pictures

from ictrl import ConfigError, EpochReport, create_learner
from ictrl.recipes.tables import recipe_with


def test_the_first_task_is_forgotten() -> None:
    learner = learner_of("finetune", tasks=0, first={"epochs": 6}, later={"epochs": 30, "learning_rate": 1e-2})
    old, new = pictures([0, 1], seed=1), pictures([2, 3], seed=1)
    learner.learn(*pictures([0, 1]))
    assert learner.score(*old) > 0.95
    learner.learn(*pictures([2, 3]))
    assert learner.score(*new) > 0.95
    assert learner.score(*old) < 0.2


def test_nothing_is_kept_but_labels() -> None:
    learner = learner_of("finetune")
    assert learner.kept is None
    assert learner.kept_tensors() == {}
    assert learner.kept_bytes == 8 * 4
    assert not learner.keeps_images


def test_scores_are_log_posteriors_of_the_head_by_ascending_label() -> None:
    learner = learner_of("finetune")
    networks = learner._state.networks
    with torch.no_grad():
        features = networks["encoder"]((TESTS.float() - 127.5) / 127.5)
        logits = features @ networks["head"].weight.T + networks["head"].bias  # rows as learned: -4, 5, 2, 30
    expected = logits.log_softmax(1)[:, [0, 2, 1, 3]]
    torch.testing.assert_close(learner.scores(TESTS), expected)
    np.testing.assert_allclose(learner.scores(TESTS).exp().sum(1).numpy(), 1.0, rtol=1e-5)


def test_the_head_grows_and_the_rows_of_old_classes_come_first() -> None:
    learner = learner_of("finetune", tasks=1)
    old = learner._state.networks["head"].weight.clone()
    assert old.shape == (2, 16)
    learner.resize(4)
    grown = learner._state.networks["head"].weight
    assert grown.shape == (4, 16)
    assert torch.equal(grown[:2], old)
    assert float(grown[2:].detach().std()) == pytest.approx(16**-0.5, rel=0.3)


def test_the_loss_is_cross_entropy_over_all_classes_so_far() -> None:
    """Against NumPy: one step on all images of the second task, before it can have changed anything."""
    still = {"epochs": 1, "batch": 40, "learning_rate": 1e-12}
    learner, other = (learner_of("finetune", tasks=1, later=still) for _ in range(2))
    reports: list[EpochReport] = []
    learner.learn(*TASKS[1], progress=reports.append)
    other.resize(4)  # draws the same rows
    networks = other._state.networks
    with torch.no_grad():
        features = networks["encoder"].train()((TASKS[1][0].float() - 127.5) / 127.5)
        logits = networks["head"](features).double().numpy()
    rows = np.where(TASKS[1][1].numpy() == 2, 2, 3)  # labels ascending, after the two old ones
    expected = np.log(np.exp(logits).sum(1)) - logits[np.arange(40), rows]
    assert reports[0].terms == {"cross_entropy": pytest.approx(expected.mean(), rel=1e-5)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"later": {"batch": "rule"}}, 'Expected later.batch to be a number but got "rule", which is a rule of i-CTRL'),
        ({"first": {"augmentation": {"rotations": True}}}, "Expected first.augmentation.rotations to be false"),
    ],
)
def test_what_only_the_game_has_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("finetune"), {"method": settings})


def test_augmentation_and_an_average_of_the_weights_change_what_is_learned() -> None:
    plain = learner_of("finetune", tasks=1)
    for settings in ({"augmentation": {"mirror": True, "shifts": 1}}, {"ema": 2.0}):
        other = create_learner(recipe_of("finetune", first=settings)).learn(*TASKS[0])
        assert not torch.equal(other.scores(TESTS), plain.scores(TESTS))
        assert other.score(*pictures([5, -4], seed=1)) > 0.9
