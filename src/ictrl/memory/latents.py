"""What a decoder draws from where features stand still: every class as one Gaussian, and as a code.

A feature z has two parts at unit length together: what an image is by itself, and a code c_j that all images of class j
share. So the mean of a class says its code, and nothing besides the class's moments needs to be kept.
"""

from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from ictrl.memory.store import ClassMemory, Memory
from ictrl.shapes import Float, Int

SEED = 20270309  # of the codes: any would do, as long as it stays the same
HALF = 0.5**0.5  # the share of z that is the image's own, and of its code: together of unit length
APART = 0.99  # codes whose product is larger are the same one


class Latents(NamedTuple):
    """Every class as a Gaussian of features, old ones first, and its code."""

    means: Float[Tensor, "k d"]
    factors: Float[Tensor, "k d d"]
    codes: Float[Tensor, "k c"]

    @classmethod
    def of(cls, memory: Memory, numbers: int) -> "Latents":
        """All classes of a memory, whose codes have so many numbers."""
        classes = list(memory.values())
        return cls(
            torch.stack([kept.mean for kept in classes]),
            torch.stack([_factor(kept) for kept in classes]),
            torch.stack([code_of(kept, numbers) for kept in classes]),
        )

    def sample(self, rows: Int[Tensor, " n"], generator: torch.Generator) -> Float[Tensor, "n d"]:
        """A feature of each of these classes."""
        noise = torch.randn(len(rows), 1, self.means.shape[1], generator=generator, device=self.means.device)
        return self.means[rows] + (noise @ self.factors[rows])[:, 0]


def _factor(kept: ClassMemory) -> Float[Tensor, "d d"]:
    """F with FᵀF the class's covariance."""
    variances, directions = kept.spectrum
    return variances.sqrt()[:, None] * directions.T


def code_of(kept: ClassMemory, numbers: int) -> Float[Tensor, " c"]:
    """A class's code: all its features have it, and so has their mean."""
    return kept.mean[-numbers:] / HALF


def with_codes(own: Float[Tensor, "n s"], codes: Float[Tensor, "*n c"]) -> Float[Tensor, "n d"]:
    """z of what images are by themselves, at unit length, and of their classes; or of one class."""
    return HALF * torch.cat([own, codes.expand(len(own), -1)], 1)


def free_code(taken: list[Tensor], numbers: int) -> Float[Tensor, " c"]:
    """The first code that no class has. Codes are of unit length; each so many of them are orthogonal."""
    for block in count():
        found = torch.linalg.qr(torch.randn(numbers, numbers, generator=torch.Generator().manual_seed(SEED + block)))
        for code in found[0]:
            if all(float(code @ other.cpu()) < APART for other in taken):
                return code
    raise AssertionError("unreachable")
