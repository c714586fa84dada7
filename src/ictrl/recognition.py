"""Which stored class unlabelled features belong to, by how their subspace lies to the stored ones.

The leading q principal directions of the features span a subspace, and so do those of every stored class (of uncentred
moments: where a class lies counts as much as how it spreads). The *affinity* of two subspaces with bases U and V,

    ‖UᵀV‖² / q,

is the mean squared cosine of the angles between them: 1 if they are the same, q/d by chance. The features are taken to
belong to the class of the greatest affinity, if that is great, if the runner-up is well below it, and if the class's
subspace holds as much of the features as it holds of its own class, which a mixture of classes fails.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ictrl.memory import ClassMemory, Memory
from ictrl.metrics import subspace_affinity

# Set by looking at training features of three learners: digits and a small CIFAR-10 in ten tasks of one class, where
# the first classes had drifted far, and MNIST in five. All 30 classes are nearest to themselves, 27 surely so; none of
# 25 classes of CIFAR-100 that were never learned, of 30 that were taken out of memory, and of 15 pairs mixed is taken
# for a class. With 5 components, or 16, they are told apart less well.
COMPONENTS = 12
LEAST_AFFINITY = 0.70
LEAST_MARGIN = 0.09
LEAST_COVERAGE = 0.67


@dataclass(frozen=True)
class Recognition:
    """What features were taken for, and how surely."""

    label: int
    """the class of the greatest affinity"""
    affinities: dict[int, float]
    """of every stored class, from 0 to 1, the greatest first"""
    coverage: float
    """how much of the features lies in the class's subspace, relative to what lies there of the class itself"""

    @property
    def affinity(self) -> float:
        return self.affinities[self.label]

    @property
    def margin(self) -> float:
        """Lead over the runner-up; over 0 where there is one class only."""
        return self.affinity - max((a for label, a in self.affinities.items() if label != self.label), default=0.0)

    @property
    def doubt(self) -> str | None:
        """Why the features may belong to none of the classes; None if nothing speaks against it."""
        if self.affinity < LEAST_AFFINITY:
            return f"no class has an affinity of {LEAST_AFFINITY:.2f} or more (the nearest has {self.affinity:.3f})"
        if self.margin < LEAST_MARGIN:
            return f"the runner-up is as near (a margin of {self.margin:.2f}, and {LEAST_MARGIN:.2f} is the least)"
        if self.coverage < LEAST_COVERAGE:
            return f"the class explains only {self.coverage:.0%} of what it explains of its own images"
        return None


def recognise(Z: Float[Tensor, "n d"], memory: Memory) -> Recognition:
    """The stored class that features of one class belong to, if they belong to any."""
    S = Z.T @ Z / len(Z)
    q = min(COMPONENTS, len(Z), max(1, S.shape[0] // 4))
    basis = _leading(S, q)
    stored = {label: _second_moment(kept) for label, kept in memory.items()}
    bases = {label: _leading(moment, q) for label, moment in stored.items()}
    found = {label: float(subspace_affinity(basis, other)) for label, other in bases.items()}
    affinities = dict(sorted(found.items(), key=lambda item: -item[1]))
    label = next(iter(affinities))
    coverage = _share(S, bases[label]) / _share(stored[label], bases[label])
    return Recognition(label, affinities, coverage)


def _second_moment(kept: ClassMemory) -> Float[Tensor, "d d"]:
    return kept.covariance + torch.outer(kept.mean, kept.mean)


def _leading(S: Float[Tensor, "d d"], q: int) -> Float[Tensor, "d q"]:
    return torch.linalg.eigh(S.cpu()).eigenvectors[:, -q:].to(S.device)


def _share(S: Float[Tensor, "d d"], basis: Float[Tensor, "d q"]) -> float:
    """Of the features' energy, what lies in the subspace."""
    return float((basis.T @ S @ basis).trace() / S.trace())
