"""CutMix: a box of each image is filled from another one, and both classes count by their share of the pixels.

    x̃ = (1 − m) ⊙ x_i + m ⊙ x_j,   loss = (1 − |m|) CE(x̃, y_i) + |m| CE(x̃, y_j)

with m a box whose area is uniform in [0, 1] before the image's edges cut it: one for all images of a batch (Yun et al.,
*CutMix*, ICCV 2019, with α = 1). Where few images are seen many times, it keeps a network from learning them by heart.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ictrl.shapes import Float, Int


class Mixed(NamedTuple):
    """Images, each with a part of another one."""

    X: Float[Tensor, "n c h w"]
    partners: Int[Tensor, " n"]
    """whose part it is"""
    share: Float[Tensor, ""]
    """of the pixels that are the partner's"""


def cutmix(X: Float[Tensor, "n c h w"], chance: float, generator: torch.Generator) -> Mixed:
    """With this chance, the images of a batch mixed; otherwise the images as they are, with a share of 0."""
    n, _, height, width = X.shape
    die, area, y, x = torch.rand(4, generator=generator, device=X.device)
    partners = torch.rand(n, generator=generator, device=X.device).argsort()
    reach = torch.where(die < chance, area.sqrt() / 2, 0.0)
    down, across = (
        ((torch.arange(side, device=X.device) + 0.5) / side - centre).abs() < reach
        for side, centre in ((height, y), (width, x))
    )
    inside = down[:, None] & across  # (h, w)
    return Mixed(torch.where(inside, X[partners], X), partners, inside.float().mean())


def mixed_cross_entropy(
    logits: Float[Tensor, "n k"], rows: Int[Tensor, " n"], partners: Int[Tensor, " n"], share: Float[Tensor, ""]
) -> Float[Tensor, ""]:
    """Cross-entropy with the classes of mixed images, each by its share."""
    return (1 - share) * cross_entropy(logits, rows) + share * cross_entropy(logits, rows[partners])
