"""Whether drawn images are copies of training images.

A blurred image lies near many training images and is a copy of none. So a copy is told not by how near its nearest
training image is but by how much nearer than the next ones: by its distance in shares of the mean distance to the
nearest 50 (Carlini et al., *Extracting Training Data from Diffusion Models*, USENIX Security 2023). Test images, which
cannot be copies, say how small that share is by chance.
"""

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from ictrl.shapes import Float

NEAREST = 50  # training images that a distance is held against
RARE = 0.01  # share of test images that count as copies
TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True)
class Copies:
    """What distances to training images say of drawn ones."""

    nearness: float
    """median distance of a drawn image to its nearest training image, in shares of that of a test image"""
    share: float
    """share of drawn images whose nearest training image stands out more than for all but 1 % of test images"""
    expected: float
    """the same share of images that are no copies: 1 %, and more where there are fewer than 100 test images"""


def copies(drawn: Float[Tensor, "n k"], real: Float[Tensor, "m k"]) -> Copies:
    """From the distances of drawn and of test images to the k nearest training images, the nearest first.

    >>> test = torch.tensor([[8.0, 10.0], [9.0, 10.0], [7.0, 10.0]])
    >>> found = copies(torch.tensor([[4.0, 4.0], [1.0, 10.0], [0.0, 0.0], [9.0, 9.0]]), test)
    >>> found.nearness, found.share, found.expected
    (0.3125, 0.5, 0.25)
    """
    place = ceil(RARE * len(real))
    rare = _standing_out(real).sort().values[place - 1]
    found = (_standing_out(drawn) < rare) | (drawn[:, 0] == 0)
    return Copies(
        nearness=float(drawn[:, 0].double().quantile(0.5) / real[:, 0].double().quantile(0.5).clamp(min=TINY)),
        share=float(found.double().mean()),
        expected=place / (len(real) + 1),
    )


def _standing_out(distances: Float[Tensor, "n k"]) -> Float[Tensor, " n"]:
    """Small where the nearest stands out, 1 where all are as near."""
    return distances[:, 0].double() / distances.double().mean(1).clamp(min=TINY)
