"""Which class a feature belongs to: the one whose residual is smallest. Nothing is trained.

Two ways to take a class's residual, both from its mean μⱼ and covariance Σⱼ alone:

- *nearest subspace*, the paper's: the squared distance ‖(I − UⱼUⱼᵀ)(z − μⱼ)‖² to the affine subspace through the mean
  along the leading principal components Uⱼ;
- *Gaussian*, regularised discriminant analysis: (z − μⱼ)ᵀ Sⱼ⁻¹ (z − μⱼ) + log det Sⱼ, the surprise at z, where Sⱼ lies
  between the class's own covariance (QDA), the mean of all classes' (LDA) and a sphere. Small eigenvalues of Σⱼ are
  badly known, and do not survive the encoder's drift; what all classes say together is known well.

The same formulas serve both protocols: under *memory* the moments are those the learner kept, under *reencoded* those
of all old images under the current encoder, which only someone who kept these images can compute.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from ictrl.config import ClassifierConfig
from ictrl.errors import InputError
from ictrl.shapes import Float, Int
from ictrl.theory.statistics import Moments, present

SMALLEST = 1e-12  # variance that a Gaussian is taken to have: all images of a class may be the same


class Classifier(ABC):
    labels: Int[Tensor, " k"]

    @abstractmethod
    def residuals(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """What each class does not explain of each feature."""

    def judge(self, views: Float[Tensor, "views n d"]) -> Float[Tensor, "n k"]:
        """Residuals of images of which there are several views, added up."""
        return self.residuals(views.flatten(0, 1)).unflatten(0, views.shape[:2]).sum(0)

    def decide(self, views: Float[Tensor, "views n d"]) -> Int[Tensor, " n"]:
        return self.labels[self.judge(views).argmin(1)]

    def predict(self, Z: Float[Tensor, "n d"]) -> Int[Tensor, " n"]:
        return self.labels[self.residuals(Z).argmin(1)]


def classifier_of(moments: Moments, config: ClassifierConfig) -> Classifier:
    if config.kind == "gaussian":
        return GaussianClassifier.from_moments(moments, pooled=config.pooled, shrinkage=config.shrinkage)
    return NearestSubspace.from_moments(moments, components=config.components, energy=config.energy)


@dataclass(frozen=True)
class NearestSubspace(Classifier):
    labels: Int[Tensor, " k"]
    means: Float[Tensor, "k d"]
    bases: Float[Tensor, "k d q"]
    """orthonormal columns; a class of fewer components has columns of zeros"""

    @classmethod
    def from_moments(
        cls, moments: Moments, *, components: int | None = None, energy: float | None = None
    ) -> "NearestSubspace":
        """Subspaces of `components` dimensions, or of as many a class as keep a share `energy` of its variance."""
        if (components is None) == (energy is None):
            raise InputError(f"Expected either components or energy but got components={components}, energy={energy}.")
        values, vectors = map(torch.stack, zip(*(of_class.spectrum for of_class in moments.classes.values())))
        d = values.shape[-1]
        kept = present(values)  # (k, d)
        if components is not None:
            kept &= torch.arange(d, device=values.device) < components
        if energy is not None:
            before = values.cumsum(-1) - values  # variance kept without this component
            kept &= before < energy * values.sum(-1, keepdim=True)
        widest = max(1, int(kept.sum(-1).max()))
        return cls(moments.labels, moments.means, (vectors * kept[:, None, :])[..., :widest].contiguous())

    def residuals(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Squared distance of each feature to each class's subspace."""
        # ‖(I − UUᵀ)c‖² = ‖c‖² − ‖Uᵀc‖² with c = z − μ, and Uᵀc = Uᵀz − Uᵀμ: nothing of size n·k·d is formed
        projected = torch.einsum("nd,kdq->nkq", Z, self.bases) - torch.einsum("kd,kdq->kq", self.means, self.bases)
        if torch.compiler.is_exporting():  # ONNX has no cdist
            centred = (Z[:, None] - self.means).square().sum(-1)
        else:
            centred = torch.cdist(Z, self.means, compute_mode="donot_use_mm_for_euclid_dist").square()
        return (centred - projected.square().sum(-1)).clamp(min=0)


@dataclass(frozen=True)
class GaussianClassifier(Classifier):
    labels: Int[Tensor, " k"]
    means: Float[Tensor, "k d"]
    whiteners: Float[Tensor, "k d d"]
    """Wⱼ with Sⱼ⁻¹ = WⱼᵀWⱼ"""
    log_dets: Float[Tensor, " k"]

    @classmethod
    def from_moments(cls, moments: Moments, *, pooled: float, shrinkage: float) -> "GaussianClassifier":
        """Sⱼ = (1 − s)Cⱼ + s tr(Cⱼ)/d I with Cⱼ = (1 − p)Σⱼ + p Σ̄, p the pooled share and s the shrinkage."""
        covariances = moments.covariances
        d = covariances.shape[-1]
        C = (1 - pooled) * covariances + pooled * covariances.mean(0)
        spheres = C.diagonal(dim1=1, dim2=2).mean(1).clamp(min=SMALLEST)
        eye = torch.eye(d, dtype=C.dtype, device=C.device)
        L = torch.linalg.cholesky((1 - shrinkage) * C + shrinkage * spheres[:, None, None] * eye)
        whiteners = torch.linalg.solve_triangular(L, eye, upper=False)
        return cls(moments.labels, moments.means, whiteners, 2 * L.diagonal(dim1=1, dim2=2).log().sum(1))

    def residuals(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Surprise at each feature in each class: squared distance in the class's own measure, plus its volume."""
        classes = zip(self.means, self.whiteners, self.log_dets)  # one by one: nothing of size n·k·d is formed
        return torch.stack([((Z - mean) @ W.T).square().sum(1) + log_det for mean, W, log_det in classes], dim=1)
