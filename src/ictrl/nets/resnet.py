"""A residual encoder, wider and deeper than the paper's: ResNet-18's plan for small pictures.

A convolution next to the image, then stages of two blocks each; every stage after the first halves the side and doubles
the width, until the side is 4 (at most four stages; pictures above 32 px are reduced to 32 by the first convolution).
A block is

    a  →  ReLU(BN(conv(ReLU(BN(conv a))) + shortcut a)),

with one BatchNorm after the sum, so that each of its passes is one kernel on a GPU.
"""

import torch
from torch import Tensor, nn

from ictrl.nets.layers import Convolution, normalise
from ictrl.nets.residual import MOST_STAGES, initialise_he, stages_of, stem_stride, through
from ictrl.shapes import Float


class Block(nn.Module):
    """Two 3×3 convolutions around a shortcut."""

    def __init__(self, below: int, above: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = Convolution(below, above, stride, 1, kernel=3), nn.BatchNorm2d(above)
        self.conv2, self.norm2 = Convolution(above, above, 1, 1, kernel=3), nn.BatchNorm2d(above)
        changes = below != above or stride != 1
        self.shortcut = Convolution(below, above, stride, 0, kernel=1) if changes else nn.Identity()

    def forward(self, a: Float[Tensor, "n c h w"]) -> Tensor:
        h = self.conv2(normalise(self.conv1(a), self.norm1, 0.0))
        return normalise(h + self.shortcut(a), self.norm2, 0.0)


class ResNet(nn.Module):
    """Images (n, channels, side, side) to features (n, d), not yet of unit length."""

    casts = True

    def __init__(
        self, image_size: int, channels: int, width: int, feature_dim: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        stride = stem_stride(image_size)
        stages = min(MOST_STAGES, (image_size // stride).bit_length() - 2)  # 32 -> 4, 8 -> 2
        self.stem = Convolution(channels, width, stride, stride, kernel=2 * stride + 1)
        self.norm = nn.BatchNorm2d(width)
        self.parts = stages_of(Block, width, stages)
        self.last = nn.Parameter(torch.empty(feature_dim, width * 2 ** (stages - 1)))
        initialise_he(self, generator)
        nn.init.normal_(self.last, 0.0, self.last.shape[1] ** -0.5, generator=generator)

    def forward(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        return self.from_stages(self.stages(X))

    def from_stages(self, stages: list[Tensor]) -> Float[Tensor, "n d"]:
        """The features of images of which these are the stages."""
        return stages[-1].mean((2, 3)) @ self.last.to(stages[-1].dtype).T

    def stages(self, X: Float[Tensor, "n c h w"]) -> list[Tensor]:
        """The activations after each stage, the last of them 4×4."""
        a = normalise(self.stem(X.contiguous(memory_format=torch.channels_last)), self.norm, 0.0)
        return through(self.parts, a)
