"""Precision and recall of drawn images: how many look real, and how much of what is real they cover.

The manifold of a set of features is the union of balls around them, each as large as the distance to the k-th nearest
of the others (Kynkäänniemi et al., *Improved Precision and Recall Metric for Assessing Generative Models*, NeurIPS
2019). Precision is the share of drawn features within the manifold of the real ones, recall the share of real ones
within that of the drawn. A Fréchet distance mixes both.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ictrl.errors import InputError
from ictrl.shapes import Bool, Float
from ictrl.theory.neighbours import nearest, squared_distances

NEIGHBOURS = 3  # k of the paper


@dataclass(frozen=True)
class Manifold:
    """Features and the squared radii of the balls around them."""

    Z: Float[Tensor, "n d"]
    squares: Float[Tensor, " n"]

    @classmethod
    def of(cls, Z: Float[Tensor, "n d"], k: int = NEIGHBOURS) -> "Manifold":
        """The k nearest of a feature are others: it is itself the one before them, at distance 0."""
        if not 1 <= k < len(Z):
            raise InputError(f"Expected more than {k} images for a manifold of {k} neighbours but got {len(Z)}.")
        radii = nearest(Z, Z, k + 1)[1][:, k]
        return cls(Z, radii.square().to(Z.device))

    def holds(self, Z: Float[Tensor, "m d"]) -> Bool[Tensor, " m"]:
        """Which features lie within at least one of the balls."""
        found = []
        for parts in squared_distances(Z, self.Z):
            inside = [
                (block <= self.squares[first : first + block.shape[1]] * (1 + 1e-9)).any(1)  # squares of roots
                for first, block in parts
            ]
            found.append(torch.stack(inside).any(0).cpu())
        return torch.cat(found) if found else torch.zeros(0, dtype=torch.bool)


def precision_recall(real: Manifold, drawn: Manifold) -> tuple[float, float]:
    """Shares of drawn features that look real, and of real ones that are covered.

    >>> Z = torch.arange(8.0)[:, None]
    >>> precision_recall(Manifold.of(Z), Manifold.of(torch.cat([Z[:4], Z[:4] + 100])))
    (0.5, 0.875)
    """
    return tuple(float(one.holds(other.Z).double().mean()) for one, other in ((real, drawn), (drawn, real)))  # type: ignore[return-value]
