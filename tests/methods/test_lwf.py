"""lwf: what the network of before says of new images is kept up."""

from typing import Any

import numpy as np
import pytest
import torch
from method_support import TASKS, learner_of, recipe_of

from ictrl import ConfigError, EpochReport
from ictrl.recipes.tables import recipe_with

STILL = {"epochs": 1, "batch": 40, "learning_rate": 1e-12}


def test_the_first_task_is_plain_cross_entropy() -> None:
    reports: list[EpochReport] = []
    learner_of("lwf", 0).learn(*TASKS[0], progress=reports.append)
    assert {name for report in reports for name in report.terms} == {"cross_entropy"}


def test_distillation_against_numpy() -> None:
    """The first step of the second task: networks as they were, but BatchNorm looks at the batch."""
    learner, other = (learner_of("lwf", 1, stage=STILL, temperature=3.0, distillation=0.5) for _ in range(2))
    reports: list[EpochReport] = []
    learner.learn(*TASKS[1], progress=reports.append)
    X = (TASKS[1][0].float() - 127.5) / 127.5
    networks = other._state.networks
    with torch.no_grad():
        before = networks["head"](networks["encoder"](X)).double().numpy() / 3
        other.resize(4)
        networks = other._state.networks
        now = networks["head"](networks["encoder"].train()(X))[:, :2].double().numpy() / 3
    p, q = (np.exp(part) / np.exp(part).sum(1, keepdims=True) for part in (before, now))
    expected = 0.5 * 9 * (p * np.log(p / q)).sum(1).mean()
    assert reports[0].terms["distillation"] == pytest.approx(expected, rel=1e-4)


def test_it_holds_the_old_logits() -> None:
    """Of new images, between old classes: the more it weighs, the less they change."""
    X = TASKS[1][0]
    apart = []
    for weight in (0.0, 10.0):
        learner = learner_of("lwf", 1, distillation=weight, stage={"epochs": 6, "learning_rate": 0.02})
        before = learner.head(learner.encode(X)).softmax(1)  # type: ignore[attr-defined]
        learner.learn(*TASKS[1])
        after = learner.head(learner.encode(X))[:, :2].softmax(1)  # type: ignore[attr-defined]
        apart.append(float((before - after).abs().mean().detach()))
    assert apart[1] < 0.5 * apart[0]


def test_nothing_is_kept_but_labels() -> None:
    learner: Any = learner_of("lwf")
    assert learner.kept_bytes == 8 * 4
    assert learner._before is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"distillation": -1.0}, "Expected distillation to be at least 0 but got -1.0"),
        ({"temperature": 0.0}, "Expected temperature to be above 0 but got 0.0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("lwf"), {"method": settings})
