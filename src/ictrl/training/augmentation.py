"""Augmentation: what is done to the images of a batch, drawn at random, before a network sees them.

All of it happens on the images' device and takes its random numbers from a generator that is given, so that it can be
part of a recorded step. A rotated image is one of another class: `rotated_labels` numbers them.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from ictrl.config import AugmentationConfig
from ictrl.kernels import gpu
from ictrl.nets.wrappers import to_float

ROTATIONS = 4  # quarters of a turn


@dataclass(frozen=True)
class Drawn:
    """What is done to each image of a batch."""

    flipped: Int[Tensor, " n"]
    """1 where it is mirrored"""
    moves: Int[Tensor, "2 n"] | None
    """pixels down and right"""
    turned: Int[Tensor, " n"] | None
    """quarters of a turn"""

    def apply(self, pixels: UInt8[Tensor, "n c h w"], dtype: torch.dtype) -> Float[Tensor, "n c h w"]:
        """The images as a network sees them."""
        return shown(pixels, self.flipped, self.moves, self.turned, dtype)


def draw(config: AugmentationConfig, rows: Int[Tensor, " n"], generator: torch.Generator) -> Drawn:
    """For as many images as there are rows."""
    n, device = len(rows), rows.device

    def random(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator, device=device)

    flipped = random(0, 2, n) if config.mirror else torch.zeros_like(rows)
    moves = random(-config.shifts, config.shifts + 1, 2, n) if config.shifts else None
    turned = random(0, ROTATIONS, n) if config.rotations else None
    return Drawn(flipped, moves, turned)


def rotated_labels(y: Int[Tensor, " n"], turned: Int[Tensor, " n"], old_classes: int) -> Int[Tensor, " n"]:
    """Every rotation of a new class as a class of its own; the old classes, numbered before them, have none.

    >>> rotated_labels(torch.tensor([2, 3]), torch.tensor([0, 3]), old_classes=2).tolist()
    [2, 9]
    """
    return old_classes + ROTATIONS * (y - old_classes) + turned.to(y.dtype)


def shown(
    pixels: UInt8[Tensor, "n c h w"],
    flipped: Int[Tensor, " n"],
    moves: Int[Tensor, "2 n"] | None,
    turned: Int[Tensor, " n"] | None,
    dtype: torch.dtype,
) -> Float[Tensor, "n c h w"]:
    """Images mirrored where `flipped`, moved by so many pixels down and right, turned by so many quarters.

    What comes in at an edge repeats the edge. Pixels become numbers from −1 to 1.
    """
    if fast := gpu(pixels):
        return fast.shown(pixels, flipped, moves, turned, dtype)
    pixels = torch.where(flipped[:, None, None, None] != 0, pixels.flip(-1), pixels)
    if moves is not None:
        pixels = _moved(pixels, *moves[:, :, None])
    if turned is not None:
        for quarters in (1, 2, 3):
            turn = turned[:, None, None, None] == quarters
            pixels = torch.where(turn, pixels.rot90(quarters, (2, 3)), pixels)
    return to_float(pixels).to(dtype)


def _moved(
    pixels: UInt8[Tensor, "n c h w"], down: Int[Tensor, "n 1"], right: Int[Tensor, "n 1"]
) -> UInt8[Tensor, "n c h w"]:
    n, c, h, w = pixels.shape
    device = pixels.device
    rows = (torch.arange(h, device=device) + down).clamp_(0, h - 1)  # (n, h)
    columns = (torch.arange(w, device=device) + right).clamp_(0, w - 1)  # (n, w)
    image, channel = torch.arange(n, device=device), torch.arange(c, device=device)
    return pixels[image[:, None, None, None], channel[:, None, None], rows[:, None, :, None], columns[:, None, None, :]]
