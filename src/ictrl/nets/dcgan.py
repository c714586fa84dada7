"""The encoder f and the decoder g: the paper's small DCGAN pair (its tables `arch:encoder` and `arch:decoder`).

The encoder halves the image with 4×4 convolutions until it is 4×4, then one convolution reads the whole of it into d
numbers. The decoder is its mirror. Depth follows from the image size: 32 px gives the paper's
four layers, 64 px five, 8 px two; the width doubles with every layer up to eight times the first.

Images are float tensors in [−1, 1] here. Unit length and precision are added around any pair of networks by `wrappers`.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn

from ictrl.errors import ConfigError
from ictrl.nets.layers import Double, FromFeature, FromImage, Halve, ToFeature, ToImage, initialise
from ictrl.shapes import Float

IMAGE_SIZES = (8, 16, 32, 64, 128, 256)


class Encoder(nn.Module):
    """Images (n, channels, side, side) to features (n, d), not yet of unit length."""

    casts = True  # its layers work in the precision of what comes in

    def __init__(
        self, image_size: int, channels: int, width: int, feature_dim: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        widths = layer_widths(image_size, width)
        halves = (Halve(below, above) for below, above in pairwise(widths))
        self.layers = nn.Sequential(FromImage(channels, widths[0]), *halves, ToFeature(widths[-1], feature_dim))
        initialise(self, generator)

    def forward(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        return self.layers(X)

    def stages(self, X: Float[Tensor, "n c h w"]) -> list[Tensor]:
        """The activations after each halving, from the image to 4×4: what wide features are made of."""
        found: list[Tensor] = []
        for layer in list(self.layers)[:-1]:
            X = layer(X)
            found.append(X)
        return found

    def from_stages(self, stages: list[Tensor]) -> Float[Tensor, "n d"]:
        """The features of images of which these are the stages."""
        return self.layers[-1](stages[-1])


class Decoder(nn.Module):
    """Features (n, d) to images (n, channels, side, side) in [−1, 1]."""

    casts = True

    def __init__(
        self, image_size: int, channels: int, width: int, feature_dim: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        widths = layer_widths(image_size, width)[::-1]
        doubles = (Double(below, above) for below, above in pairwise(widths))
        self.layers = nn.Sequential(FromFeature(feature_dim, widths[0]), *doubles, ToImage(widths[-1], channels))
        initialise(self, generator)

    def forward(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n c h w"]:
        return self.layers(Z)


def layer_widths(image_size: int, width: int) -> list[int]:
    """Channels after each halving, from the image down to 4×4."""
    if image_size not in IMAGE_SIZES:
        raise ConfigError(f"Expected image_size to be one of {IMAGE_SIZES} but got {image_size}: resize the images.")
    halvings = image_size.bit_length() - 3  # 32 -> 3
    return [width * 2 ** min(i, 3) for i in range(halvings)]
