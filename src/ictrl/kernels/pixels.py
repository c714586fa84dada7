"""Pixels as a network sees them, in one pass: mirrored, moved, turned, and as numbers from −1 to 1."""

import torch
import triton
import triton.language as tl
from torch import Tensor

ELEMENTS = 1024


def shown(pixels: Tensor, flipped: Tensor, moves: Tensor | None, turned: Tensor | None, dtype: torch.dtype) -> Tensor:
    """uint8 images (n, c, h, w) mirrored where `flipped`, moved by `moves` (2, n), turned by `turned` (n,) quarters."""
    pixels = pixels.contiguous()
    _, c, h, w = pixels.shape
    X = torch.empty_like(pixels, dtype=dtype)
    total = X.numel()
    down, right = moves if moves is not None else (flipped, flipped)
    _shown[(triton.cdiv(total, ELEMENTS),)](
        pixels, flipped, down, right, flipped if turned is None else turned, X, total, c, h, w,
        MOVED=moves is not None, TURNED=turned is not None, ELEMENTS=ELEMENTS,
    )  # fmt: skip
    return X


@triton.jit
def _shown(
    pixels, flipped, down, right, turned, X, total, c, h, w,
    MOVED: tl.constexpr, TURNED: tl.constexpr, ELEMENTS: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0).to(tl.int64) * ELEMENTS + tl.arange(0, ELEMENTS)
    there = at < total
    column, row, plane = at % w, at // w % h, at // (w * h)
    image = plane // c
    if TURNED:  # back, quarter by quarter: where this pixel was before
        quarters = tl.load(turned + image, there, 0)
        for quarter in tl.static_range(3):
            turn = quarters > quarter
            row, column = tl.where(turn, column, row), tl.where(turn, w - 1 - row, column)
    if MOVED:  # an edge is repeated
        row = tl.minimum(tl.maximum(row + tl.load(down + image, there, 0), 0), h - 1)
        column = tl.minimum(tl.maximum(column + tl.load(right + image, there, 0), 0), w - 1)
    column = tl.where(tl.load(flipped + image, there, 0) != 0, w - 1 - column, column)
    seen = tl.load(pixels + (plane * h + row) * w + column, there, 0).to(tl.float32)
    tl.store(X + at, (seen - 127.5) / 127.5, there)
