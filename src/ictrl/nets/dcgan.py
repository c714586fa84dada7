"""The encoder f and the decoder g: the paper's small DCGAN pair (its tables `arch:encoder` and `arch:decoder`).

The encoder halves the image with 4×4 convolutions until it is 4×4, then one convolution reads the whole of it into d
numbers, scaled to unit length. The decoder is its mirror. Depth follows from the image size: 32 px gives the paper's
four layers, 64 px five, 8 px two; the width doubles with every layer up to eight times the first.

Images are float tensors in [−1, 1] here; `to_float` and `to_uint8` go back and forth.
"""

from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ictrl.errors import ConfigError
from ictrl.nets.layers import Double, FromFeature, FromImage, Halve, ToFeature, ToImage, exact_float32, initialise

IMAGE_SIZES = (8, 16, 32, 64, 128, 256)


def to_float(images: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """Pixels 0 … 255 as −1 … 1, the range of the decoder's tanh."""
    return (images - 127.5).div_(127.5)


def to_uint8(X: Float[Tensor, "n c h w"]) -> UInt8[Tensor, "n c h w"]:
    """The inverse of `to_float`, rounded and clipped."""
    return X.float().add(1).mul_(127.5).round_().clamp_(0, 255).to(torch.uint8)


class Encoder(nn.Module):
    """f: images (n, channels, side, side) to unit-length features (n, d)."""

    def __init__(
        self, image_size: int, channels: int, width: int, feature_dim: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.feature_dim = feature_dim
        self.precision = torch.float32
        widths = _widths(image_size, width)
        halves = (Halve(below, above) for below, above in pairwise(widths))
        self.layers = nn.Sequential(FromImage(channels, widths[0]), *halves, ToFeature(widths[-1], feature_dim))
        initialise(self, generator)

    def forward(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        with exact_float32():
            return _UnitLength.apply(self.layers(X.to(self.precision)))


class Decoder(nn.Module):
    """g: features (n, d) to images (n, channels, side, side) in [−1, 1]."""

    def __init__(
        self, image_size: int, channels: int, width: int, feature_dim: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.precision = torch.float32
        widths = _widths(image_size, width)[::-1]
        doubles = (Double(below, above) for below, above in pairwise(widths))
        self.layers = nn.Sequential(FromFeature(feature_dim, widths[0]), *doubles, ToImage(widths[-1], channels))
        initialise(self, generator)

    def forward(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n c h w"]:
        with exact_float32():
            return self.layers(Z.to(self.precision))


class _UnitLength(torch.autograd.Function):
    """z = x/‖x‖ in float32, and dx = (dz − z zᵀdz)/‖x‖ in as few passes."""

    @staticmethod
    def forward(ctx: Any, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        length = x.float().norm(dim=1, keepdim=True).clamp_(min=1e-12)
        z = x / length
        ctx.save_for_backward(z, length)
        ctx.dtype = x.dtype
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dz: Float[Tensor, "n d"]) -> Tensor:
        z, length = ctx.saved_tensors
        return torch.addcmul(dz, z, (z * dz).sum(1, keepdim=True), value=-1).div_(length).to(ctx.dtype)


def parameter_count(*networks: nn.Module) -> int:
    return sum(parameter.numel() for network in networks for parameter in network.parameters())


def _widths(image_size: int, width: int) -> list[int]:
    """Channels after each halving, from the image down to 4×4."""
    if image_size not in IMAGE_SIZES:
        raise ConfigError(f"Expected image_size to be one of {IMAGE_SIZES} but got {image_size}: resize the images.")
    halvings = image_size.bit_length() - 3  # 32 -> 3
    return [width * 2 ** min(i, 3) for i in range(halvings)]
