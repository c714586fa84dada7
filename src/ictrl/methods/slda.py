"""slda: deep streaming linear discriminant analysis. Class means and one covariance, updated image by image.

The encoder learns the first task by cross-entropy and stays as it is. With every image z of class y, the t-th of all,

    Σ ← (t Σ + t/(t+1) δδᵀ) / (t+1),   δ = z − μ_y,     then   μ_y ← (c_y μ_y + z) / (c_y + 1),

and the score of class j is wⱼᵀz − ½ wⱼᵀμⱼ with wⱼ = Λμⱼ, Λ = ((1 − ε)Σ + εI)⁻¹ (Hayes and Kanan, *Lifelong Machine
Learning with Deep Streaming Linear Discriminant Analysis*, CVPR Workshops 2020). Later images change no network and
nothing is forgotten; but later classes are only told apart as well as what the first ones taught the encoder allows.

Settings: ε = 1e-4 is the paper's. The authors' encoder comes from ImageNet; here it learns from the first task
(`first_task_encoder.py`). They begin Σ with a shrunk estimate from the first classes; here it is streamed from the very
first image, of which, as of each class's first, μ_y is the image itself and δ is 0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ictrl.errors import ConfigError
from ictrl.memory.triangles import half_size, lower_half, whole
from ictrl.methods.first_task_encoder import FirstTaskConfig, FirstTaskLearner
from ictrl.nets.layers import exact_float32
from ictrl.shapes import Float, Int, UInt8


@dataclass(frozen=True)
class SLDAConfig(FirstTaskConfig):
    """A frozen encoder, streamed class means and covariance, linear scores."""

    name: ClassVar[str] = "slda"

    shrinkage: float = 1e-4
    """ε, share of the identity in the covariance"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.shrinkage <= 1:
            raise ConfigError(f"Expected shrinkage to be above 0 and at most 1 but got {self.shrinkage}.")


class SLDA(FirstTaskLearner):
    """Keeps counts and means of classes and one covariance of all, half a matrix."""

    settings_type = SLDAConfig
    keeps = "class means, one covariance"

    def remembered(self, Z: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> dict[str, Tensor]:
        n, seen = len(Z), int(self.kept["counts"].sum()) if self.kept else 0
        counts, means, scatter = streamed(Z.double(), self.rows_of(y), seen)
        if self.kept:
            scatter += seen * whole(self.kept["covariance"]).double()
            counts, means = torch.cat([self.kept["counts"], counts]), torch.cat([self.kept["means"].double(), means])
        return {"counts": counts, "means": means.float(), "covariance": lower_half(scatter / (seen + n)).float()}

    def shapes(self, classes: int) -> dict[str, tuple[int, ...]]:
        d = self.settings.network.feature_dim
        return {"counts": (classes,), "means": (classes, d), "covariance": (half_size(d),)}

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        return self.scorer()(X)

    def scorer(self) -> Callable[[Tensor], Tensor]:
        """wⱼᵀz − ½ wⱼᵀμⱼ."""
        eps, means = self.settings.shrinkage, self.kept["means"].double()
        S = (1 - eps) * whole(self.kept["covariance"]).double()
        S.diagonal().add_(eps)
        W = torch.cholesky_solve(means.T, torch.linalg.cholesky(S)).T  # (k, d)
        offsets = -0.5 * (W * means).sum(1)

        def scores(X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
            with exact_float32():
                return self.by_label(self.encode(X) @ W.T.float() + offsets.float())

        return scores


def streamed(
    Z: Float[Tensor, "n d"], rows: Int[Tensor, " n"], seen: int
) -> tuple[Int[Tensor, " k"], Float[Tensor, "k d"], Float[Tensor, "d d"]]:
    """What n images of new classes 0 … k−1, one after another, do to counts, means and (t + n) Σ, after `seen` others.

    The mean that an image meets is that of its class's images before it: a running sum within the class. And tΣ grows
    by t/(t+1) δδᵀ with each image, so that one product of matrices gives the sum of all.
    """
    n, d = Z.shape
    counts = rows.bincount()
    order = rows.argsort(stable=True)  # class by class, as they came within each
    begins = counts.cumsum(0) - counts
    before = torch.arange(n, device=Z.device) - begins[rows[order]]  # images of the class that came before
    sums = torch.cat([Z.new_zeros(1, d), Z[order].cumsum(0)])  # (n + 1, d)
    of_class = sums[begins + counts] - sums[begins]
    met = (sums[:-1] - sums[begins[rows[order]]]) / before.clamp(min=1)[:, None]
    delta = torch.where(before[:, None] > 0, Z[order] - met, 0.0)
    t = (seen + order).to(Z.dtype)
    return counts, of_class / counts[:, None], delta.T @ (delta * (t / (t + 1))[:, None])
