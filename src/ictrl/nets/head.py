"""Heads on top of an encoder's features: a linear classifier that grows, a projector."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import skip_init


class LinearHead(nn.Module):
    """logits = W f + b, a row of W per class."""

    def __init__(self, feature_dim: int, classes: int = 0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(classes, feature_dim))
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        return features @ self.weight.T + self.bias

    def grown(self, classes: int, generator: torch.Generator) -> "LinearHead":
        """A head of so many classes: the rows of this one, then new ones drawn from N(0, 1/d)."""
        old, d = self.weight.shape
        head = LinearHead(d, classes).to(self.weight.device)
        with torch.no_grad():
            head.weight.normal_(0.0, d**-0.5, generator=generator)
            head.weight[:old], head.bias[:old] = self.weight, self.bias
        return head


def projector_head(d: int, hidden: int, out: int, generator: torch.Generator) -> nn.Sequential:
    """Two linear layers with BatchNorm and ReLU between them, for losses that are thrown away with it.

    Weights come from the generator given, on its device, and not from the global one.
    """
    device = generator.device
    first, last = skip_init(nn.Linear, d, hidden, device=device), skip_init(nn.Linear, hidden, out, device=device)
    with torch.no_grad():
        for layer in (first, last):
            layer.weight.normal_(0.0, layer.in_features**-0.5, generator=generator)
            layer.bias.zero_()
    return nn.Sequential(first, nn.BatchNorm1d(hidden, device=device), nn.ReLU(), last)
