"""Images brought to the side and the number of channels that a network expects.

The middle square is cut out and resized with a triangle filter that widens as images shrink, so that fine patterns
fade instead of turning into coarse ones. Images of 28×28, that is MNIST, get a border of two black pixels when 32×32 is
asked for, as in the paper: nothing is interpolated.
"""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from ictrl.errors import InputError
from ictrl.limits import unpacks_too_much
from ictrl.shapes import UInt8

CHUNK_PIXELS = 2**24  # converted to floats at a time: the whole dataset as floats would take four times its memory
MNIST_SIDE, PADDED_SIDE = 28, 32
LUMA = (19595, 38470, 7471)  # red, green and blue in 2^16 ths (ITU-R 601), in whole numbers as Pillow has them


def fit(images: UInt8[Tensor, "n c h w"], image_size: int, channels: int) -> UInt8[Tensor, "n channels side side"]:
    """Images of any size as squares of that side with that many channels; what fits already is returned as it is."""
    if min(images.shape[1], channels) == channels:  # fewer channels first, so that there is less to resize
        return to_side(to_channels(images, channels), image_size)
    return to_channels(to_side(images, image_size), channels)


def check_fitted(n: int, image_size: int, channels: int, path: Path) -> None:
    """Refuse so many images of a file where they take much more memory once they are as large as the network's."""
    if problem := unpacks_too_much(path.stat().st_size, n * channels * image_size**2):
        shape = f"{n} images of {image_size}×{image_size}×{channels}"
        raise InputError(f"Expected less of {path} than {shape}, as the network takes them: they have {problem}.")


def to_side(images: UInt8[Tensor, "n c h w"], side: int) -> UInt8[Tensor, "n c side side"]:
    """The middle square of each image, resized."""
    c, height, width = images.shape[1:]
    if (height, width) == (side, side):
        return images
    if height == width == MNIST_SIDE and side == PADDED_SIDE:
        border = (PADDED_SIDE - MNIST_SIDE) // 2
        return pad(images, [border] * 4)
    square = min(height, width)
    top, left = (height - square) // 2, (width - square) // 2
    cut = images[:, :, top : top + square, left : left + square]
    if c * square**2 > CHUNK_PIXELS:  # so large that even one image is too much to convert at once
        return torch.cat([_resized(cut[:, channel : channel + 1], side) for channel in range(c)], dim=1)
    return _resized(cut, side)


def _resized(cut: UInt8[Tensor, "n c square square"], side: int) -> UInt8[Tensor, "n c side side"]:
    n, c, square, _ = cut.shape
    result = torch.empty((n, c, side, side), dtype=torch.uint8)
    chunk = max(1, CHUNK_PIXELS // (c * max(square, side) ** 2))
    for start in range(0, n, chunk):
        floats = cut[start : start + chunk].float()
        resized = interpolate(floats, size=(side, side), mode="bilinear", antialias=True)
        result[start : start + chunk] = resized.round_().clamp_(0, 255).to(torch.uint8)
    return result


def to_channels(images: UInt8[Tensor, "n c h w"], channels: int) -> UInt8[Tensor, "n channels h w"]:
    """Images with that many channels: grey as colour by repetition, colour as grey by its luma."""
    n, c, height, width = images.shape
    if c == channels:
        return images
    if (c, channels) == (1, 3):
        return images.repeat(1, 3, 1, 1)
    if channels not in (1, 3):
        raise InputError(f"Expected network.channels to be 1 or 3, or the {c} of the images, but got {channels}.")
    if c != 3:
        raise InputError(
            f"Expected images of 1 or 3 channels, to become {channels}, but got {c}: "
            f"convert them, or set network.channels to {c}."
        )
    result = torch.empty((n, 1, height, width), dtype=torch.uint8)
    weights = torch.tensor(LUMA, dtype=torch.int32)[:, None, None]
    chunk = max(1, CHUNK_PIXELS // (c * height * width))
    for start in range(0, n, chunk):
        weighted = images[start : start + chunk].int() * weights
        luma = weighted.sum(dim=1, keepdim=True, dtype=torch.int32) + 2**15  # half a step, so that the shift rounds
        result[start : start + chunk] = (luma >> 16).to(torch.uint8)
    return result
