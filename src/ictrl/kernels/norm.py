"""BatchNorm and its activation in one pass over the features, forward and back, in training and with fixed statistics.

PyTorch goes over them two to four times. Features are channels-last: a row is one pixel, a column one channel.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ictrl.parallel.batch_statistics import learned_statistics
from ictrl.parallel.sharing import added, shared

ROWS = 64
PROGRAMS = 528  # that go through all rows, at most: four on each of an H200's 132 multiprocessors


def leaky_norm(x: Tensor, norm: torch.nn.BatchNorm2d, slope: float) -> Tensor:
    """leaky(norm(x)), in training or not; x is (n, c, h, w) in channels-last order."""
    x = x.contiguous(memory_format=torch.channels_last)
    if norm.training:
        return _LeakyNorm.apply(x, norm.weight, norm.bias, *learn_statistics(x, norm), norm.eps, slope, True)
    return _LeakyNorm.apply(
        x, norm.weight, norm.bias, norm.running_mean, norm.running_var, None, norm.eps, slope, False
    )


def learn_statistics(x: Tensor, norm: torch.nn.BatchNorm2d) -> tuple[Tensor, Tensor, Tensor | None]:
    """Mean and variance of each channel, which also move the norm's own; and rows of all processes that share them."""
    kept = dict(norm.named_buffers())
    running_mean, running_var = kept["running_mean"], kept["running_var"]
    c, rows = x.shape[1], x.numel() // x.shape[1]
    columns, programs = _columns(c), _programs(rows)
    sums = x.new_empty(2, programs, c, dtype=torch.float32)
    _norm_sums[(programs, triton.cdiv(c, columns))](x, running_mean, sums, rows, c, ROWS=ROWS, COLUMNS=columns)
    if shared():
        return learned_statistics(norm, rows, *sums.double().sum(1))
    mean, var = torch.empty_like(running_mean), torch.empty_like(running_var)
    _norm_statistics[(triton.cdiv(c, 16),)](
        sums, running_mean, running_var, mean, var, programs, rows, c, norm.momentum, ROWS=128, COLUMNS=16
    )
    kept["num_batches_tracked"].add_(1)
    return mean, var, None


class _LeakyNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, n: Tensor | None,
        eps: float, slope: float, trained: bool,
    ) -> Tensor:  # fmt: skip
        y = torch.empty_like(x)
        c, rows = x.shape[1], x.numel() // x.shape[1]
        columns = _columns(c)
        grid = (triton.cdiv(rows, ROWS), triton.cdiv(c, columns))
        _norm[grid](x, weight, bias, mean, var, y, rows, c, eps, slope, ROWS=ROWS, COLUMNS=columns)
        ctx.save_for_backward(x, weight, bias, mean, var, n)
        ctx.settings = eps, slope, trained
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        eps, slope, trained = ctx.settings
        x, weight, bias, mean, var, n = ctx.saved_tensors
        learns = ctx.needs_input_grad[1]
        gradients = norm_backward(x, weight, bias, mean, var, n, dy, eps, slope, trained, learns)
        return *gradients, None, None, None, None, None, None


def norm_backward(
    x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, n: Tensor | None, dy: Tensor,
    eps: float, slope: float, trained: bool, learns: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """Gradients of x, weight and bias of leaky(norm(x)) with that mean and variance, which are x's own if trained; or
    those of the n rows of all processes, of which x has a share."""
    dy = dy.contiguous(memory_format=torch.channels_last)
    dx, d_weight, d_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
    c, rows = x.shape[1], x.numel() // x.shape[1]
    columns, programs = _columns(c), _programs(rows)
    sums = x.new_empty(2, programs, c, dtype=torch.float32)

    def sweep(sum_up: bool, write: bool, of_weight: Tensor = d_weight, of_bias: Tensor = d_bias) -> None:
        _norm_backward[(programs, triton.cdiv(c, columns))](
            x, weight, bias, mean, var, dy, dx, sums, of_weight, of_bias, rows, c, eps, slope,
            SUMS=sum_up, WRITES=write, TRAINED=trained, ROWS=ROWS, COLUMNS=columns,
        )  # fmt: skip
        if sum_up:
            _norm_gradients[(triton.cdiv(c, 16),)](
                sums, mean, var, d_weight, d_bias, programs, c, eps, ROWS=128, COLUMNS=16
            )

    if trained:  # statistics of the batch depend on all of x, and its gradient on these sums
        sweep(sum_up=True, write=False)
        if n is None:
            sweep(sum_up=False, write=True)
        else:  # the means over all processes, as sums over the rows here
            sweep(False, True, *(added(torch.stack([d_weight, d_bias])) * (rows / n)))
    else:
        sweep(sum_up=learns, write=True)
    return (dx, d_weight, d_bias) if learns else (dx, None, None)


def _columns(channels: int) -> int:
    return min(64, triton.next_power_of_2(channels))


def _programs(rows: int) -> int:
    return min(PROGRAMS, triton.cdiv(rows, ROWS))


@triton.jit
def scale_and_shift(weight, bias, mean, var, c, channels, eps):
    """BatchNorm with fixed statistics as scale · x + shift, of the channels c."""
    scale = tl.load(weight + c, c < channels, 0.0) / tl.sqrt(tl.load(var + c, c < channels, 1.0) + eps)
    return scale, tl.load(bias + c, c < channels, 0.0) - tl.load(mean + c, c < channels, 0.0) * scale


@triton.jit
def _norm(
    x, weight, bias, mean, var, y, rows, channels, eps, slope, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = (m < rows)[:, None] & (c < channels)[None, :]
    at = m.to(tl.int64)[:, None] * channels + c[None, :]
    scale, shift = scale_and_shift(weight, bias, mean, var, c, channels, eps)
    v = scale[None, :] * tl.load(x + at, there, 0.0).to(tl.float32) + shift[None, :]
    tl.store(y + at, tl.where(v > 0, v, slope * v), there)


@triton.jit
def _norm_backward(
    x, weight, bias, mean, var, dy, dx, sums, d_weight, d_bias, rows, channels, eps, slope,
    SUMS: tl.constexpr, WRITES: tl.constexpr, TRAINED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    scale, shift = scale_and_shift(weight, bias, mean, var, c, channels, eps)
    if TRAINED and WRITES:
        inverse_std = 1 / tl.sqrt(tl.load(var + c, c < channels, 1.0) + eps)
        centre = tl.load(mean + c, c < channels, 0.0)
        mean_g = tl.load(d_bias + c, c < channels, 0.0) / rows
        mean_gx = tl.load(d_weight + c, c < channels, 0.0) / rows * inverse_std
    sum_g = tl.zeros((ROWS, COLUMNS), tl.float32)
    sum_gx = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(program * ROWS, rows, programs * ROWS):
        m = start + tl.arange(0, ROWS)
        there = (m < rows)[:, None] & (c < channels)[None, :]
        at = m.to(tl.int64)[:, None] * channels + c[None, :]
        v = tl.load(x + at, there, 0.0).to(tl.float32)
        g = tl.load(dy + at, there, 0.0).to(tl.float32)
        g = tl.where(scale[None, :] * v + shift[None, :] > 0, g, slope * g)
        if SUMS:
            sum_g += g
            sum_gx += g * v
        if WRITES:
            if TRAINED:
                g -= mean_g[None, :] + (v - centre[None, :]) * mean_gx[None, :]
            tl.store(dx + at, scale[None, :] * g, there)
    if SUMS:  # each program its own: added up afterwards, always in the same order
        tl.store(sums + program * channels + c, tl.sum(sum_g, 0), c < channels)
        tl.store(sums + (programs + program) * channels + c, tl.sum(sum_gx, 0), c < channels)


@triton.jit
def _norm_sums(x, shift, sums, rows, channels, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    # of x − shift and its square: with a shift near the mean the variance loses no digits
    program, programs = tl.program_id(0), tl.num_programs(0)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    near = tl.load(shift + c, c < channels, 0.0)[None, :]
    first = tl.zeros((ROWS, COLUMNS), tl.float32)
    second = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(program * ROWS, rows, programs * ROWS):
        m = start + tl.arange(0, ROWS)
        there = (m < rows)[:, None] & (c < channels)[None, :]
        v = tl.load(x + m.to(tl.int64)[:, None] * channels + c[None, :], there, 0.0).to(tl.float32)
        v = tl.where(there, v - near, 0.0)
        first += v
        second += v * v
    tl.store(sums + program * channels + c, tl.sum(first, 0), c < channels)
    tl.store(sums + (programs + program) * channels + c, tl.sum(second, 0), c < channels)


@triton.jit
def _added_up(sums, programs, c, channels, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    first = tl.zeros((ROWS, COLUMNS), tl.float32)
    second = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, programs, ROWS):
        program = start + tl.arange(0, ROWS)
        there = (program < programs)[:, None] & (c < channels)[None, :]
        at = program[:, None] * channels + c[None, :]
        first += tl.load(sums + at, there, 0.0)
        second += tl.load(sums + programs * channels + at, there, 0.0)
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit
def _norm_statistics(
    sums, running_mean, running_var, mean, var, programs, rows, channels, momentum,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    first, second = _added_up(sums, programs, c, channels, ROWS, COLUMNS)
    near = tl.load(running_mean + c, c < channels, 0.0)
    offset = first / rows
    variance = tl.maximum(second / rows - offset * offset, 0.0)
    tl.store(mean + c, near + offset, c < channels)
    tl.store(var + c, variance, c < channels)
    tl.store(running_mean + c, near + momentum * offset, c < channels)
    before = tl.load(running_var + c, c < channels, 0.0)
    unbiased = variance * (rows / (rows - 1))
    tl.store(running_var + c, before + momentum * (unbiased - before), c < channels)


@triton.jit
def _norm_gradients(
    sums, mean, var, d_weight, d_bias, programs, channels, eps, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    sum_g, sum_gx = _added_up(sums, programs, c, channels, ROWS, COLUMNS)
    centred = sum_gx - tl.load(mean + c, c < channels, 0.0) * sum_g
    tl.store(d_weight + c, centred / tl.sqrt(tl.load(var + c, c < channels, 1.0) + eps), c < channels)
    tl.store(d_bias + c, sum_g, c < channels)
