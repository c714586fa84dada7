"""cls_er: two moving averages of the network, what replayed images are held to, who predicts."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from method_support import TASKS, TEST_LABELS, TESTS, learner_of, recipe_of
from support import pictures
from torch import Tensor, nn

from ictrl import ConfigError
from ictrl.memory.buffer import ReservoirBuffer
from ictrl.methods.cls_er import Average, AverageConfig, better
from ictrl.methods.supervised import Seen
from ictrl.nets.head import LinearHead
from ictrl.nets.wrappers import to_float
from ictrl.recipes.tables import recipe_with


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def softmax(logits: Tensor) -> np.ndarray[Any, Any]:
    powers = np.exp(logits.detach().double().numpy())
    return powers / powers.sum(1, keepdims=True)


def test_the_better_one_is_the_surer_of_the_class() -> None:
    one, other = torch.randn(2, 40, 3, generator=seeded())
    rows = torch.arange(40) % 3
    found, p, q = better(one, other, rows), softmax(one), softmax(other)
    taken = set()
    for i, row in enumerate(rows.tolist()):
        assert torch.equal(found[i], other[i] if q[i, row] > p[i, row] else one[i])
        taken.add(bool(q[i, row] > p[i, row]))
    assert taken == {True, False}


def moved(chance: float, decay: float, steps: int) -> tuple[list[float], Average]:
    """A weight that is t after step t, and its average after every step."""
    network, means = nn.Linear(1, 1, bias=False), []
    with torch.no_grad():
        network.weight.zero_()
        average, generator = Average(network, nn.Identity()), seeded(3)
        for t in range(1, steps + 1):
            network.weight.fill_(float(t))
            average.update([network.weight], AverageConfig(chance, decay), generator)
            means.append(float(next(average.parameters())))
    return means, average


def test_an_average_against_its_formula() -> None:
    means, average = moved(chance=1.0, decay=0.8, steps=10)
    mean, expected = 0.0, []
    for t in range(1, 11):
        alpha = min(1 - 1 / (t + 1), 0.8)
        mean = alpha * mean + (1 - alpha) * t
        expected.append(mean)
    assert means == pytest.approx(expected, rel=1e-5)
    assert int(average.steps) == 10


def test_an_average_moves_in_a_share_of_the_steps() -> None:
    means, average = moved(chance=0.25, decay=0.9, steps=800)
    moves = sum(now != before for before, now in pairwise(means))
    assert 160 < moves < 240
    assert int(average.steps) == 800  # every step counts
    assert set(moved(chance=0.0, decay=0.9, steps=20)[0]) == {0.0}


def test_a_grown_average_keeps_its_rows_and_takes_the_others_for_new_classes() -> None:
    with torch.no_grad():
        average = Average(nn.Linear(4, 3), LinearHead(3, 2))
        average.head.weight.fill_(5.0)  # type: ignore[union-attr,operator]
        average.steps.fill_(7)
        head = LinearHead(3).grown(4, seeded())
        grown = average.grown(head)
    assert torch.equal(grown.head.weight, torch.cat([torch.full((2, 3), 5.0), head.weight[2:]]))  # type: ignore[arg-type]
    assert int(grown.steps) == 7
    assert len(average.head.weight) == 2  # type: ignore[arg-type]


def test_the_loss_against_its_formula() -> None:
    learner: Any = learner_of("cls_er", 1, buffer={"images": 6, "batch": 6}, consistency=0.4)
    with torch.no_grad():
        for parameter in learner.averages["stable"].head.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=seeded()))
    images, rows = TASKS[0][0][:10], torch.arange(10) % 2
    old, old_rows = pictures([5, -4], each=3, seed=4)[0], torch.arange(6) % 2
    buffer = ReservoirBuffer(6, (1, 8, 8))
    buffer.add(old, old_rows, seeded())
    terms = learner.loss(Seen(to_float(images), rows, images, torch.arange(10)), {"buffer": buffer})
    with torch.no_grad():
        both = learner.head(learner.encoder(to_float(torch.cat([images, old]))))
        plastic, stable = (
            a.head(a.encoder(to_float(old))) for a in (learner.averages[n] for n in ("plastic", "stable"))
        )
    place = np.arange(6)
    surer = softmax(stable)[place, old_rows] > softmax(plastic)[place, old_rows]
    wanted = np.where(surer[:, None], stable.numpy(), plastic.numpy())
    assert float(terms["consistency"].detach()) == pytest.approx(
        0.4 * ((both[10:].numpy() - wanted) ** 2).mean(), rel=1e-4
    )
    every = -np.log(softmax(both)[np.arange(16), torch.cat([rows, old_rows])])
    assert float(terms["cross_entropy"].detach()) == pytest.approx(every.mean(), rel=1e-5)


def test_with_an_empty_buffer_nothing_is_held_to_anything() -> None:
    learner: Any = learner_of("cls_er", 1)
    images, rows = TASKS[0][0][:10], torch.arange(10) % 2
    seen = Seen(to_float(images), rows, images, torch.arange(10))
    assert float(learner.loss(seen, {"buffer": ReservoirBuffer(6, (1, 8, 8))})["consistency"].detach()) == 0.0


def test_the_stable_network_predicts() -> None:
    learner: Any = learner_of("cls_er", 1)
    images, before = TASKS[0][0], learner.scores(TASKS[0][0])
    with torch.no_grad():
        for part in (learner.head, learner.averages["plastic"].head):
            part.weight.neg_()
        assert torch.equal(learner.scores(images), before)
        learner.averages["stable"].head.weight.neg_()
    assert not torch.equal(learner.scores(images), before)


def test_three_networks_count_and_go_on_from_task_to_task() -> None:
    learner, one = learner_of("cls_er"), learner_of("er")
    assert learner.parameter_count == 3 * one.parameter_count
    assert learner.kept_bytes == one.kept_bytes
    assert [int(average.steps) for average in learner.averages.values()] == [24, 24]  # type: ignore[attr-defined]


def test_averages_have_batchnorm_statistics_of_their_own() -> None:
    learner: Any = learner_of("cls_er", 1, network={"kind": "resnet"})
    norms = [
        [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
        for network in (learner.encoder, learner.averages["stable"].encoder)
    ]
    assert norms[0]
    for mine, other in zip(*norms):
        assert bool(other.running_mean.any())
        assert not torch.equal(mine.running_mean, other.running_mean)


def test_old_classes_survive() -> None:
    learner = learner_of("cls_er", 2, stage={"epochs": 12, "learning_rate": 0.1})
    other = learner_of("finetune", 2, later={"epochs": 30})
    old = (TEST_LABELS == 5) | (TEST_LABELS == -4)
    assert learner.score(TESTS, TEST_LABELS) > 0.8
    assert learner.score(TESTS[old], TEST_LABELS[old]) > other.score(TESTS[old], TEST_LABELS[old]) + 0.3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"consistency": -1.0}, "Expected consistency to be at least 0 but got -1.0"),
        ({"plastic": {"chance": 1.5}}, "Expected plastic.chance to be from 0 to 1 but got 1.5"),
        ({"stable": {"decay": -0.1}}, "Expected stable.decay to be from 0 to 1 but got -0.1"),
        ({"buffer": {"images": 0}}, "Expected buffer.images to be at least 1 but got 0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("cls_er"), {"method": settings})
