"""A linear classifier that grows with the classes."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


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
