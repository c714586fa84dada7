"""The mean of the players' weights, and the statistics that go with it."""

import math
from dataclasses import replace

import pytest
import torch
from support import pictures, tiny_recipe
from torch import nn

from ictrl import ICTRL
from ictrl.training.ema import Averages, learn_statistics_again
from ictrl.nets.dcgan import Decoder, Encoder, to_float


def test_each_step_weighs_one_over_the_horizon() -> None:
    network = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(network.weight)
    averages = Averages((network,), horizon=10.0)
    for _ in range(3):
        nn.init.ones_(network.weight)
        averages.add()
    averages.take()
    assert network.weight.item() == pytest.approx(1 - math.exp(-0.3))


def test_means_are_kept_and_given_back() -> None:
    one, other = (Averages((nn.Linear(2, 3),), 5.0) for _ in range(2))
    other.load(one.state())
    assert all(torch.equal(a, b) for a, b in zip(one.means, other.means))
    with pytest.raises(KeyError):
        other.load({})


def test_statistics_are_means_over_all_batches() -> None:
    generator = torch.Generator().manual_seed(0)
    encoder, decoder = (kind(8, 1, 8, 16, generator).train() for kind in (Encoder, Decoder))
    batches = [to_float(part) for part in pictures([0, 1])[0].split(10)]
    learn_statistics_again(encoder, decoder, batches)
    entering: list[torch.Tensor] = []
    norm = next(module for module in decoder.modules() if isinstance(module, nn.BatchNorm2d))
    norm.register_forward_pre_hook(lambda module, given: entering.append(given[0]))
    again = {name: buffer.clone() for name, buffer in norm.named_buffers()}
    with torch.no_grad():
        for X in batches:
            decoder(encoder(X))
    means = torch.stack([features.mean((0, 2, 3)) for features in entering])
    assert torch.allclose(again["running_mean"], means.mean(0), atol=1e-5)
    assert norm.momentum == 0.1


def test_a_task_leaves_the_mean_behind_and_nothing_else() -> None:
    recipe = tiny_recipe()
    last = ICTRL(recipe).learn(*pictures([0, 1]))
    learner = ICTRL(replace(recipe, game=replace(recipe.game, averaged=1.0)))
    weights: list[torch.Tensor] = []
    learner.learn(
        *pictures([0, 1]), progress=lambda report: weights.append(learner.encoder.layers[0].weight.detach().clone())
    )
    assert torch.equal(weights[-1], last.encoder.layers[0].weight)  # the game is the same
    assert not torch.equal(learner.encoder.layers[0].weight, weights[-1])
    lowest, highest = (torch.stack([*weights]).amin(0), torch.stack([*weights]).amax(0))
    assert learner._players.averages is None
    assert not any(name.startswith("averages") for name in learner._player_tensors())
    spread = (highest - lowest).abs().max()
    assert (learner.encoder.layers[0].weight - weights[-1]).abs().max() < 2 * spread
