"""Which stored class unlabelled features belong to, by how their subspace lies to the stored ones.

The leading q principal directions of the features span a subspace, and so do those of every stored class (of uncentred
moments: where a class lies counts as much as how it spreads). The *affinity* of features to a class,

    ‖UᵀV‖² / q · √c,

is the mean squared cosine of the angles between the two subspaces, with bases U and V, by how much of the features'
energy lies in that of the class, c, relative to what lies there of the class itself: about 1 if they are the same.

The second moments of a mixture of classes are that mixture of their second moments. The features' moments are therefore
put together from the stored ones, S ≈ Σ wⱼSⱼ with w ≥ 0, and the *share* of a class is its part of the weights.

Features belong to the class of the greatest affinity, if that is great, if the runner-up is below it, and if the share
of the class is great, which tells them from a mixture.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ictrl.memory.store import Memory
from ictrl.shapes import Float
from ictrl.theory.metrics import subspace_affinity
from ictrl.theory.statistics import spectrum

# This affinity was picked among some fifty measures, and the bounds were set, on training features of eight learners,
# of digits, MNIST, CIFAR-10 and small CIFAR-10 in up to ten tasks, whose first classes had drifted far. On these same
# features, which flatters it, all 80 classes have the greatest affinity to themselves, 71 surely so. None of 80 that
# were taken out of memory, none of 600 classes of CIFAR-100, and of 360 pairs of classes mixed 4 are taken for a class,
# all 4 with one learner whose stored means were far off.
COMPONENTS = 12
LEAST_AFFINITY = 0.68
LEAST_MARGIN = 0.05
LEAST_SHARE = 0.72


@dataclass(frozen=True)
class Recognition:
    """What features were taken for, and how surely."""

    label: int
    """the class of the greatest affinity"""
    affinities: dict[int, float]
    """of every stored class, the greatest first"""
    share: float
    """of the class, if the features were a mixture of the stored ones: 1 if they need no other"""

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
        if self.share < LEAST_SHARE:
            return f"they look like a mixture of classes, the nearest with a share of {self.share:.0%}"
        return None


def recognise(Z: Float[Tensor, "n d"], memory: Memory) -> Recognition:
    """The stored class that features of one class belong to, if they belong to any."""
    S = Z.T @ Z / len(Z)
    q = min(COMPONENTS, len(Z), max(1, S.shape[0] // 4))
    basis = _leading(S, q)
    stored = {label: kept.second_moment for label, kept in memory.items()}
    found = {}
    for label, moment in stored.items():
        own = _leading(moment, q)
        coverage = _energy(S, own) / _energy(moment, own)
        found[label] = float(subspace_affinity(basis, own)) * coverage**0.5
    affinities = dict(sorted(found.items(), key=lambda item: -item[1]))
    label = next(iter(affinities))
    return Recognition(label, affinities, _share(S, stored, label))


def _leading(S: Float[Tensor, "d d"], q: int) -> Float[Tensor, "d q"]:
    return spectrum(S)[1][:, :q]


def _energy(S: Float[Tensor, "d d"], basis: Float[Tensor, "d q"]) -> float:
    """Of the features' energy, what lies in the subspace."""
    return float((basis.T @ S @ basis).trace() / S.trace())


def _share(S: Float[Tensor, "d d"], stored: dict[int, Float[Tensor, "d d"]], label: int) -> float:
    from sklearn.linear_model import LinearRegression  # takes a second to import

    parts = torch.stack([moment.flatten() for moment in stored.values()], dim=1)
    fitted = LinearRegression(fit_intercept=False, positive=True).fit(parts.cpu().numpy(), S.flatten().cpu().numpy())
    weights = dict(zip(stored, fitted.coef_))
    total = sum(weights.values())
    return float(weights[label] / total) if total else 0.0
