"""The learning rate of each epoch."""

import math
from typing import Literal

import torch
from torch import Tensor


def learning_rate(base: float, epoch: int, epochs: int, schedule: Literal["constant", "cosine"], warmup: int) -> float:
    """The rate of an epoch, counted from 1: constant or along half a cosine, rising during the warmup.

    >>> [round(learning_rate(1.0, epoch, 4, "cosine", warmup=1), 2) for epoch in (1, 2, 3, 4)]
    [0.5, 0.85, 0.5, 0.15]
    """
    fallen = 0.5 * (1 + math.cos(math.pi * (epoch - 1) / epochs)) if schedule == "cosine" else 1.0
    return base * fallen * min(1.0, epoch / (warmup + 1))


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """A recorded step reads the rate from the device, where it is a tensor."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
