"""Augmentation: what is done to the images of a batch, drawn at random, before a network sees them.

All of it happens on the images' device and takes its random numbers from a generator that is given, so that it can be
part of a recorded step. A rotated image is one of another class: `rotated_labels` numbers them.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from ictrl.config import AugmentationConfig
from ictrl.kernels import gpu
from ictrl.nets.wrappers import to_float
from ictrl.parallel.sharing import share, shared
from ictrl.shapes import Bool, Float, Int, Shaped, UInt8

ROTATIONS = 4  # quarters of a turn
ASPECT = 4 / 3  # of a crop, at most, either way
LUMA = (0.299, 0.587, 0.114)  # of red, green and blue


@dataclass(frozen=True)
class Drawn:
    """What is done to each image of a batch."""

    flipped: Int[Tensor, " n"]
    """1 where it is mirrored"""
    moves: Int[Tensor, "2 n"] | None
    """pixels down and right"""
    turned: Int[Tensor, " n"] | None
    """quarters of a turn"""
    crops: Float[Tensor, "4 n"] | None = None
    """share of the width and of the height that is shown, and where its middle lies, from −1 to 1"""
    factors: Float[Tensor, "3 n"] | None = None
    """of brightness, contrast and saturation"""
    greyed: Bool[Tensor, " n"] | None = None
    """where colours are lost"""
    black: bool = False
    """what comes in at an edge where an image is moved; else that edge again"""

    def mine(self) -> "Drawn":
        """Of the images of a whole batch, those of this process."""
        if shared() is None:
            return self
        rows = share(len(self.flipped))
        drawn = {name: part[..., rows] for name, part in vars(self).items() if isinstance(part, Tensor)}
        return replace(self, **drawn)  # type: ignore[arg-type]

    def apply(self, pixels: UInt8[Tensor, "n c h w"], dtype: torch.dtype) -> Float[Tensor, "n c h w"]:
        """The images as a network sees them."""
        if self.crops is None and self.factors is None and self.greyed is None:
            return self._moved(pixels, dtype)
        X = self._moved(pixels, torch.float32)
        if self.crops is not None:
            X = cropped(X, self.crops)
        return recoloured(X, self.factors, self.greyed).to(dtype)

    def _moved(self, pixels: UInt8[Tensor, "n c h w"], dtype: torch.dtype) -> Float[Tensor, "n c h w"]:
        """Mirrored, moved, turned."""
        if not self.black or self.moves is None:
            return shown(pixels, self.flipped, self.moves, self.turned, dtype)
        X = blackened(shown(pixels, self.flipped, self.moves, None, dtype), self.moves)
        return X if self.turned is None else rotated(X, self.turned)


def draw(config: AugmentationConfig, rows: Int[Tensor, " n"], generator: torch.Generator) -> Drawn:
    """For as many images as there are rows."""
    n, device = len(rows), rows.device

    def random(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator, device=device)

    flipped = random(0, 2, n) if config.mirror else torch.zeros_like(rows)
    moves = random(-config.shifts, config.shifts + 1, 2, n) if config.shifts else None
    turned = random(0, ROTATIONS, n) if config.rotations else None
    crops = factors = greyed = None
    if config.crop < 1:
        area, aspect, x, y = torch.rand(4, n, generator=generator, device=device)
        area, aspect = config.crop + (1 - config.crop) * area, ASPECT ** (2 * aspect - 1)
        width, height = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
        crops = torch.stack([width, height, (2 * x - 1) * (1 - width), (2 * y - 1) * (1 - height)])
    if config.jitter:
        factors = 1 + config.jitter * (2 * torch.rand(3, n, generator=generator, device=device) - 1)
    if config.grey:
        greyed = torch.rand(n, generator=generator, device=device) < config.grey
    return Drawn(flipped, moves, turned, crops, factors, greyed, black=config.edges == "black")


def blackened(X: Float[Tensor, "n c h w"], moves: Int[Tensor, "2 n"]) -> Float[Tensor, "n c h w"]:
    """Images that were moved by so many pixels down and right, black where `shown` has repeated their edge."""
    inside = [
        (place >= 0) & (place < side)
        for side, by in zip(X.shape[2:], moves)
        for place in [torch.arange(side, device=X.device) + by[:, None]]
    ]  # (n, h), (n, w)
    return torch.where(inside[0][:, None, :, None] & inside[1][:, None, None, :], X, -1)


def cropped(X: Float[Tensor, "n c h w"], crops: Float[Tensor, "4 n"]) -> Float[Tensor, "n c h w"]:
    """A part of each image, enlarged to the whole of it."""
    width, height, x, y = crops
    nothing = torch.zeros_like(width)
    across, down = torch.stack([width, nothing, x], 1), torch.stack([nothing, height, y], 1)
    grid = affine_grid(torch.stack([across, down], 1), list(X.shape), align_corners=False)
    return grid_sample(X, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def recoloured(
    X: Float[Tensor, "n c h w"], factors: Float[Tensor, "3 n"] | None, greyed: Bool[Tensor, " n"] | None
) -> Float[Tensor, "n c h w"]:
    """Images from −1 to 1 with other brightness, contrast and saturation; some without colour."""
    if factors is not None:
        brightness, contrast, saturation = factors[:, :, None, None, None]
        X = (X + 1) * brightness - 1
        middle = X.mean((1, 2, 3), keepdim=True)
        X = middle + contrast * (X - middle)
        if X.shape[1] == len(LUMA):
            grey = _luma(X)
            X = grey + saturation * (X - grey)
    if greyed is not None and X.shape[1] == len(LUMA):
        X = torch.where(greyed[:, None, None, None], _luma(X), X)
    return X.clamp(-1, 1)


def _luma(X: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 1 h w"]:
    return sum(weight * X[:, i : i + 1] for i, weight in enumerate(LUMA))  # type: ignore[return-value]


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
        pixels = rotated(pixels, turned)
    return to_float(pixels).to(dtype)


def rotated(X: Shaped[Tensor, "n c h w"], turned: Int[Tensor, " n"]) -> Shaped[Tensor, "n c h w"]:
    """Each image turned by so many quarters."""
    result = X
    for quarters in range(1, ROTATIONS):
        result = torch.where(turned[:, None, None, None] == quarters, X.rot90(quarters, (2, 3)), result)
    return result


def _moved(
    pixels: UInt8[Tensor, "n c h w"], down: Int[Tensor, "n 1"], right: Int[Tensor, "n 1"]
) -> UInt8[Tensor, "n c h w"]:
    n, c, h, w = pixels.shape
    device = pixels.device
    rows = (torch.arange(h, device=device) + down).clamp_(0, h - 1)  # (n, h)
    columns = (torch.arange(w, device=device) + right).clamp_(0, w - 1)  # (n, w)
    image, channel = torch.arange(n, device=device), torch.arange(c, device=device)
    return pixels[image[:, None, None, None], channel[:, None, None], rows[:, None, :, None], columns[:, None, None, :]]
