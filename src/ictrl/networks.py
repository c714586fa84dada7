"""The encoder f and the decoder g: the paper's small DCGAN pair (its tables `arch:encoder` and `arch:decoder`).

The encoder halves the image with 4×4 convolutions until it is 4×4, then one convolution reads the whole of it into d
numbers, scaled to unit length. The decoder is its mirror. Depth follows from the image size: 32 px gives the paper's
four layers, 64 px five, 8 px two; the width doubles with every layer up to eight times the first.

Images are float tensors in [−1, 1] here; `to_float` and `to_uint8` go back and forth.
"""

from itertools import pairwise

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from ictrl.errors import ConfigError

IMAGE_SIZES = (8, 16, 32, 64, 128, 256)
LEAK = 0.2  # slope of the encoder's LeakyReLU, from the paper


def to_float(images: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """Pixels 0 … 255 as −1 … 1, the range of the decoder's tanh."""
    return images.float().div_(127.5).sub_(1)


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
        layers: list[nn.Module] = [_layer(nn.Conv2d, channels, widths[0], stride=2, padding=1), nn.LeakyReLU(LEAK)]
        for below, above in pairwise(widths):
            layers += [_layer(nn.Conv2d, below, above, stride=2, padding=1), nn.BatchNorm2d(above), nn.LeakyReLU(LEAK)]
        layers += [_layer(nn.Conv2d, widths[-1], feature_dim, stride=1, padding=0)]
        self.layers = nn.Sequential(*layers)
        _initialise(self, generator)

    def forward(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        with _autocast(X, self.precision):
            features = self.layers(X.contiguous(memory_format=torch.channels_last))
        return nn.functional.normalize(features.flatten(1).float(), dim=1)


class Decoder(nn.Module):
    """g: features (n, d) to images (n, channels, side, side) in [−1, 1]."""

    def __init__(
        self, image_size: int, channels: int, width: int, feature_dim: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.precision = torch.float32
        widths = _widths(image_size, width)[::-1]
        layers: list[nn.Module] = [_layer(nn.ConvTranspose2d, feature_dim, widths[0], stride=1, padding=0)]
        for below, above in zip(widths, [*widths[1:], channels]):
            layers += [nn.BatchNorm2d(below), nn.ReLU(), _layer(nn.ConvTranspose2d, below, above, stride=2, padding=1)]
        self.layers = nn.Sequential(*layers, nn.Tanh())
        _initialise(self, generator)

    def forward(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n c h w"]:
        with _autocast(Z, self.precision):
            return self.layers(Z[:, :, None, None])


def parameter_count(*networks: nn.Module) -> int:
    return sum(parameter.numel() for network in networks for parameter in network.parameters())


def _autocast(like: Tensor, precision: torch.dtype) -> torch.autocast:
    """Convolutions in that precision. Weights are cast anew each time: a kept cast would go stale in a graph."""
    return torch.autocast(like.device.type, precision, enabled=precision != torch.float32, cache_enabled=False)


def _widths(image_size: int, width: int) -> list[int]:
    """Channels after each halving, from the image down to 4×4."""
    if image_size not in IMAGE_SIZES:
        raise ConfigError(f"Expected image_size to be one of {IMAGE_SIZES} but got {image_size}: resize the images.")
    halvings = image_size.bit_length() - 3  # 32 -> 3
    return [width * 2 ** min(i, 3) for i in range(halvings)]


def _layer(kind: type[nn.Conv2d] | type[nn.ConvTranspose2d], below: int, above: int, **shape: int) -> nn.Module:
    # skip_init: the weights are drawn below, from the caller's generator, and not also from the global one
    return nn.utils.skip_init(kind, below, above, kernel_size=4, bias=False, **shape)


def _initialise(network: nn.Module, generator: torch.Generator | None) -> None:
    """DCGAN: convolutions from N(0, 0.02²), BatchNorm scales from N(1, 0.02²) and shifts 0."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(module.weight, 0.0, 0.02, generator=generator)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, 0.02, generator=generator)
            nn.init.zeros_(module.bias)
    # convolutions are faster with channels last, on a CPU and on a GPU
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
