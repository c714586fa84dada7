"""Drift: how far the encoder has left its memory behind, and how memory follows it.

When a new task moves the encoder, the stored moments of old classes stay behind. Two things are done about it here.

*Drift compensation* goes beyond the paper. A linear map W, fitted on the new images, carries features from where they
were to where they are; every stored mean and covariance can follow: μ → Wμ, Σ → WΣWᵀ. Replayed images can be witnesses
too; whether they help differs from stream to stream (docs/experiments.md).

*Measuring* what is left of the drift needs someone who kept the old images: re-encoded, they give the moments as they
should be. Two numbers per class:

- *mean*: the distance between the stored and the re-encoded mean; features have length 1;
- *affinity*: of the subspaces along the leading components of the two covariances, from 0 to 1.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ictrl.memory.store import Memory
from ictrl.theory.metrics import subspace_affinity
from ictrl.theory.statistics import Moments

COMPONENTS = 15


def fit_compensation(
    Z_before: Float[Tensor, "n d"],
    Z_after: Float[Tensor, "n d"],
    weights: Float[Tensor, " n"],
    ridge: float,
) -> Float[Tensor, "d d"]:
    """The map W that carries features from before to after: ridge regression pulled towards the identity.

    W minimises Σ wᵢ‖W zᵢ − zᵢ'‖² + ρ‖W − I‖² with ρ = ridge × the mean eigenvalue of Σ wᵢ zᵢzᵢᵀ: directions in which no
    image was at hand are left where they were.
    """
    d = Z_before.shape[1]
    weighted = Z_before * weights[:, None]
    gram = weighted.T @ Z_before
    rho = ridge * gram.trace() / d
    eye = torch.eye(d, dtype=gram.dtype, device=gram.device)
    return torch.linalg.solve(gram + rho * eye, weighted.T @ Z_after + rho * eye).T


@dataclass(frozen=True)
class Movement:
    """How features have moved: x → Mx + shift, and the covariance of what this leaves unexplained."""

    matrix: Float[Tensor, "D D"]
    shift: Float[Tensor, " D"]
    residual: Float[Tensor, "D D"]


def fit_movement(
    before: Float[Tensor, "n D"], after: Float[Tensor, "n D"], ridge: float, judged: int | None = None
) -> Movement:
    """The affine map that carries features from before to after, by `fit_compensation`.

    The ridge is the same whatever the features' scales: each is divided by its spread first. What the map leaves
    unexplained is judged by the first so many features, or by all.
    """
    x, x_after = before.double(), after.double()
    scale = x.std(0)
    scale = scale.clamp(min=1e-6 * float(scale.mean()) + torch.finfo(torch.float64).tiny)
    Z, Z_after = (x - x.mean(0)) / scale, (x_after - x_after.mean(0)) / scale
    W = fit_compensation(Z, Z_after, Z.new_full((len(Z),), 1 / len(Z)), ridge)
    matrix = scale[:, None] * W / scale
    left = ((Z_after - Z @ W.T) * scale)[:judged]
    return Movement(matrix, x_after.mean(0) - matrix @ x.mean(0), torch.cov(left.T))


def leading_components(feature_dim: int) -> int:
    """15, or a quarter of a small feature space: half of it would have affinity with anything.

    >>> leading_components(128), leading_components(16)
    (15, 4)
    """
    return max(1, min(COMPONENTS, feature_dim // 4))


def measure_drift(memory: Memory, reencoded: Moments) -> tuple[list[float], list[float]]:
    """Distance of the means and affinity of the subspaces of each class, in the order of learning."""
    stored = Moments.of_classes(memory)
    assert torch.equal(stored.labels, reencoded.labels)  # both ascending
    q = leading_components(stored.means.shape[1])
    bases = [moments.leading_bases(q) for moments in (stored, reencoded)]
    distances = (stored.means - reencoded.means).norm(dim=1).tolist()
    affinities = subspace_affinity(*bases).tolist()
    place = {label: i for i, label in enumerate(stored.labels.tolist())}
    return [distances[place[label]] for label in memory], [affinities[place[label]] for label in memory]
