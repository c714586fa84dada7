"""The moving average of weights, and the statistics that go with it."""

import math

import pytest
import torch
from support import pictures, tiny_players, tiny_recipe
from torch import nn

from ictrl import ICTRL
from ictrl.nets.dcgan import Encoder
from ictrl.nets.wrappers import to_float
from ictrl.training.ema import EMA, refresh_batchnorm


def test_each_step_weighs_one_over_the_horizon() -> None:
    network = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(network.weight)
    ema = EMA((network,), horizon=10.0)
    for _ in range(3):
        nn.init.ones_(network.weight)
        ema.add()
    ema.take()
    assert network.weight.item() == pytest.approx(1 - math.exp(-0.3))


def test_means_are_kept_and_given_back() -> None:
    one, other = (EMA((nn.Linear(2, 3),), 5.0) for _ in range(2))
    other.load(one.state())
    assert all(torch.equal(a, b) for a, b in zip(one.means, other.means))
    with pytest.raises(KeyError):
        other.load({})
    with pytest.raises(RuntimeError):
        other.load(EMA((nn.Linear(5, 3),), 5.0).state())


def test_statistics_are_means_over_all_batches() -> None:
    players = tiny_players()
    players.train_statistics(True)
    encoder, decoder = players.encoder, players.decoder
    batches = [to_float(part) for part in pictures([0, 1])[0].split(10)]
    refresh_batchnorm(encoder, batches, decoder)
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


def test_an_encoder_alone_sees_the_images_alone() -> None:
    """Methods without a decoder refresh in the same way; with one, its images count as much as the real ones."""
    encoder = Encoder(16, 1, 4, 8, torch.Generator().manual_seed(0)).train()
    norm = next(module for module in encoder.modules() if isinstance(module, nn.BatchNorm2d))
    entering: list[torch.Tensor] = []
    norm.register_forward_pre_hook(lambda module, given: entering.append(given[0]))
    batches = torch.rand(3, 5, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    weights = [parameter.clone() for parameter in encoder.parameters()]
    refresh_batchnorm(encoder, batches)
    expected = torch.stack([features.mean((0, 2, 3)) for features in entering]).mean(0)
    variance = torch.stack([features.transpose(0, 1).flatten(1).var(1) for features in entering]).mean(0)
    assert len(entering) == 3
    assert torch.allclose(norm.running_mean, expected, atol=1e-6)  # type: ignore[arg-type]
    assert torch.allclose(norm.running_var, variance, atol=1e-6)  # type: ignore[arg-type]
    assert all(torch.equal(a, b) for a, b in zip(weights, encoder.parameters()))


def test_a_task_leaves_the_mean_behind_and_nothing_else() -> None:
    last = ICTRL(tiny_recipe()).learn(*pictures([0, 1]))
    learner = ICTRL(tiny_recipe(first={"ema": 1.0}))
    weights: list[torch.Tensor] = []
    learner.learn(*pictures([0, 1]), progress=lambda report: weights.append(first_weight(learner)))
    assert torch.equal(weights[-1], first_weight(last))  # the game is the same
    assert not torch.equal(first_weight(learner), weights[-1])
    lowest, highest = (torch.stack([*weights]).amin(0), torch.stack([*weights]).amax(0))
    assert learner._state.ema is None
    assert not any(name.startswith("averages") for name in learner._state.tensors())
    spread = (highest - lowest).abs().max()
    assert (first_weight(learner) - weights[-1]).abs().max() < 2 * spread


def first_weight(learner: ICTRL) -> torch.Tensor:
    return next(learner.encoder.parameters()).detach().clone()
