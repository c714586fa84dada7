"""BatchNorm's statistics over the rows of all processes that share a batch.

Each process has counts and sums of its own rows; added up, they are those of the whole batch, by which all rows are
normalised and from which all running statistics learn alike.
"""

from typing import cast

import torch
from torch import Tensor, nn

from ictrl.parallel.sharing import added


@torch.no_grad()
def learned_statistics(norm: nn.Module, rows: int, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of each channel, and rows, over all processes; they also move the norm's own statistics.

    From this process's rows, their sums of x − m and of (x − m)², with m the norm's running mean: near the mean itself,
    so that the variance loses no digits.
    """
    kept = dict(norm.named_buffers())
    running_mean, running_var = kept["running_mean"], kept["running_var"]
    first, second = first.double(), second.double()
    n, first, second = added(torch.stack([torch.full_like(first, float(rows)), first, second]))
    offset = first / n
    var = (second / n - offset.square()).clamp(min=0)
    mean = running_mean + offset
    momentum = cast(float, norm.momentum)
    running_mean.add_(momentum * offset)
    running_var.lerp_((var * n / (n - 1)).to(running_var.dtype), momentum)
    kept["num_batches_tracked"].add_(1)
    return mean.to(running_mean.dtype), var.to(running_var.dtype), n.to(running_mean.dtype)
