"""Wide memory: class means and one covariance in a wide feature space, and the classifier that reads them (LDA).

The *wide features* φ(x) are the activations of an encoder's stages, pooled to a few cells and put side by side:
thousands of numbers where the encoder's own features are a hundred. Kept are, per class, a count and a mean of φ, and
for all classes together one within-class covariance

    Σ = Σⱼ (nⱼ − 1) Σⱼ / Σⱼ (nⱼ − 1),

whose size does not grow with the classes. As long as the encoder stays as it is, both hold for ever: with each task
counts, means and the sum above go on as if all images had come at once.

Linear discriminant analysis takes the class whose mean is nearest in the measure of Σ, with a ridge:

    score of class j = wⱼᵀφ − ½ wⱼᵀμⱼ,   wⱼ = (Σ + ρI)⁻¹ μⱼ,   ρ = ridge × the mean variance.

The covariance is kept as standard deviations and half of a symmetric matrix of correlations, in 16 bits each: a fourth
of its bytes. Correlations lie between −1 and 1, so that steps of equal size (1/32767) err far less than half precision
does, whose error of a large correlation would be as large as the ridge.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from ictrl.errors import InputError

STEPS = 32767  # from 0 to a correlation of 1
LEAST = 10  # images of a class: from the moments of fewer, single features could be guessed


@dataclass(frozen=True)
class WideMemory:
    """Counts and means of classes, in the order of learning, and their common covariance."""

    counts: Int[Tensor, " k"]
    means: Float[Tensor, "k D"]
    deviations: Float[Tensor, " D"]
    """square roots of the variances"""
    correlations: Int[Tensor, " half"]
    """below the diagonal, row by row, in steps of 1/32767"""

    @property
    def degrees(self) -> int:
        """Σⱼ (nⱼ − 1), what the covariance is divided by."""
        return int(self.counts.sum()) - len(self.counts)

    def covariance(self) -> Float[Tensor, "D D"]:
        """Σ, in full."""
        D = len(self.deviations)
        full = torch.zeros(D, D, device=self.deviations.device)
        rows, columns = torch.tril_indices(D, D, -1, device=full.device)
        full[rows, columns] = self.correlations / STEPS
        full = full + full.T
        full.diagonal().fill_(1.0)
        return full.mul_(self.deviations[:, None]).mul_(self.deviations)

    @classmethod
    def of(
        cls,
        counts: Int[Tensor, " k"],
        means: Float[Tensor, "k D"],
        scatter: Float[Tensor, "D D"],
    ) -> "WideMemory":
        """From the sum Σⱼ Σ (φ − μⱼ)(φ − μⱼ)ᵀ of all classes."""
        D = len(scatter)
        covariance = scatter / (counts.sum() - len(counts))
        deviations = covariance.diagonal().clamp(min=0).sqrt()
        scale = deviations.clamp(min=torch.finfo(torch.float32).tiny)
        rows, columns = torch.tril_indices(D, D, -1, device=scatter.device)
        correlations = (covariance / scale[:, None] / scale)[rows, columns].clamp(-1, 1)
        return cls(counts, means, deviations, (correlations * STEPS).round().to(torch.int16))

    def with_classes(self, phi: Float[Tensor, "n D"], y: Int[Tensor, " n"]) -> "WideMemory":
        """This memory and new classes, ascending by label."""
        counts, means, scatter = class_sums(phi, y)
        if len(self.counts):
            scatter += self.degrees * self.covariance()
            counts, means = torch.cat([self.counts, counts]), torch.cat([self.means, means])
        return WideMemory.of(counts, means, scatter)

    def tensors(self) -> dict[str, Tensor]:
        """All that is kept, by name."""
        return dict(vars(self))


def nothing_yet(D: int, device: torch.device) -> WideMemory:
    """The memory of no class."""
    counts = torch.zeros(0, dtype=torch.int64, device=device)
    means, deviations = torch.zeros(0, D, device=device), torch.zeros(D, device=device)
    return WideMemory(counts, means, deviations, torch.zeros(0, dtype=torch.int16, device=device))


def class_sums(
    phi: Float[Tensor, "n D"], y: Int[Tensor, " n"]
) -> tuple[Int[Tensor, " k"], Float[Tensor, "k D"], Float[Tensor, "D D"]]:
    """Counts and means of each class, ascending by label, and the sum of all squares around their class's mean."""
    labels, counts = y.unique(return_counts=True)
    if int(counts.min()) < LEAST:
        few = int(labels[counts.argmin()])
        raise InputError(
            f"Expected at least {LEAST} images per class but got {int(counts.min())} of class {few}: "
            "from what is kept of fewer, single images' features could be computed."
        )
    means = torch.stack([phi[y == label].mean(0) for label in labels])
    centred = phi - means[torch.searchsorted(labels, y)]
    return counts, means, centred.T @ centred


@dataclass(frozen=True)
class WideClassifier:
    """Linear discriminant analysis: one row of weights and an offset per class, in the memory's order."""

    weights: Float[Tensor, "k D"]
    offsets: Float[Tensor, " k"]

    @classmethod
    def of(cls, memory: WideMemory, ridge: float) -> "WideClassifier":
        covariance = memory.covariance()
        covariance.diagonal().add_(ridge * covariance.diagonal().mean() + torch.finfo(torch.float32).tiny)
        # rounding of correlations may leave an eigenvalue below 0 where the ridge is small: solved, not factorised
        weights = torch.linalg.solve(covariance, memory.means.T).T
        return cls(weights, -0.5 * (weights * memory.means).sum(1))

    def scores(self, phi: Float[Tensor, "n D"]) -> Float[Tensor, "n k"]:
        """The largest for the class whose mean is nearest."""
        return phi @ self.weights.T + self.offsets


def wide_features(stages: list[Tensor], pool: int) -> Float[Tensor, "n D"]:
    """The activations of all stages, each pooled to at most pool × pool cells, side by side."""
    parts = [adaptive_avg_pool2d(stage.float(), min(pool, stage.shape[-1])).flatten(1) for stage in stages]
    return torch.cat(parts, dim=1)
