"""The layers next to the image: 4×4 convolutions with stride 2 between a few-channelled image and many features.

Such a layer moves many bytes and computes little, and cuDNN takes longer over it than over one with ten times the work.
Here every byte is read and written about once, and the activation comes with it.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 64
ELEMENTS = 512
# programs that go through all rows: at most a few on each of an H200's 132 multiprocessors
CONVOLUTION_PROGRAMS, WEIGHT_PROGRAMS = 1584, 528


def image_convolution(x: Tensor, weight: Tensor, slope: float) -> Tensor:
    """leaky(conv(x)) of a few-channelled image x (n, c, 2s, 2s) with 4×4 weights (o, c, 4, 4), stride 2, padding 1."""
    return _ImageConvolution.apply(x, weight, slope)


def image_transposed_convolution(h: Tensor, weight: Tensor) -> Tensor:
    """tanh(convᵀ(h)): features h (n, o, s, s) to a few-channelled image (n, c, 2s, 2s), weights (o, c, 4, 4)."""
    return _ImageTransposedConvolution.apply(h, weight)


class _ImageConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, slope: float) -> Tensor:
        y = _convolve(x, weight, slope)
        ctx.save_for_backward(x, weight, y)
        ctx.slope = slope
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight, y = ctx.saved_tensors
        dy = dy.contiguous(memory_format=torch.channels_last)
        dx = dw = None
        if ctx.needs_input_grad[0]:
            dx = _convolve_back(torch.ops.aten.leaky_relu_backward(dy, y, ctx.slope, True), weight, tanh=False)
        if ctx.needs_input_grad[1]:
            dw = _weight_gradient(x, dy, y, ctx.slope)
        return dx, dw, None


class _ImageTransposedConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor) -> Tensor:
        h = h.contiguous(memory_format=torch.channels_last)
        x = _convolve_back(h, weight, tanh=True)
        ctx.save_for_backward(h, weight, x)
        return x

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> tuple[Tensor | None, Tensor | None]:
        h, weight, x = ctx.saved_tensors
        d_linear = torch.ops.aten.tanh_backward(dx, x)
        dh = _convolve(d_linear, weight, 1.0) if ctx.needs_input_grad[0] else None
        dw = _weight_gradient(d_linear, h, h, 1.0) if ctx.needs_input_grad[1] else None
        return dh, dw


def _columns(channels: int) -> int:
    return max(16, min(64, triton.next_power_of_2(channels)))


def _dot(x: Tensor) -> str:
    """float32 is multiplied as float32, not in the shorter format that tensor cores would like."""
    return "ieee" if x.dtype == torch.float32 else "tf32"


def _convolve(x: Tensor, weight: Tensor, slope: float) -> Tensor:
    (n, c), side, o = x.shape[:2], x.shape[2] // 2, len(weight)
    y = torch.empty(n, o, side, side, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    rows, padded, columns = n * side * side, triton.next_power_of_2(c), _columns(o)
    programs = min(CONVOLUTION_PROGRAMS, triton.cdiv(rows, ROWS))
    _convolution[(programs, triton.cdiv(o, columns))](
        x, weight, y, rows, side, c, o, slope, *x.stride(), *weight.stride(),
        PADDED=padded, ROWS=ROWS, COLUMNS=columns, DOT=_dot(x),
    )  # fmt: skip
    return y


def _convolve_back(g: Tensor, weight: Tensor, tanh: bool) -> Tensor:
    """The image that features g (n, o, s, s) pass back: what each gives to its 4×4 patch, patches added up."""
    (n, o, side, _), c = g.shape, weight.shape[1]
    by_tap = weight.to(g.dtype).permute(0, 2, 3, 1).reshape(o, -1)  # (o, 4 · 4 · c)
    patches = g.permute(0, 2, 3, 1).reshape(-1, o) @ by_tap  # (n · s · s, 4 · 4 · c)
    x = torch.empty(n, c, 2 * side, 2 * side, dtype=g.dtype, device=g.device, memory_format=torch.channels_last)
    grid = (n, triton.cdiv(4 * side * side * c, ELEMENTS))
    _fold[grid](patches, x, SIDE=side, CHANNELS=c, TANH=tanh, ELEMENTS=ELEMENTS)
    return x


def _weight_gradient(x: Tensor, g: Tensor, y: Tensor, slope: float) -> Tensor:
    (n, c), (_, o, side, _) = x.shape[:2], g.shape
    rows, padded, columns = n * side * side, triton.next_power_of_2(c), _columns(o)
    programs = min(WEIGHT_PROGRAMS, triton.cdiv(rows, ROWS))
    sums = x.new_empty(programs, 4, 4, padded, o, dtype=torch.float32)
    _convolution_weight[(programs, triton.cdiv(o, columns))](
        x, g, y, sums, rows, side, c, o, slope, *x.stride(),
        LEAKY=slope != 1.0, PADDED=padded, ROWS=ROWS, COLUMNS=columns, DOT=_dot(x),
    )  # fmt: skip
    return sums.sum(0)[:, :, :c].permute(3, 2, 0, 1)  # (o, c, 4, 4)


# Kernels. A row is one pixel of the features, a column one of their channels.


@triton.jit
def _patches(x, m, rows, side, c, xn, xc, xh, xw, PADDED: tl.constexpr):
    """The 4×4 patches of image x under the pixels m: (rows of m, 16 · PADDED), by row, column, channel."""
    k = tl.arange(0, 16 * PADDED)
    channel, kx, ky = k % PADDED, (k // PADDED) % 4, k // (4 * PADDED)
    n, i, j = m // (side * side), (m // side) % side, m % side
    row = 2 * i[:, None] - 1 + ky[None, :]
    column = 2 * j[:, None] - 1 + kx[None, :]
    inside = (row >= 0) & (row < 2 * side) & (column >= 0) & (column < 2 * side)
    inside = inside & (channel < c)[None, :] & (m < rows)[:, None]
    at = n.to(tl.int64)[:, None] * xn + channel[None, :] * xc + row * xh + column * xw
    return tl.load(x + at, inside, 0.0)


@triton.jit
def _convolution(
    x, w, y, rows, side, c, o, slope, xn, xc, xh, xw, wo, wc, wh, ww,
    PADDED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    out = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, 16 * PADDED)
    channel, kx, ky = k % PADDED, (k // PADDED) % 4, k // (4 * PADDED)
    at = out[None, :] * wo + (channel * wc + ky * wh + kx * ww)[:, None]
    weight = tl.load(w + at, (channel < c)[:, None] & (out < o)[None, :], 0.0).to(x.dtype.element_ty)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        m = start + tl.arange(0, ROWS)
        v = tl.dot(_patches(x, m, rows, side, c, xn, xc, xh, xw, PADDED), weight, input_precision=DOT)
        v = tl.where(v > 0, v, slope * v)
        tl.store(y + m.to(tl.int64)[:, None] * o + out[None, :], v, (m < rows)[:, None] & (out < o)[None, :])


@triton.jit
def _convolution_weight(
    x, g, y, sums, rows, side, c, o, slope, xn, xc, xh, xw,
    LEAKY: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    out = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((16 * PADDED, COLUMNS), tl.float32)
    for start in range(program * ROWS, rows, programs * ROWS):
        m = start + tl.arange(0, ROWS)
        there = (m < rows)[:, None] & (out < o)[None, :]
        at = m.to(tl.int64)[:, None] * o + out[None, :]
        v = tl.load(g + at, there, 0.0)
        if LEAKY:
            v = tl.where(tl.load(y + at, there, 0.0) > 0, v, (slope * v).to(v.dtype))
        patches = _patches(x, m, rows, side, c, xn, xc, xh, xw, PADDED)
        total = tl.dot(tl.trans(patches), v, total, input_precision=DOT)
    k = tl.arange(0, 16 * PADDED)
    tl.store(
        sums + (program * 16 * PADDED + k[:, None]) * o + out[None, :], total, (out < o)[None, :] & (k >= 0)[:, None]
    )


@triton.jit
def _fold(patches, x, SIDE: tl.constexpr, CHANNELS: tl.constexpr, TANH: tl.constexpr, ELEMENTS: tl.constexpr):
    # pixel p of the padded image is in the patches p // 2 and p // 2 − 1, at places p % 2 and p % 2 + 2
    image = tl.program_id(0).to(tl.int64)
    e = tl.program_id(1) * ELEMENTS + tl.arange(0, ELEMENTS)
    channel, column, row = e % CHANNELS, (e // CHANNELS) % (2 * SIDE) + 1, e // (2 * SIDE * CHANNELS) + 1
    there = e < 4 * SIDE * SIDE * CHANNELS
    total = tl.zeros((ELEMENTS,), tl.float32)
    for u in tl.static_range(2):
        for v in tl.static_range(2):
            i, j = row // 2 - u, column // 2 - v
            inside = (i >= 0) & (i < SIDE) & (j >= 0) & (j < SIDE) & there
            tap = (row % 2 + 2 * u) * 4 + column % 2 + 2 * v
            at = ((i * SIDE + j) * 16 + tap) * CHANNELS + channel
            total += tl.load(patches + image * (SIDE * SIDE * 16 * CHANNELS) + at, inside, 0.0).to(tl.float32)
    if TANH:
        total = 1 - 2 / (tl.exp(2 * total) + 1)
    tl.store(x + image * (4 * SIDE * SIDE * CHANNELS) + e, total, there)
