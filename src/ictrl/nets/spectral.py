"""A critic under spectral normalisation: no layer stretches what it is given by more than one.

Every weight is divided by its largest singular value, which one step of power iteration per pass follows (Miyato et
al., *Spectral Normalization for Generative Adversarial Networks*, ICLR 2018). The critic is told the class of an image
by a code, and adds to the score of a real image how well it goes with that class (the projection of Miyato and Koyama,
*cGANs with Projection Discriminator*, ICLR 2018):

    D(x, c) = w · h(x) + (V c) · h(x),      h the sum over the last map.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import leaky_relu, normalize

from ictrl.nets.dcgan import layer_widths
from ictrl.nets.layers import LEAK, Convolution
from ictrl.shapes import Float


class SpectralNorm(nn.Module):
    """The largest singular value of a weight, as rows × everything else."""

    u: Tensor

    def __init__(self, rows: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.register_buffer("u", normalize(torch.randn(rows, generator=generator), dim=0))

    def forward(self, weight: Float[Tensor, "o *i"]) -> Float[Tensor, "o *i"]:
        """The weight divided by it; in training mode the estimate is improved by one step."""
        matrix = weight.flatten(1)
        with torch.no_grad():
            v = normalize(self.u @ matrix, dim=0)
            if self.training:
                self.u.copy_(normalize(matrix @ v, dim=0))
            u = self.u.clone()  # the next pass changes it, before this one's gradient is known
        return weight / (u @ matrix @ v)


class SpectralConvolution(Convolution):
    """Without a bias; what comes out of it is no longer than what went in, but for the windows' overlap."""

    def __init__(
        self, below: int, above: int, kernel: int, stride: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(below, above, stride=stride, padding=1, kernel=kernel)
        nn.init.orthogonal_(self.weight, generator=generator)
        self.largest = SpectralNorm(above, generator)

    def forward(self, H: Float[Tensor, "n c h w"]) -> Tensor:
        weight = self.largest(self.weight).to(H.dtype)
        return functional.conv2d(H, weight, stride=self.stride, padding=self.padding)


class SpectralCritic(nn.Module):
    """Images (n, channels, side, side) in [−1, 1] and codes (n, m) to scores (n), in float32."""

    casts = True

    def __init__(
        self, image_size: int, channels: int, width: int, code: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        widths = layer_widths(image_size, width)
        widths = [*widths, min(2 * widths[-1], 8 * width)]  # one for every side, from the image's down to 4
        layers = [SpectralConvolution(channels, widths[0], 3, 1, generator)]
        layers += [SpectralConvolution(below, above, 4, 2, generator) for below, above in pairwise(widths)]
        layers += [SpectralConvolution(widths[-1], widths[-1], 3, 1, generator)]
        self.layers = nn.ModuleList(layers)
        self.weight = nn.Parameter(normalize(torch.randn(1, widths[-1], generator=generator), dim=1))
        self.of_codes = nn.Parameter(torch.randn(widths[-1], code, generator=generator) / widths[-1] ** 0.5)
        self.norms = nn.ModuleList([SpectralNorm(1, generator), SpectralNorm(widths[-1], generator)])
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def features(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n m"]:
        """What is seen of an image, the whole last map added up."""
        for layer in self.layers:
            X = leaky_relu(layer(X), LEAK)
        return X.float().sum((2, 3))

    def forward(self, X: Float[Tensor, "n c h w"], codes: Float[Tensor, "n e"]) -> Float[Tensor, " n"]:
        h = self.features(X)
        weights = self.norms[0](self.weight) + codes.float() @ self.norms[1](self.of_codes).T
        return (h * weights).sum(1)
