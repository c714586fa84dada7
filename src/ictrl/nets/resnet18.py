"""ResNet-18 as papers on continual learning have it for CIFAR: 11.17 million parameters, 512 features.

A 3×3 convolution next to the image without pooling after it, four stages of two basic blocks, 64 to 512 channels wide;
every stage after the first halves the side. BatchNorm follows every convolution, that of a shortcut too:

    a  →  ReLU(BN(conv(ReLU(BN(conv a)))) + shortcut a).

The features are the means of the last stage's channels, none below 0, and no layer follows: there are eight times as
many as the width (He et al., *Deep Residual Learning for Image Recognition*, CVPR 2016). Pictures above 32 px are
reduced to 32 by the first convolution, which then has a larger kernel; smaller ones end at less than 4×4.
"""

import torch
from torch import Tensor, nn

from ictrl.errors import ConfigError
from ictrl.nets.layers import Convolution, normalise
from ictrl.nets.residual import MOST_STAGES, initialise_he, stages_of, stem_stride, through
from ictrl.shapes import Float

NO_RELU = 1.0  # the slope below 0 that leaves numbers as they are


class _Normed(nn.Module):
    """A convolution and its BatchNorm."""

    def __init__(self, below: int, above: int, stride: int, kernel: int) -> None:
        super().__init__()
        self.conv, self.norm = Convolution(below, above, stride, kernel // 2, kernel), nn.BatchNorm2d(above)

    def forward(self, a: Float[Tensor, "n c h w"], slope: float = NO_RELU) -> Tensor:
        return normalise(self.conv(a), self.norm, slope)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions around a shortcut, which is a 1×1 convolution where shapes change."""

    def __init__(self, below: int, above: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _Normed(below, above, stride, kernel=3), _Normed(above, above, 1, kernel=3)
        changes = below != above or stride != 1
        self.shortcut = _Normed(below, above, stride, kernel=1) if changes else nn.Identity()

    def forward(self, a: Float[Tensor, "n c h w"]) -> Tensor:
        return (self.second(self.first(a, slope=0.0)) + self.shortcut(a)).relu_()


class ResNet18(nn.Module):
    """Images (n, channels, side, side) to features (n, 8 · width), none below 0."""

    casts = True

    def __init__(
        self, image_size: int, channels: int, width: int, feature_dim: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        stride, last = stem_stride(image_size), width * 2 ** (MOST_STAGES - 1)
        if feature_dim != last:
            raise ConfigError(
                f"Expected network.feature_dim to be eight times network.width ({width}) with resnet18, which has no "
                f"layer after pooling, but got {feature_dim}: set network.feature_dim to {last}, or network.kind to "
                '"resnet", which has one.'
            )
        self.stem = _Normed(channels, width, stride, kernel=2 * stride + 1)
        self.parts = stages_of(BasicBlock, width, MOST_STAGES)
        initialise_he(self, generator)

    def forward(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        return self.stages(X)[-1].mean((2, 3))

    def stages(self, X: Float[Tensor, "n c h w"]) -> list[Tensor]:
        """The activations after each of the four stages."""
        a = self.stem(X.contiguous(memory_format=torch.channels_last), slope=0.0)
        return through(self.parts, a)
