"""A multilayer perceptron as papers on continual learning have it for MNIST: two hidden layers, no convolution.

    f(x) = ReLU(W₂ ReLU(W₁ x + b₁) + b₂),

x the pixels of an image in one row, from 0 (black) to 1, so that a black border changes nothing. The first layer has
`width` units and the second, whose activations are the features, `feature_dim`; none is below 0 (Lopez-Paz and Ranzato,
*Gradient Episodic Memory for Continual Learning*, NeurIPS 2017: 100 units each). Weights begin as Glorot's, uniform
within ±√(6 / (inputs + outputs)), and biases at 0.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ictrl.shapes import Float


class Dense(nn.Linear):
    """A linear layer in the precision of what comes in."""

    def reset_parameters(self) -> None:
        """Left to `Perceptron`, whose numbers come from the caller's generator and not from the global one."""

    def forward(self, a: Float[Tensor, "n below"]) -> Float[Tensor, "n above"]:
        return linear(a, self.weight.to(a.dtype), self.bias.to(a.dtype))


class Perceptron(nn.Module):
    """Images (n, channels, side, side) to features (n, feature_dim), none below 0."""

    casts = True
    no_stages = 'Expected network.kind "dcgan", "resnet" or "resnet18" where stages are read but got "mlp".'

    def __init__(
        self, image_size: int, channels: int, width: int, feature_dim: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.first, self.second = Dense(channels * image_size**2, width), Dense(width, feature_dim)
        for layer in (self.first, self.second):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)

    def forward(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        pixels = (X.flatten(1) + 1) / 2
        return self.second(self.first(pixels).relu()).relu()
