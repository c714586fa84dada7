"""Pixels scaled channel by channel before a network sees them, as most papers on CIFAR have it.

    x ↦ (x − mean) / deviation,

each channel with a mean and a deviation of its own, as shares of white. They are settings, not learned and not kept.
"""

import torch
from torch import Tensor, nn

from ictrl.nets.wrappers import run_stages
from ictrl.shapes import Float


class Scaled(nn.Module):
    """A network of ours behind scaled pixels; it takes images in [−1, 1], as without."""

    casts = True
    middle: Tensor
    span: Tensor

    def __init__(self, network: nn.Module, means: tuple[float, ...], deviations: tuple[float, ...]) -> None:
        super().__init__()
        self.network = network
        for name, values in (("middle", [2 * mean - 1 for mean in means]), ("span", [2 * d for d in deviations])):
            self.register_buffer(name, torch.tensor(values).view(-1, 1, 1), persistent=False)

    def forward(self, X: Float[Tensor, "n c h w"]) -> Tensor:
        return self.network(self._scaled(X))

    def stages(self, X: Float[Tensor, "n c h w"]) -> list[Tensor]:
        """The activations of the network's stages."""
        return run_stages(X.dtype, self.network, self._scaled(X))

    def _scaled(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
        return ((X.float() - self.middle) / self.span).to(X.dtype)
