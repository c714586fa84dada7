"""A loss against collapse: features should vary in every direction, or their covariance has no inverse."""

import torch
from torch import Tensor

from ictrl.shapes import Float

JITTER = 1e-4  # on the diagonal: a batch of fewer rows than features has a singular covariance


def anti_collapse(Z: Float[Tensor, "n d"], most: float = 1.0) -> Float[Tensor, ""]:
    """−mean min(Lᵢᵢ, most), with LLᵀ the covariance of the rows (AdaGauss: Rypeść et al., NeurIPS 2024).

    Lᵢᵢ is how much feature i varies beyond what those before it explain. From `most` on, more is not rewarded.

    >>> round(float(anti_collapse(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.5], [0.0, -0.5]]))), 3)
    -0.612
    """
    n, d = Z.shape
    centred = Z - Z.mean(0)
    covariance = centred.T @ centred / (n - 1) + JITTER * torch.eye(d, dtype=Z.dtype, device=Z.device)
    L, _ = torch.linalg.cholesky_ex(covariance)  # as the sums above it reads nothing back: a step can be recorded
    return -L.diagonal().clamp(max=most).mean()
