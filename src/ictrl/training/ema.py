"""EMA: the exponential moving average of networks' weights over the last steps.

A game has no end at which gradients vanish; its players circle around one. A running mean of their weights lies closer
to it than either of their last moves, and moves less from task to task.
"""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn


class EMA:
    """An exponential moving average of networks' weights that reaches back about `horizon` steps."""

    def __init__(self, networks: tuple[nn.Module, ...], horizon: float) -> None:
        self.weights = [parameter.detach() for network in networks for parameter in network.parameters()]
        self.means = [weight.clone() for weight in self.weights]
        self.share = 1 - math.exp(-1 / horizon)

    def add(self) -> None:
        """The weights as they are after a step."""
        for mean, weight in zip(self.means, self.weights):
            mean.lerp_(weight, self.share)

    def take(self) -> None:
        """Put the means in the weights' place."""
        for mean, weight in zip(self.means, self.weights):
            weight.copy_(mean)

    def state(self) -> dict[str, Tensor]:
        return {str(i): mean for i, mean in enumerate(self.means)}

    def load(self, state: dict[str, Tensor]) -> None:
        """The inverse; KeyError or RuntimeError if these are the means of other networks."""
        for i, mean in enumerate(self.means):
            mean.copy_(state[str(i)])


@torch.no_grad()
def refresh_batchnorm(encoder: nn.Module, batches: Iterable[Tensor], decoder: nn.Module | None = None) -> None:
    """BatchNorm's statistics of weights that no batch has passed through yet, as means over these batches.

    With a decoder, the encoder sees images and what the decoder makes of them, as in the game. Both networks are in
    training mode.
    """
    norms = [
        [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)] if network is not None else []
        for network in (encoder, decoder)
    ]
    momenta = [[norm.momentum for norm in group] for group in norms]

    def seen(group: list[nn.BatchNorm2d], batches: int) -> None:
        for norm in group:
            norm.momentum = 1 / batches  # so that all of them weigh alike

    shown = 1 if decoder is None else 2  # sets of images that the encoder sees per batch
    for i, X in enumerate(batches):
        seen(norms[0], shown * i + 1)
        seen(norms[1], i + 1)
        Z = encoder(X)
        if decoder is not None:
            X_hat = decoder(Z)
            seen(norms[0], shown * i + 2)
            encoder(X_hat)
    for group, kept in zip(norms, momenta):
        for norm, momentum in zip(group, kept):
            norm.momentum = momentum
