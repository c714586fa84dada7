"""BatchNorm over the rows of all processes that share a batch, in a few lines of PyTorch.

Every row depends on the statistics of all rows, so that its gradient has a sum over all processes too.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ictrl.parallel.batch_statistics import learned_statistics
from ictrl.parallel.sharing import added, shared
from ictrl.shapes import Float


class FeatureNorm(nn.BatchNorm1d):
    """BatchNorm of features (n, d)."""

    def forward(self, input: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return shared_batch_norm(input, self) if self.training and shared() else super().forward(input)


def shared_batch_norm(x: Tensor, norm: nn.BatchNorm1d | nn.BatchNorm2d) -> Tensor:
    """What a BatchNorm in training makes of (n, c, …), whose rows are this process's share of the batch."""
    with torch.no_grad():
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        var, mean = torch.var_mean(exact, _all_but_channels(x), correction=0)
        rows, near = x.numel() // x.shape[1], dict(norm.named_buffers())["running_mean"]
        mean, var = mean.double() - near, var.double()  # a variance is a small difference of large sums
        mean, var, n = learned_statistics(norm, rows, rows * mean, rows * (var + mean.square()))
    return _Normalised.apply(x, norm.weight, norm.bias, mean, (var + norm.eps).rsqrt(), n)


class _Normalised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, scale: Tensor, n: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, mean, scale, n)
        shape = _channels(x)
        normed = (x - mean.view(shape)) * (scale * weight).view(shape)
        return normed.add_(bias.view(shape)).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, scale, n = ctx.saved_tensors
        shape, others = _channels(x), _all_but_channels(x)
        dy = dy.to(mean.dtype)
        centred = (x - mean.view(shape)).mul_(scale.view(shape))
        d_bias, d_weight = dy.sum(others), (dy * centred).sum(others)  # of this process's rows
        all_bias, all_weight = added(torch.stack([d_bias, d_weight])) / n
        dx = (dy - all_bias.view(shape)).sub_(centred.mul_(all_weight.view(shape)))
        return dx.mul_((scale * weight).view(shape)).to(x.dtype), d_weight, d_bias, None, None, None


def _channels(x: Tensor) -> tuple[int, ...]:
    return (1, x.shape[1], *[1] * (x.ndim - 2))


def _all_but_channels(x: Tensor) -> list[int]:
    return [0, *range(2, x.ndim)]
