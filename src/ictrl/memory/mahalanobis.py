"""Distances to classes in the measure of each class's own covariance, made comparable between classes.

A class with larger variances would seem nearer to everything. So covariances become correlation matrices, and features
and means are brought to unit length (FeCAM: Goswami et al., NeurIPS 2023):

    Σ_s = Σ + γ₁ V₁ I + γ₂ V₂ (1 − I),   V₁ the mean variance, V₂ the mean covariance of two features
    C   = Σ_s with entry ij divided by σᵢσⱼ
    distance of z to a class = uᵀ C⁻¹ u,   u = z/‖z‖ − μ/‖μ‖
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ictrl.shapes import Float

TINY = torch.finfo(torch.float32).tiny
JITTER = 1e-6  # on a correlation matrix's diagonal of ones, so that it can be factorised


def shrunk(S: Float[Tensor, "k d d"], variance: float, covariance: float) -> Float[Tensor, "k d d"]:
    """Σ_s with γ₁ `variance` and γ₂ `covariance`; for γ₂ at most γ₁ it has no negative eigenvalue if Σ has none."""
    d = S.shape[-1]
    on = S.diagonal(dim1=1, dim2=2).sum(1)  # (k,)
    off = (S.sum((1, 2)) - on) / (d * (d - 1))
    same = torch.eye(d, dtype=S.dtype, device=S.device)
    return S + (variance * on / d)[:, None, None] * same + (covariance * off)[:, None, None] * (1 - same)


def correlations(S: Float[Tensor, "k d d"]) -> Float[Tensor, "k d d"]:
    """Covariances divided by both standard deviations; a feature that does not vary correlates with none."""
    deviation = S.diagonal(dim1=1, dim2=2).clamp(min=TINY).sqrt()  # (k, d)
    C = S / (deviation[:, :, None] * deviation[:, None, :])
    C.diagonal(dim1=1, dim2=2).fill_(1.0)
    return C


def normalised_distances(
    Z: Float[Tensor, "n d"], means: Float[Tensor, "k d"], S: Float[Tensor, "k d d"]
) -> Float[Tensor, "n k"]:
    """uᵀC⁻¹u for every feature and class, C from covariances that have been shrunk."""
    factors = _factors(S).float()
    Z, means = normalize(Z, dim=1), normalize(means, dim=1)
    found = [
        torch.linalg.solve_triangular(L, (Z - mean).T, upper=False).square().sum(0) for L, mean in zip(factors, means)
    ]
    return torch.stack(found, dim=1)


def whitened_distances(
    means: Float[Tensor, "k d"], S: Float[Tensor, "k d d"]
) -> Callable[[Float[Tensor, "n d"]], Float[Tensor, "n k"]]:
    """`normalised_distances` of any features, by inverse factors: products of matrices alone, as a graph may have."""
    eye = torch.eye(S.shape[-1], dtype=torch.float64, device=S.device)
    inverses = torch.linalg.solve_triangular(_factors(S), eye, upper=False).float()  # (k, d, d)
    means = normalize(means, dim=1)

    def distances(Z: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        apart = normalize(Z, dim=1)[None] - means[:, None]  # (k, n, d)
        return (apart @ inverses.mT).square().sum(-1).T

    return distances


def _factors(S: Float[Tensor, "k d d"]) -> Float[Tensor, "k d d"]:
    """Cholesky factors of the correlation matrices, in double precision."""
    C = correlations(S.double())
    C.diagonal(dim1=1, dim2=2).add_(JITTER)
    return torch.linalg.cholesky(C)
