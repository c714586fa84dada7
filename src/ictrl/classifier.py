"""Nearest subspace: a feature belongs to the class whose subspace it lies closest to.

Class j is the affine subspace through its mean μⱼ along its leading principal components Uⱼ, and an image's residual to
it is ‖(I − UⱼUⱼᵀ)(z − μⱼ)‖². Nothing is trained. The same formula serves both protocols: under *memory* μⱼ and Uⱼ come
from the moments the learner kept, under *reencoded* from features of all old images under the current encoder, which
only someone who kept those images can compute.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ictrl.errors import InputError
from ictrl.memory import Memory


@dataclass(frozen=True)
class NearestSubspace:
    labels: Int[Tensor, " k"]
    means: Float[Tensor, "k d"]
    bases: Float[Tensor, "k d q"]
    """orthonormal columns; a class of fewer components has columns of zeros"""

    @classmethod
    def from_moments(
        cls,
        labels: Int[Tensor, " k"],
        means: Float[Tensor, "k d"],
        covariances: Float[Tensor, "k d d"],
        *,
        components: int | None = None,
        energy: float | None = None,
    ) -> "NearestSubspace":
        """Subspaces of `components` dimensions, or of as many a class as keep a share `energy` of its variance."""
        if (components is None) == (energy is None):
            raise InputError(f"Expected either components or energy but got components={components}, energy={energy}.")
        values, vectors = torch.linalg.eigh(covariances)
        values, vectors = values.flip(-1).clamp(min=0), vectors.flip(-1)  # largest first
        # rounding leaves directions that the class does not have: they must not count as part of its subspace
        d = values.shape[-1]
        present = values > d * torch.finfo(values.dtype).eps * values[:, :1]  # (k, d)
        if components is not None:
            present &= torch.arange(d, device=values.device) < components
        else:
            before = values.cumsum(-1) - values  # variance kept without this component
            present &= before < energy * values.sum(-1, keepdim=True)
        widest = max(1, int(present.sum(-1).max()))
        return cls(labels, means, (vectors * present[:, None, :])[..., :widest].contiguous())

    @classmethod
    def from_memory(
        cls, memory: Memory, *, components: int | None = None, energy: float | None = None
    ) -> "NearestSubspace":
        """The *memory* protocol: nothing but what was stored."""
        if not memory:
            raise InputError("Expected a memory of at least one class but got an empty one: learn a task first.")
        labels = sorted(memory)
        means = torch.stack([memory[label].mean for label in labels])
        covariances = torch.stack([memory[label].covariance for label in labels])
        return cls.from_moments(
            torch.tensor(labels, device=means.device), means, covariances, components=components, energy=energy
        )

    @classmethod
    def from_features(
        cls,
        Z: Float[Tensor, "n d"],
        y: Int[Tensor, " n"],
        *,
        components: int | None = None,
        energy: float | None = None,
    ) -> "NearestSubspace":
        """The *reencoded* protocol: features of images of every class, old ones included."""
        labels = y.unique()
        groups = [Z[y == label] for label in labels]
        means = torch.stack([group.mean(0) for group in groups])
        covariances = torch.stack(
            [(group - mean).T @ (group - mean) / len(group) for group, mean in zip(groups, means)]
        )
        return cls.from_moments(labels, means, covariances, components=components, energy=energy)

    def residuals(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Squared distance of each feature to each class's subspace."""
        # ‖(I − UUᵀ)c‖² = ‖c‖² − ‖Uᵀc‖² with c = z − μ, and Uᵀc = Uᵀz − Uᵀμ: nothing of size n·k·d is formed
        projected = torch.einsum("nd,kdq->nkq", Z, self.bases) - torch.einsum("kd,kdq->kq", self.means, self.bases)
        centred = torch.cdist(Z, self.means, compute_mode="donot_use_mm_for_euclid_dist").square()
        return (centred - projected.square().sum(-1)).clamp(min=0)

    def predict(self, Z: Float[Tensor, "n d"]) -> Int[Tensor, " n"]:
        return self.labels[self.residuals(Z).argmin(1)]
