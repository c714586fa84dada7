"""The learning rate of every epoch, and that it is the one that is used."""

import math

import pytest
import torch
from torch import nn

from ictrl.training.schedule import learning_rate, multiply_learning_rate, set_learning_rate


def rates(epochs: int, schedule: str = "constant", warmup: int = 0) -> list[float]:
    return [learning_rate(1e-3, epoch, epochs, schedule, warmup) for epoch in range(1, epochs + 1)]  # type: ignore[arg-type]


def test_a_constant_rate_is_the_rate() -> None:
    assert rates(3) == [1e-3] * 3


def test_a_cosine_falls_from_the_rate_towards_nothing() -> None:
    assert rates(4, "cosine") == pytest.approx([1e-3, 0.8536e-3, 0.5e-3, 0.1464e-3], rel=1e-3)
    every = rates(1000, "cosine")
    assert every == sorted(every, reverse=True)
    assert every[-1] == pytest.approx(1e-3 * 0.5 * (1 + math.cos(math.pi * 0.999)))
    assert rates(1, "cosine") == [1e-3]


def test_the_rate_rises_during_the_warmup() -> None:
    assert rates(5, warmup=3) == pytest.approx([0.25e-3, 0.5e-3, 0.75e-3, 1e-3, 1e-3])
    assert rates(2, warmup=9) == pytest.approx([0.1e-3, 0.2e-3])  # a task shorter than its warmup


def test_a_warmup_rises_along_the_falling_cosine() -> None:
    risen = [share * rate for share, rate in zip((0.5, 1, 1, 1), rates(4, "cosine"))]
    assert rates(4, "cosine", warmup=1) == pytest.approx(risen)


def test_restarts_are_those_of_torch_after_the_warmup() -> None:
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1e-3)
    cycles = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimiser, T_0=1, T_mult=2, eta_min=1e-5)
    expected = []
    for _ in range(31):  # cycles of 1, 2, 4, 8 and 16 epochs
        expected.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        cycles.step()
    assert rates(31, "restarts") == pytest.approx(expected)
    assert rates(33, "restarts", warmup=2) == pytest.approx([1e-3 / 3, 2e-3 / 3, *expected])


@pytest.mark.parametrize("as_tensor", [False, True])
def test_the_rate_that_is_set_is_the_rate_that_is_used(as_tensor: bool) -> None:
    """Plain gradient descent on a weight of gradient 1 moves by the rate. A recorded step reads it from a tensor."""
    network = nn.Linear(1, 1, bias=False)
    kept = torch.tensor(0.1) if as_tensor else 0.1
    optimiser = torch.optim.SGD(network.parameters(), lr=kept)
    before = network.weight.item()
    set_learning_rate(optimiser, 0.25)
    network(torch.ones(1, 1)).sum().backward()
    optimiser.step()
    assert before - network.weight.item() == pytest.approx(0.25)
    if as_tensor:
        assert optimiser.param_groups[0]["lr"] is kept  # the very tensor that was recorded


def test_an_optimiser_may_learn_at_a_multiple_of_the_rate() -> None:
    one, other = (torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1) for _ in range(2))
    multiply_learning_rate(one, 4.0)
    for optimiser in (one, other):
        set_learning_rate(optimiser, 0.25)
    assert (one.param_groups[0]["lr"], other.param_groups[0]["lr"]) == (1.0, 0.25)
