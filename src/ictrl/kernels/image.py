"""The layers next to the image: 4×4 convolutions with stride 2 between a few-channelled image and many features.

Such a layer moves many bytes and computes little, and cuDNN takes longer over it than over one with far more work.
Here every byte is read and written about once, and activations come with it.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ictrl.kernels.norm import learn_statistics, norm_backward, scale_and_shift

ROWS = 64
ELEMENTS = 512
# programs that go through all rows: at most a few on each of an H200's 132 multiprocessors
CONVOLUTION_PROGRAMS, WEIGHT_PROGRAMS = 1584, 528


def image_convolution(x: Tensor, weight: Tensor, slope: float) -> Tensor:
    """leaky(conv(x)) of a few-channelled image x (n, c, 2s, 2s) with 4×4 weights (o, c, 4, 4), stride 2, padding 1."""
    return _ImageConvolution.apply(x, weight, slope)


def normed_image(h: Tensor, norm: torch.nn.BatchNorm2d, weight: Tensor) -> Tensor:
    """tanh(convᵀ(relu(norm(h)))): features h (n, o, s, s) to an image (n, c, 2s, 2s) with weights (o, c, 4, 4)."""
    h = h.contiguous(memory_format=torch.channels_last)
    mean, var, n = learn_statistics(h, norm) if norm.training else (norm.running_mean, norm.running_var, None)
    return _NormedImage.apply(h, weight, norm.weight, norm.bias, mean, var, n, norm.eps, norm.training)


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
            dx, _ = _convolve_back(dy, weight, LEAKY, (y,), ctx.slope, tanh=False)
        if ctx.needs_input_grad[1]:
            dw = _weight_gradient(x, dy, LEAKY, (y,), ctx.slope)
        return dx, dw, None


class _NormedImage(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, var: Tensor,
        n: Tensor | None, eps: float, trained: bool,
    ) -> Tensor:  # fmt: skip
        x, slope = _convolve_back(h, weight, NORM, (scale, shift, mean, var), eps, tanh=True)
        ctx.save_for_backward(h, weight, scale, shift, mean, var, n, slope)
        ctx.settings = eps, trained
        return x

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> tuple[Tensor | None, ...]:
        h, weight, scale, shift, mean, var, n, slope = ctx.saved_tensors
        eps, trained = ctx.settings
        d_linear = dx * slope
        dw = _weight_gradient(d_linear, h, NORM, (scale, shift, mean, var), eps) if ctx.needs_input_grad[1] else None
        dh = _convolve(d_linear, weight, 1.0)
        learns = ctx.needs_input_grad[2]
        dh, d_scale, d_shift = norm_backward(h, scale, shift, mean, var, n, dh, eps, 0.0, trained, learns)
        return dh, dw, d_scale, d_shift, None, None, None, None, None


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


# How a kernel comes to the features it works on: as the gradient of a LeakyReLU whose output is given, or by BatchNorm
# and ReLU. They are never written down.
LEAKY, NORM = "leaky", "norm"


def _convolve_back(
    g: Tensor, weight: Tensor, source: str, given: Sequence[Tensor], number: float, tanh: bool
) -> tuple[Tensor, Tensor]:
    """The image that features from g (n, o, s, s) pass back: what each gives to its 4×4 patch, patches added up.

    And with tanh its slope at each pixel. Of 1 − tanh² nothing would be left in bfloat16 where a pixel is nearly black
    or white: it could never change again.
    """
    (n, o, side, _), c = g.shape, weight.shape[1]
    rows, inner = n * side * side, min(128, max(16, triton.next_power_of_2(o)))
    patches = torch.empty(rows, 16 * c, dtype=g.dtype, device=g.device)
    programs = min(CONVOLUTION_PROGRAMS, triton.cdiv(rows, ROWS))
    _give[(programs,)](
        g, weight, patches, rows, c, o, *_four(given), number, *weight.stride(),
        SOURCE=source, ROWS=ROWS, INNER=inner, WHOLE=inner >= o, OUTER=max(16, triton.next_power_of_2(16 * c)),
        DOT=_dot(g),
    )  # fmt: skip
    x = torch.empty(n, c, 2 * side, 2 * side, dtype=g.dtype, device=g.device, memory_format=torch.channels_last)
    grid = (n, triton.cdiv(4 * side * side * c, ELEMENTS))
    slope = torch.empty_like(x) if tanh else x
    _fold[grid](patches, x, slope, SIDE=side, CHANNELS=c, TANH=tanh, ELEMENTS=ELEMENTS)
    return x, slope


def _weight_gradient(x: Tensor, g: Tensor, source: str, given: Sequence[Tensor], number: float) -> Tensor:
    (n, c), (_, o, side, _) = x.shape[:2], g.shape
    rows, padded, columns = n * side * side, triton.next_power_of_2(c), _columns(o)
    programs = min(WEIGHT_PROGRAMS, triton.cdiv(rows, ROWS))
    sums = x.new_empty(programs, 4, 4, padded, o, dtype=torch.float32)
    _convolution_weight[(programs, triton.cdiv(o, columns))](
        x, g, sums, rows, side, c, o, *_four(given), number, *x.stride(),
        SOURCE=source, PADDED=padded, ROWS=ROWS, COLUMNS=columns, DOT=_dot(x),
    )  # fmt: skip
    return sums.sum(0)[:, :, :c].permute(3, 2, 0, 1)  # (o, c, 4, 4)


def _four(given: Sequence[Tensor]) -> list[Tensor]:
    """Kernels take four tensors whether they use them or not."""
    return [*given, *[given[0]] * 3][:4]


# Kernels. A row is one pixel of the features, a column one of their channels.


@triton.jit
def _patches(x, m, rows, side, c, xn, xc, xh, xw, PADDED: tl.constexpr):
    """The 4×4 patches of image x under the pixels m: (rows of m, 16 · PADDED), by row, column, channel.

    A place is outside if a patch at one of the four edges reaches over it: a bit of the patch meets one of the place.
    """
    k = tl.arange(0, 16 * PADDED)
    channel, kx, ky = k % PADDED, (k // PADDED) % 4, k // (4 * PADDED)
    n, i, j = m // (side * side), (m // side) % side, m % side
    patch = (i == 0) * 1 + (i == side - 1) * 2 + (j == 0) * 4 + (j == side - 1) * 8 + (m >= rows) * 16 + 32
    place = (ky == 0) * 1 + (ky == 3) * 2 + (kx == 0) * 4 + (kx == 3) * 8 + 16 + (channel >= c) * 32
    corner = n.to(tl.int64) * xn + (2 * i - 1) * xh + (2 * j - 1) * xw
    at = corner[:, None] + (channel * xc + ky * xh + kx * xw)[None, :]
    return tl.load(x + at, (patch[:, None] & place[None, :]) == 0, 0.0)


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
def _features(g, at, there, out, o, one, two, three, four, number, SOURCE: tl.constexpr):
    v = tl.load(g + at, there, 0.0)
    if SOURCE == "leaky":
        v = tl.where(tl.load(one + at, there, 0.0) > 0, v, (number * v).to(v.dtype))
    if SOURCE == "norm":
        scale, shift = scale_and_shift(one, two, three, four, out, o, number)
        normed = scale[None, :] * v.to(tl.float32) + shift[None, :]
        v = tl.where(there & (normed > 0), normed, 0.0).to(v.dtype)
    return v


@triton.jit
def _convolution_weight(
    x, g, sums, rows, side, c, o, one, two, three, four, number, xn, xc, xh, xw,
    SOURCE: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    out = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((16 * PADDED, COLUMNS), tl.float32)
    for start in range(program * ROWS, rows, programs * ROWS):
        m = start + tl.arange(0, ROWS)
        there = (m < rows)[:, None] & (out < o)[None, :]
        at = m.to(tl.int64)[:, None] * o + out[None, :]
        v = _features(g, at, there, out, o, one, two, three, four, number, SOURCE)
        patches = _patches(x, m, rows, side, c, xn, xc, xh, xw, PADDED)
        total = tl.dot(tl.trans(patches), v, total, input_precision=DOT)
    k = tl.arange(0, 16 * PADDED)
    at = (program * 16 * PADDED + k[:, None]) * o + out[None, :]
    tl.store(sums + at, total, (k >= 0)[:, None] & (out < o)[None, :])


@triton.jit
def _taps(w, out, k, c, o, wo, wc, wh, ww, dtype):
    """Weights (o, c, 4, 4) as a matrix of features × (4 · 4 · c)."""
    channel, kx, ky = k % c, (k // c) % 4, k // (4 * c)
    at = out[:, None] * wo + (channel * wc + ky * wh + kx * ww)[None, :]
    return tl.load(w + at, (out < o)[:, None] & (ky < 4)[None, :], 0.0).to(dtype)


@triton.jit
def _give(
    g, w, patches, rows, c, o, one, two, three, four, number, wo, wc, wh, ww,
    SOURCE: tl.constexpr, ROWS: tl.constexpr, INNER: tl.constexpr, WHOLE: tl.constexpr, OUTER: tl.constexpr,
    DOT: tl.constexpr,
):  # fmt: skip
    k = tl.arange(0, OUTER)
    dtype = g.dtype.element_ty
    if WHOLE:  # read once
        weight = _taps(w, tl.arange(0, INNER), k, c, o, wo, wc, wh, ww, dtype)
    for start in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        m = start + tl.arange(0, ROWS)
        total = tl.zeros((ROWS, OUTER), tl.float32)
        for first in range(0, o, INNER):
            out = first + tl.arange(0, INNER)
            there = (m < rows)[:, None] & (out < o)[None, :]
            at = m.to(tl.int64)[:, None] * o + out[None, :]
            v = _features(g, at, there, out, o, one, two, three, four, number, SOURCE)
            if not WHOLE:
                weight = _taps(w, out, k, c, o, wo, wc, wh, ww, dtype)
            total = tl.dot(v, weight, total, input_precision=DOT)
        tl.store(
            patches + m.to(tl.int64)[:, None] * (16 * c) + k[None, :],
            total,
            (m < rows)[:, None] & (k < 16 * c)[None, :],
        )


@triton.jit
def _fold(patches, x, slope, SIDE: tl.constexpr, CHANNELS: tl.constexpr, TANH: tl.constexpr, ELEMENTS: tl.constexpr):
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
    if TANH:  # by its series near 0, where the difference would lose its digits
        square = total * total
        series = total * (1 - square * (1 / 3 - square * (2 / 15 - square * (17 / 315))))
        small = tl.exp(-2 * tl.abs(total))
        tl.store(slope + image * (4 * SIDE * SIDE * CHANNELS) + e, 4 * small / ((1 + small) * (1 + small)), there)
        total = tl.where(square < 0.04, series, 1 - 2 / (tl.exp(2 * total) + 1))
    tl.store(x + image * (4 * SIDE * SIDE * CHANNELS) + e, total, there)
