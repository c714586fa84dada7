"""Sums of features per class that add up: those of all images are those of their parts, put together.

Per class a count and a mean, and for all classes together the sum of squares around each image's class mean,

    S = Σⱼ Σ (φ − μⱼ)(φ − μⱼ)ᵀ.

For two sets of images it is S + S′ and, per class, nn′/(n + n′) (μ − μ′)(μ − μ′)ᵀ: sums of squares around two means
become one around their common mean. So features of many images need not be in memory at once, nor in one process.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ictrl.parallel.sharing import everyones, shared, total
from ictrl.shapes import Float, Int


@dataclass(frozen=True)
class ClassSums:
    """Of some images: the classes that they are of, ascending, counts, means and squares."""

    labels: Int[Tensor, " k"]
    counts: Int[Tensor, " k"]
    means: Float[Tensor, "k D"]
    scatter: Float[Tensor, "D D"]
    """S, in double precision"""

    @classmethod
    def of(cls, phi: Float[Tensor, "n D"], y: Int[Tensor, " n"]) -> "ClassSums":
        labels, counts = y.unique(return_counts=True)
        means = phi.new_zeros(len(labels), phi.shape[1])
        scatter = torch.zeros(phi.shape[1], phi.shape[1], dtype=torch.float64, device=phi.device)
        for place, label in enumerate(labels):
            own = phi[y == label]
            means[place] = own.mean(0)
            centred = (own - means[place]).double()
            scatter.addmm_(centred.T, centred)
        return cls(labels, counts, means, scatter)

    @classmethod
    def nothing(cls, device: torch.device) -> "ClassSums":
        """Of no image."""
        none = torch.zeros(0, dtype=torch.int64, device=device)
        return cls(none, none, none.float().view(0, 0), none.double().view(0, 0))

    def __add__(self, other: "ClassSums") -> "ClassSums":
        if not len(self.labels) or not len(other.labels):
            return self if len(self.labels) else other
        labels = torch.cat([self.labels, other.labels]).unique()
        mine, theirs = self._among(labels), other._among(labels)
        counts = mine.counts + theirs.counts
        share = (theirs.counts.double() / counts)[:, None]  # of the other set
        apart = theirs.means - mine.means
        means = mine.means + share * apart
        spread = (mine.counts.double()[:, None] * share).sqrt() * apart
        return ClassSums(labels, counts, means, self.scatter + other.scatter + spread.T @ spread)

    def everywhere(self) -> "ClassSums":
        """Of the images of all processes that share them."""
        if shared() is None:
            return self
        mine = self._among(everyones(self.labels).unique())
        counts = total(mine.counts)
        weights = mine.counts.double()[:, None]
        means = total(weights * mine.means) / counts[:, None]
        spread = weights.sqrt() * (mine.means - means)
        return ClassSums(mine.labels, counts, means, total(mine.scatter + spread.T @ spread))

    def _among(self, labels: Int[Tensor, " all"]) -> "ClassSums":
        """For more classes, of which there may be no image, with means in double precision."""
        places = torch.searchsorted(labels, self.labels)
        counts = self.counts.new_zeros(len(labels)).index_copy(0, places, self.counts)
        means = self.means.new_zeros(len(labels), self.means.shape[1], dtype=torch.float64)
        return ClassSums(labels, counts, means.index_copy(0, places, self.means.double()), self.scatter)
