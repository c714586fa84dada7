"""Symmetric matrices as they are kept: the lower half with its diagonal, row by row, and no number twice."""

import math

import torch
from torch import Tensor

from ictrl.shapes import Bool, Float


def lower_half(S: Float[Tensor, "*k d d"]) -> Float[Tensor, "*k half"]:
    """The numbers on and left of the diagonal; what lies right of it is not looked at.

    >>> lower_half(torch.tensor([[1.0, 2.0], [2.0, 3.0]])).tolist()
    [1.0, 2.0, 3.0]
    """
    return S[..., _lower(S.shape[-1], S.device)]


def whole(half: Float[Tensor, "*k half"]) -> Float[Tensor, "*k d d"]:
    """The inverse of `lower_half`.

    >>> whole(torch.tensor([1.0, 2.0, 3.0])).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    d = (math.isqrt(8 * half.shape[-1] + 1) - 1) // 2
    lower = half.new_zeros(*half.shape[:-1], d, d)
    lower[..., _lower(d, half.device)] = half
    return lower + lower.tril(-1).mT


def half_size(d: int) -> int:
    """How many numbers are kept of a symmetric matrix d × d."""
    return d * (d + 1) // 2


def _lower(d: int, device: torch.device) -> Bool[Tensor, "d d"]:
    return torch.ones(d, d, dtype=torch.bool, device=device).tril()
