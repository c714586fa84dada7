"""An autoencoder of features with a linear classifier on its code: FearNet's long-term memory."""

import torch
from torch import Tensor, nn
from torch.nn.functional import elu
from torch.nn.utils import skip_init

from ictrl.nets.head import LinearHead
from ictrl.shapes import Float


class Cortex(nn.Module):
    """d numbers to a code and back, through a hidden layer on each side, ELU between them."""

    def __init__(self, d: int, hidden: int, code: int, generator: torch.Generator) -> None:
        super().__init__()
        sizes = ((d, hidden), (hidden, code), (code, hidden), (hidden, d))
        layers = [skip_init(nn.Linear, *size, device=generator.device) for size in sizes]
        with torch.no_grad():
            for layer in layers:
                layer.weight.normal_(0.0, layer.in_features**-0.5, generator=generator)
                layer.bias.zero_()
        self.first, self.second, self.third, self.fourth = layers
        self.head = LinearHead(code)

    def hidden(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n h"]:
        return elu(self.first(Z))

    def code(self, hidden: Float[Tensor, "n h"]) -> Float[Tensor, "n c"]:
        return elu(self.second(hidden))

    def hidden_again(self, code: Float[Tensor, "n c"]) -> Float[Tensor, "n h"]:
        return elu(self.third(code))

    def forward(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        """The code of features."""
        return self.code(self.hidden(Z))

    def decode(self, code: Float[Tensor, "n c"]) -> Float[Tensor, "n d"]:
        """The features that a code stands for."""
        return self.fourth(self.hidden_again(code))
