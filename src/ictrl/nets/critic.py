"""The networks of generative adversarial methods that are not the paper's: a critic, and codes of classes.

The critic has the encoder's layers and tells drawn images from real ones by one number, and classes, where it is asked
to, by a linear head on what it sees. Its layers are plain PyTorch: a gradient penalty differentiates them twice.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from ictrl.nets.dcgan import layer_widths
from ictrl.nets.layers import LEAK, Convolution, ToFeature, initialise
from ictrl.shapes import Float, Int


class Critic(nn.Module):
    """Images (n, channels, side, side) in [−1, 1] to d features; the score of an image is a sum of these, weighted.

    With `normed`, BatchNorm follows every convolution but the first, as in DCGAN. A gradient penalty wants a gradient
    for each image by itself, which BatchNorm does not have: without, weights begin as He et al. have them.
    """

    def __init__(
        self,
        image_size: int,
        channels: int,
        width: int,
        feature_dim: int,
        normed: bool,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        widths = layer_widths(image_size, width)
        self.convolutions = nn.ModuleList(Convolution(*pair) for pair in pairwise([channels, *widths]))
        self.norms = nn.ModuleList(nn.BatchNorm2d(above) for above in widths[1:] if normed)
        self.last = ToFeature(widths[-1], feature_dim)
        self.weight = nn.Parameter(torch.empty(feature_dim))
        initialise(self, generator)
        if not normed:
            for layer in (*self.convolutions, self.last):
                nn.init.kaiming_normal_(layer.weight, LEAK, generator=generator)
        nn.init.normal_(self.weight, 0.0, feature_dim**-0.5, generator=generator)

    def forward(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        for i, convolution in enumerate(self.convolutions):
            X = convolution(X)
            X = leaky_relu(self.norms[i - 1](X) if self.norms and i else X, LEAK)
        return leaky_relu(self.last(X), LEAK)

    def score(self, features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """How real an image of these features looks; there is no bias, which a difference of scores would not have."""
        return features @ self.weight


class Codes(nn.Module):
    """A code of c numbers for each class, learned with the decoder that is told it."""

    def __init__(self, numbers: int, classes: int = 0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(classes, numbers))

    def forward(self, rows: Int[Tensor, " n"]) -> Float[Tensor, "n c"]:
        """By a product with one-hot rows, whose gradient can be recorded and is the same every time."""
        there = rows[:, None] == torch.arange(len(self.weight), device=rows.device)
        return there.to(self.weight.dtype) @ self.weight

    def grown(self, classes: int, generator: torch.Generator) -> "Codes":
        """With codes of so many classes: these, then new ones drawn from N(0, 1), as noise is."""
        codes = Codes(self.weight.shape[1], classes).to(self.weight.device)
        with torch.no_grad():
            codes.weight.normal_(generator=generator)
            codes.weight[: len(self.weight)] = self.weight
        return codes

    def without(self, row: int) -> "Codes":
        """Less one class."""
        codes = Codes(self.weight.shape[1], len(self.weight) - 1).to(self.weight.device)
        with torch.no_grad():
            codes.weight.copy_(torch.cat([self.weight[:row], self.weight[row + 1 :]]))
        return codes
