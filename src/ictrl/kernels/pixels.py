"""Pixels as a network sees them, in one pass: mirrored, moved, and as numbers from −1 to 1."""

import torch
import triton
import triton.language as tl
from torch import Tensor

ELEMENTS = 1024


def shown(pixels: Tensor, flipped: Tensor, moves: Tensor | None, dtype: torch.dtype) -> Tensor:
    """uint8 images (n, c, h, w), mirrored where `flipped` (n,), then moved by `moves` (2, n) down and right, if any."""
    pixels = pixels.contiguous()
    _, c, h, w = pixels.shape
    X = torch.empty_like(pixels, dtype=dtype)
    total = X.numel()
    down, right = moves if moves is not None else (flipped, flipped)
    _shown[(triton.cdiv(total, ELEMENTS),)](
        pixels, flipped, down, right, X, total, c, h, w, MOVED=moves is not None, ELEMENTS=ELEMENTS
    )
    return X


@triton.jit
def _shown(pixels, flipped, down, right, X, total, c, h, w, MOVED: tl.constexpr, ELEMENTS: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * ELEMENTS + tl.arange(0, ELEMENTS)
    there = at < total
    column, row, plane = at % w, at // w % h, at // (w * h)
    image = plane // c
    if MOVED:  # an edge is repeated
        row = tl.minimum(tl.maximum(row + tl.load(down + image, there, 0), 0), h - 1)
        column = tl.minimum(tl.maximum(column + tl.load(right + image, there, 0), 0), w - 1)
    column = tl.where(tl.load(flipped + image, there, 0) != 0, w - 1 - column, column)
    seen = tl.load(pixels + (plane * h + row) * w + column, there, 0).to(tl.float32)
    tl.store(X + at, (seen - 127.5) / 127.5, there)
