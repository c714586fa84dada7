"""BatchNorm over the rows of all processes that share a batch.

Each of them has counts, means and variances of its own rows; added up, they are those of the whole batch, by which all
rows are normalised and from which all running statistics learn. Every row depends on them, so that their gradient is a
sum over all processes too.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ictrl.parallel.sharing import exchanged, shared
from ictrl.shapes import Float


class FeatureNorm(nn.BatchNorm1d):
    """BatchNorm of features (n, d)."""

    def forward(self, input: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return shared_batch_norm(input, self) if self.training and shared() else super().forward(input)


def shared_batch_norm(x: Tensor, norm: nn.BatchNorm1d | nn.BatchNorm2d) -> Tensor:
    """What a BatchNorm in training makes of (n, c, …), whose rows are this process's share of the batch."""
    n, mean, var = learned_statistics(x, norm)
    return _Normalised.apply(x, norm.weight, norm.bias, n, mean, (var + norm.eps).rsqrt())


@torch.no_grad()
def learned_statistics(x: Tensor, norm: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, mean and variance of each channel over all processes, which also move the norm's own."""
    n = x.numel() // x.shape[1]
    exact = torch.promote_types(x.dtype, torch.float32)
    var, mean = torch.var_mean(x.to(exact), _all_but_channels(x), correction=0)
    # in double precision: a variance is a small difference of large sums
    mean, var = mean.double(), var.double()
    rows = torch.full_like(mean, float(n))
    rows, first, second = exchanged(torch.stack([rows, n * mean, n * (var + mean.square())]))
    mean = first / rows
    var = (second / rows - mean.square()).clamp(min=0)
    kept = dict(norm.named_buffers())
    running_mean, running_var = kept["running_mean"], kept["running_var"]
    running_mean.lerp_(mean.to(running_mean.dtype), cast(float, norm.momentum))
    running_var.lerp_((var * rows / (rows - 1)).to(running_var.dtype), cast(float, norm.momentum))
    kept["num_batches_tracked"].add_(1)
    return rows.to(exact), mean.to(exact), var.to(exact)


class _Normalised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, n: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, n, mean, scale)
        shape = _channels(x)
        normed = (x - mean.view(shape)) * (scale * weight).view(shape)
        return normed.add_(bias.view(shape)).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, n, mean, scale = ctx.saved_tensors
        shape, others = _channels(x), _all_but_channels(x)
        dy = dy.to(mean.dtype)
        centred = (x - mean.view(shape)).mul_(scale.view(shape))
        d_bias, d_weight = dy.sum(others), (dy * centred).sum(others)  # of this process's rows
        all_bias, all_weight = exchanged(torch.stack([d_bias, d_weight])) / n
        dx = (dy - all_bias.view(shape)).sub_(centred.mul_(all_weight.view(shape)))
        return dx.mul_((scale * weight).view(shape)).to(x.dtype), d_weight, d_bias, None, None, None


def _channels(x: Tensor) -> tuple[int, ...]:
    return (1, x.shape[1], *[1] * (x.ndim - 2))


def _all_but_channels(x: Tensor) -> list[int]:
    return [0, *range(2, x.ndim)]
