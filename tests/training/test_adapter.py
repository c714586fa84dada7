"""The adapter learns how features have moved, and Gaussians move with it."""

from typing import Any

import pytest
import torch
from torch import nn

from ictrl.errors import ConfigError
from ictrl.nets.mlp import mlp
from ictrl.training.adapter import AdapterConfig, clip_gradients, moved_gaussian, train_adapter

CONFIG = AdapterConfig(epochs=60, batch=50, learning_rate=0.05)


def test_it_learns_what_moved_features(generator: torch.Generator) -> None:
    """A map that is not linear: far nearer to the features of now than those of before were."""
    before = torch.randn(400, 4, generator=generator)
    now = 1.5 * before.flip(1) + before.tanh() + 1
    adapter = train_adapter(before, now, 64, 0.0, CONFIG, generator)
    apart = (adapter(before) - now).square().mean()
    assert float(apart) < 0.02 * float((before - now).square().mean())
    assert not any(parameter.requires_grad for parameter in adapter.parameters())


def test_a_seed_decides_it() -> None:
    before = torch.randn(60, 3, generator=torch.Generator().manual_seed(1))
    one, same, other = (
        train_adapter(before, 2 * before, 8, 1.0, AdapterConfig(3, 20), torch.Generator().manual_seed(seed))(before)
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_against_collapse_the_adapter_spreads_more(generator: torch.Generator) -> None:
    """Where features of now lie on a line."""
    before = torch.randn(400, 4, generator=generator)
    now = before[:, :1].expand(-1, 4) * 0.5
    spread = [
        torch.linalg.det(torch.cov(train_adapter(before, now, 32, weight, CONFIG, generator)(before).T))
        for weight in (0.0, 1.0)
    ]
    assert float(spread[1]) > 10 * float(spread[0].abs())


def test_a_linear_map_moves_a_gaussian_exactly_up_to_the_draw(generator: torch.Generator) -> None:
    A, b = torch.randn(3, 3, generator=generator), torch.randn(3, generator=generator)
    linear = nn.Linear(3, 3)
    with torch.no_grad():
        linear.weight.copy_(A)
        linear.bias.copy_(b)
    mean, root = torch.randn(3, generator=generator), torch.randn(3, 3, generator=generator)
    S = root @ root.T
    found, covariance = moved_gaussian(mean, S, linear, 200_000, generator)
    torch.testing.assert_close(found, A @ mean + b, atol=0.05, rtol=0)
    torch.testing.assert_close(covariance, A @ S @ A.T, atol=0.02 * float((A @ S @ A.T).abs().max()), rtol=0)


def test_a_gaussian_without_width_in_some_direction_is_moved_too(generator: torch.Generator) -> None:
    mean, covariance = moved_gaussian(
        torch.ones(3), torch.diag(torch.tensor([1.0, 0.0, -1e-9])), nn.Identity(), 100, generator
    )
    assert mean[1:].tolist() == [1, 1]
    assert float(covariance[0, 0]) > 0.5
    assert float(covariance[1:].abs().max()) < 1e-6


def test_gradients_are_clipped_before_a_step() -> None:
    weight = nn.Parameter(torch.zeros(4))
    optimiser = torch.optim.SGD([weight], 1.0)
    optimiser.register_step_pre_hook(clip_gradients)
    weight.grad = torch.full((4,), 50.0)
    optimiser.step()
    assert float(weight.detach().norm()) == pytest.approx(1.0, rel=1e-4)


def test_the_network_comes_from_its_generator_alone() -> None:
    before = torch.get_rng_state()
    one, same, other = (mlp(5, 7, 3, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters()))
    assert not torch.equal(one[0].weight, other[0].weight)
    assert one(torch.zeros(2, 5)).tolist() == [[0] * 3] * 2
    wide = mlp(100, 400, 2, torch.Generator().manual_seed(0))
    assert float(wide[0].weight.detach().std()) == pytest.approx(0.1, rel=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "Expected adapter.epochs to be at least 1 but got 0"),
        ({"batch": 0}, "Expected adapter.batch to be at least 1 but got 0"),
        ({"samples": 1}, "Expected adapter.samples to be at least 2 but got 1"),
        ({"learning_rate": 0.0}, "Expected adapter.learning_rate to be above 0 but got 0.0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AdapterConfig(**settings)
