"""Wide memory: class means and one covariance of wide features, and the classifier that reads them (LDA).

Kept are, per class, a count and a mean of φ (`wide_features.py`), and for all classes together one within-class
covariance

    Σ = Σⱼ (nⱼ − 1) Σⱼ / Σⱼ (nⱼ − 1),

whose size does not grow with the classes. As long as the encoder stays as it is, both hold for ever: with each task
counts, means and the sum above go on as if all images had come at once. An encoder that learns on takes them along
(`moved`).

Linear discriminant analysis takes the class whose mean is nearest in the measure of Σ, with a ridge:

    score of class j = wⱼᵀφ − ½ wⱼᵀμⱼ,   wⱼ = (Σ + ρI)⁻¹ μⱼ,   ρ = ridge × the mean variance.

The covariance is kept as its Cholesky factor, Σ = LLᵀ, half a matrix of 16 or 8 bits a number. Rounding L by δ leaves a
covariance whatever δ is, and moves its small eigenvalues by δ² only, while rounding Σ itself moves them by δ: they are
what LDA divides by.

How strange an image looks is read from the same two things. From the mean μ̄ of all class means, each class lies in some
direction; a known image lies in that of its class, a stranger between all of them, or far away:

    strangeness = 1 − maxⱼ cos(φ − μ̄, μⱼ − μ̄) · min(1, 1.5 r² / ‖φ − μ̄‖²)²,

angles and lengths in the measure of (Σ + ρI)⁻¹, r² the mean squared length of known images. The cosine tells pictures
of other things, such as those of CIFAR-100 from CIFAR-10, better than the distance to the nearest mean, plain or
relative, and better than the largest probability (`experiments/unknown.py` compares them). The length tells what is no
such picture at all: noise, digits, shuffled pixels.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from ictrl.memory.calibration import NOT_CALIBRATED, Calibration
from ictrl.memory.class_sums import ClassSums
from ictrl.memory.compensation import Movement
from ictrl.memory.wide_features import Reduction
from ictrl.shapes import Float, Int

Bits = Literal[8, 16]
DTYPES: dict[int, torch.dtype] = {8: torch.int8, 16: torch.int16}
NOT_REDUCED = Reduction()
TINY = torch.finfo(torch.float32).tiny
FAR = 1.5  # times the usual squared length: beyond, an image looks the stranger the farther it lies
JITTER = 1e-7  # of the mean variance, added so that a covariance of few images can be factorised


@dataclass(frozen=True)
class WideMemory:
    """Counts and means of classes, in the order of learning, and their common covariance."""

    counts: Int[Tensor, " k"]
    means: Float[Tensor, "k D"]
    diagonal: Float[Tensor, " D"]
    """of L"""
    scales: Float[Tensor, " D"]
    """of each row of L left of its diagonal, the largest number"""
    factor: Int[Tensor, " half"]
    """L left of its diagonal, row by row, in equal steps up to the row's largest"""
    reduction: Reduction = NOT_REDUCED
    """what φ was made by"""
    calibration: Calibration = NOT_CALIBRATED
    """what held-out images said; it changes no class, only how sure of it one is"""

    def __repr__(self) -> str:
        k, D = self.means.shape
        nbytes = sum(tensor.numel() * tensor.element_size() for tensor in self.tensors().values())
        return f"WideMemory({k} classes of {int(self.counts.sum())} images, {D} wide features, {nbytes} bytes)"

    @property
    def degrees(self) -> int:
        """Σⱼ (nⱼ − 1), what the covariance is divided by."""
        return int(self.counts.sum()) - len(self.counts)

    def covariance(self) -> Float[Tensor, "D D"]:
        """Σ, in full and in double precision, as are all sums here: LDA divides by its smallest eigenvalues."""
        D = len(self.diagonal)
        L = torch.zeros(D, D, device=self.diagonal.device, dtype=torch.float64)
        rows, columns = torch.tril_indices(D, D, -1, device=L.device)
        L[rows, columns] = self.factor.double()
        L *= (self.scales / torch.iinfo(self.factor.dtype).max)[:, None]
        L.diagonal().copy_(self.diagonal)
        return L @ L.T

    @classmethod
    def of(
        cls,
        counts: Int[Tensor, " k"],
        means: Float[Tensor, "k D"],
        scatter: Float[Tensor, "D D"],
        bits: Bits = 16,
        reduction: Reduction = NOT_REDUCED,
    ) -> "WideMemory":
        """From the sum Σⱼ Σ (φ − μⱼ)(φ − μⱼ)ᵀ of all classes."""
        D, steps = len(scatter), torch.iinfo(DTYPES[bits]).max
        covariance = scatter / (counts.sum() - len(counts))
        covariance.diagonal().add_(JITTER * covariance.diagonal().mean() + TINY)
        L = torch.linalg.cholesky(covariance).float()
        diagonal = L.diagonal().clone()
        L.diagonal().zero_()
        scales = L.abs().amax(1)
        L /= scales.clamp(min=TINY)[:, None]
        rows, columns = torch.tril_indices(D, D, -1, device=L.device)
        return cls(counts, means, diagonal, scales, (L[rows, columns] * steps).round().to(DTYPES[bits]), reduction)

    def with_classes(self, phi: Float[Tensor, "n D"], y: Int[Tensor, " n"], bits: Bits = 16) -> "WideMemory":
        """This memory and new classes, ascending by label."""
        return self.with_sums(ClassSums.of(phi, y), bits)

    def with_sums(self, sums: ClassSums, bits: Bits = 16) -> "WideMemory":
        """The same, of images that were summed up in parts; processes that share them add up what they have."""
        sums = sums.everywhere()
        counts, means, scatter = sums.counts, sums.means.float(), sums.scatter
        if len(self.counts):
            scatter = scatter + self.degrees * self.covariance()
            counts, means = torch.cat([self.counts, counts]), torch.cat([self.means, means])
        return replace(WideMemory.of(counts, means, scatter, bits, self.reduction), calibration=self.calibration)

    def without(self, place: int) -> "WideMemory":
        """This memory less the class in that place; its part in the covariance of all can not be taken out again."""
        stay = torch.arange(len(self.counts), device=self.counts.device) != place
        others = self.calibration.without(place)
        return replace(self, counts=self.counts[stay], means=self.means[stay], calibration=others)

    def moved(self, by: Movement, bits: Bits = 16) -> "WideMemory":
        """The same classes after wide features have moved with the encoder: μ → Mμ + shift, Σ → MΣMᵀ + residual."""
        means = (self.means.double() @ by.matrix.T + by.shift).float()
        covariance = by.matrix @ self.covariance() @ by.matrix.T + by.residual
        whole = WideMemory.of(self.counts, means, self.degrees * covariance, bits, self.reduction)
        return replace(whole, calibration=self.calibration)

    def tensors(self) -> dict[str, Tensor]:
        """All that is kept, by name."""
        plain = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        plain |= {f"reduction.{i}": matrix for i, matrix in enumerate(self.reduction.matrices)}
        return plain | self.calibration.tensors()


def nothing_yet(device: torch.device, reduction: Reduction = NOT_REDUCED) -> WideMemory:
    """The memory of no class."""
    none = torch.zeros(0, device=device)
    return WideMemory(none.long(), none.view(0, 0), none, none, none.to(torch.int16), reduction)


@dataclass(frozen=True)
class WideClassifier:
    """Linear discriminant analysis: one row of weights and an offset per class, in the memory's order."""

    weights: Float[Tensor, "k D"]
    offsets: Float[Tensor, " k"]
    means: Float[Tensor, "k D"]
    factor: Float[Tensor, "D D"]
    """of Σ + ρI, by Cholesky"""
    rho: float

    @classmethod
    def of(cls, memory: WideMemory, ridge: float | Literal["auto"] = "auto") -> "WideClassifier":
        covariance = memory.covariance()
        ridge = auto_ridge(memory) if ridge == "auto" else ridge
        rho = float(ridge * covariance.diagonal().mean() + TINY)
        covariance.diagonal().add_(rho)
        factor = torch.linalg.cholesky(covariance)
        weights = torch.cholesky_solve(memory.means.T.double(), factor).T.float()
        return cls(weights, -0.5 * (weights * memory.means).sum(1), memory.means, factor.float(), rho)

    def scores(self, phi: Float[Tensor, "n D"]) -> Float[Tensor, "n k"]:
        """The largest for the class whose mean is nearest; an image's sum to 0, which leaves float32 more digits."""
        weights, offsets = self._centred
        return phi @ weights.T + offsets

    def distances(self) -> Float[Tensor, "k k"]:
        """Between all means, in the measure of (Σ + ρI)⁻¹, in the memory's order."""
        white = torch.linalg.solve_triangular(self.factor, self.means.T, upper=False).T
        return torch.cdist(white, white, compute_mode="donot_use_mm_for_euclid_dist")

    def strangeness(self, phi: Float[Tensor, "n D"]) -> Float[Tensor, " n"]:
        """How little an image looks like any class, from 0 to 2; where there is only one, 1 whatever the image."""
        directions, usual = self._directions
        centred = phi - self.means.mean(0)
        squared = torch.linalg.solve_triangular(self.factor, centred.T, upper=False).square().sum(0).clamp(min=TINY)
        cosines = (centred @ directions.T).amax(1) / squared.sqrt()
        return 1 - cosines * (FAR * usual / squared).clamp(max=1).square()

    @cached_property
    def _centred(self) -> tuple[Float[Tensor, "k D"], Float[Tensor, " k"]]:
        """Weights and offsets without what all classes have in common, which is large and decides nothing."""
        return self.weights - self.weights.mean(0), self.offsets - self.offsets.mean()

    @cached_property
    def _directions(self) -> tuple[Float[Tensor, "k D"], float]:
        """(Σ + ρI)⁻¹(μⱼ − μ̄), divided by the distance of class and centre; and r² = tr((Σ + ρI)⁻¹Σ) + that squared."""
        directions = self.weights - self.weights.mean(0)
        squared = (directions * (self.means - self.means.mean(0))).sum(1).clamp(min=TINY)
        within = len(self.factor) - self.rho * float(torch.cholesky_inverse(self.factor).diagonal().sum())
        return directions / squared.sqrt()[:, None], within + float(squared.mean())


def auto_ridge(memory: WideMemory) -> float:
    """(D / degrees)², at most 1: the fewer images there are for each wide feature, the more.

    A rule of thumb: with 100, 500 and 4,500 images of each of ten classes and 448 to 1,792 wide features it came within
    half a point of the best of many ridges, which lay four orders of magnitude apart.
    """
    return min(1.0, (len(memory.diagonal) / memory.degrees) ** 2)
