"""The learning rate of each epoch."""

import math
from typing import Literal

import torch
from torch import Tensor

TIMES = "times"  # in a parameter group: how many times the rate of an epoch it learns with
LEAST = 0.01  # share of the rate that a cycle of restarts falls to


def learning_rate(
    base: float, epoch: int, epochs: int, schedule: Literal["constant", "cosine", "restarts"], warmup: int
) -> float:
    """The rate of an epoch, counted from 1: constant, along half a cosine or several, rising during the warmup.

    >>> [round(learning_rate(1.0, epoch, 4, "cosine", warmup=1), 2) for epoch in (1, 2, 3, 4)]
    [0.5, 0.85, 0.5, 0.15]
    """
    if schedule == "cosine":
        fallen = _half_cosine((epoch - 1) / epochs)
    elif schedule == "restarts":
        fallen = LEAST + (1 - LEAST) * _half_cosine(_passed(max(0, epoch - 1 - warmup)))
    else:
        fallen = 1.0
    return base * fallen * min(1.0, epoch / (warmup + 1))


def _half_cosine(passed: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * passed))


def _passed(epochs: int) -> float:
    """The share of the present cycle that has passed after so many epochs; the n-th is 2ⁿ long (SGDR, ICLR 2017).

    >>> [_passed(epochs) for epochs in range(7)]
    [0.0, 0.0, 0.5, 0.0, 0.25, 0.5, 0.75]
    """
    cycle = 1 << ((epochs + 1).bit_length() - 1)
    return (epochs + 1 - cycle) / cycle


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The rate of an epoch, or this optimiser's multiple of it; a recorded step reads it from a tensor."""
    for group in optimiser.param_groups:
        own = rate * group.get(TIMES, 1.0)
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own


def multiply_learning_rate(optimiser: torch.optim.Optimizer, times: float) -> None:
    """Let this optimiser's rate be so many times that of the others from now on."""
    for group in optimiser.param_groups:
        group[TIMES] = times
