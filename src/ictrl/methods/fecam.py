"""fecam: a covariance of its own for every class. The nearest class is told by Mahalanobis distances.

The encoder learns the first task by cross-entropy and stays as it is. Of every class mean and covariance of features
are kept. Features become more Gaussian by Tukey's power z → z^λ; covariances are shrunk, and made correlation
matrices so that classes of different spread can be compared:

    class of x = argmin_j  uᵀ Cⱼ⁻¹ u,   u = φ/‖φ‖ − μⱼ/‖μⱼ‖     (`memory/mahalanobis.py`)

(Goswami et al., *FeCAM: Exploiting the Heterogeneity of Class Distributions in Exemplar-Free Continual Learning*,
NeurIPS 2023). Where features are many and images few, most of a class's covariance is noise; and a full covariance per
class costs many bytes: 525 kB with 512 features, as half a matrix of float32.

Settings: the authors' for CIFAR-100, λ = 0.5, γ₁ = γ₂ = 1, covariances shrunk twice as in their code. Encoders whose
features can be negative have sign(z)|z|^λ, which is the same where none is. The authors train with a cosine head, and
tell classes by it until a second task comes; here the head is linear and thrown away (`first_task_encoder.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ictrl.errors import ConfigError
from ictrl.memory.mahalanobis import normalised_distances, shrunk, whitened_distances
from ictrl.memory.triangles import half_size, lower_half, whole
from ictrl.methods.first_task_encoder import FirstTaskConfig, FirstTaskLearner
from ictrl.nets.layers import exact_float32
from ictrl.shapes import Float, Int, UInt8
from ictrl.theory.statistics import ClassStatistics

SHRUNK = 2  # times


@dataclass(frozen=True)
class FeCAMConfig(FirstTaskConfig):
    """A frozen encoder, a mean and a covariance per class, Mahalanobis distances."""

    name: ClassVar[str] = "fecam"

    power: float = 0.5
    """λ of Tukey's transform; 1 leaves features as they are"""
    shrink_variance: float = 1.0
    """γ₁, how much of the mean variance is added to every variance"""
    shrink_covariance: float = 1.0
    """γ₂, how much of the mean covariance is added to every covariance of two features; at most γ₁"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.power < float("inf"):
            raise ConfigError(f"Expected power to be above 0 but got {self.power}.")
        if not 0 < self.shrink_variance < float("inf"):
            raise ConfigError(f"Expected shrink_variance to be above 0 but got {self.shrink_variance}.")
        if not 0 <= self.shrink_covariance <= self.shrink_variance:
            raise ConfigError(
                f"Expected shrink_covariance from 0 to shrink_variance ({self.shrink_variance}) but got "
                f"{self.shrink_covariance}: beyond it, what is shrunk need not be a covariance."
            )


class FeCAM(FirstTaskLearner):
    """Keeps the mean and half the covariance matrix of every class."""

    settings_type = FeCAMConfig
    keeps = "mean and covariance of every class"

    def remembered(self, Z: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> dict[str, Tensor]:
        """As in the authors' code, means are of features as they are, and covariances of transformed ones."""
        powered = tukey(Z, self.settings.power).double()
        classes = [y == label for label in y.unique()]
        means = torch.stack([Z[these].mean(0) for these in classes])
        covariances = torch.stack([ClassStatistics.of(powered[these]).covariance for these in classes])
        new = {"means": means, "covariances": lower_half(covariances).float()}
        return {name: torch.cat([self.kept[name], kept]) for name, kept in new.items()} if self.kept else new

    def shapes(self, classes: int) -> dict[str, tuple[int, ...]]:
        d = self.settings.network.feature_dim
        return {"means": (classes, d), "covariances": (classes, half_size(d))}

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """Distances, the other way round."""
        means, S = self._gaussians()
        with exact_float32():
            return self.by_label(-normalised_distances(tukey(self.encode(X), self.settings.power), means, S))

    def scorer(self) -> Callable[[Tensor], Tensor]:
        distances = whitened_distances(*self._gaussians())
        return lambda X: self.by_label(-distances(tukey(self.encode(X), self.settings.power)))

    def _gaussians(self) -> tuple[Float[Tensor, "k d"], Float[Tensor, "k d d"]]:
        """Transformed means and shrunk covariances."""
        settings, S = self.settings, whole(self.kept["covariances"]).double()
        for _ in range(SHRUNK):
            S = shrunk(S, settings.shrink_variance, settings.shrink_covariance)
        return tukey(self.kept["means"], settings.power), S


def tukey(Z: Float[Tensor, "n d"], power: float) -> Float[Tensor, "n d"]:
    """z^λ, with its sign.

    >>> tukey(torch.tensor([[4.0, 0.0, -9.0]]), 0.5).tolist()
    [[2.0, 0.0, -3.0]]
    """
    return Z.sign() * Z.abs() ** power
