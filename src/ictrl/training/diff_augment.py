"""Augmentation that gradients pass through, the same for real images and drawn ones.

A critic with few images learns them by heart. So it is shown no image as it is: colours, place and a patch that is
missing are drawn at random, of drawn images too, and the decoder learns through it (Zhao et al., *Differentiable
Augmentation for Data-Efficient GAN Training*, NeurIPS 2020). Every step is a product or a sum, whose gradient is the
same every time and can be recorded.
"""

import torch
from torch import Tensor

from ictrl.shapes import Float

MOVED, PATCH = 1 / 8, 1 / 2  # of the side: how far an image is moved at most, and how large the patch is


def diff_augment(X: Float[Tensor, "n c h w"], generator: torch.Generator) -> Float[Tensor, "n c h w"]:
    """Other colours, another place, a grey patch; drawn for each image."""
    n, _, height, width = X.shape

    def random(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=X.device)

    brightness, saturation, contrast = random(3, n, 1, 1, 1)
    X = X + (brightness - 0.5)
    grey = X.mean(1, keepdim=True)
    X = grey + 2 * saturation * (X - grey) if X.shape[1] > 1 else X
    middle = X.mean((1, 2, 3), keepdim=True)
    X = middle + (contrast + 0.5) * (X - middle)
    down, right, top, left = random(4, n)
    X = _moves(down, height).to(X.dtype)[:, None] @ X @ _moves(right, width).to(X.dtype)[:, None].mT
    missing = _patch(top, height)[:, :, None] & _patch(left, width)[:, None, :]
    return X * ~missing[:, None]


def _moves(drawn: Float[Tensor, " n"], side: int) -> Float[Tensor, "n side side"]:
    """The matrix that moves rows by up to an eighth of the side; what comes in is 0, a middle grey."""
    most = max(1, int(side * MOVED + 0.5))
    moves = (drawn * (2 * most + 1)).floor() - most
    rows = torch.arange(side, device=drawn.device)
    return ((rows[:, None] - rows[None]) == moves[:, None, None]).float()


def _patch(drawn: Float[Tensor, " n"], side: int) -> Float[Tensor, "n side"]:
    """Which rows are missing: half a side, around any row."""
    size, rows = int(side * PATCH + 0.5), torch.arange(side, device=drawn.device)
    middle = (drawn * (side + 1 - size % 2)).floor()[:, None]
    return ((rows - middle + size // 2) >= 0) & ((rows - middle + size // 2) < size)
