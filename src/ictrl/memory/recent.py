"""Classes told by the nearest of the features that are kept of each: FearNet's memory of recent ones."""

import torch
from torch import Tensor

from ictrl.shapes import Float, Int

EPS = 1e-6  # ε


def by_nearest(
    Z: Float[Tensor, "n d"], features: Float[Tensor, "m d"], rows: Int[Tensor, " m"], classes: Int[Tensor, " j"]
) -> Float[Tensor, "n j"]:
    """β_j / Σ β with β_j = 1 / (ε + min ‖z − u‖ over the features u of class j); all have unit length."""
    apart = (2 - 2 * Z @ features.T).clamp(min=0).sqrt()
    others = torch.where(classes[:, None] != rows, torch.inf, 0.0)  # (j, m)
    beta = 1 / (EPS + torch.stack([(apart + row).min(1).values for row in others], 1))
    return beta / beta.sum(1, keepdim=True)
