"""Small networks that learn features, so quickly that no task is stopped there and no epoch reported."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ictrl.errors import ConfigError, NonFiniteError
from ictrl.nets.layers import exact_float32
from ictrl.shapes import Float, Int
from ictrl.training.graphs import Captured, side_stream
from ictrl.training.loader import Batches
from ictrl.training.players import adam


@dataclass(frozen=True)
class OnFeaturesConfig:
    """How a network learns features, by Adam."""

    epochs: int = 100
    """passes over the features"""
    batch: int = 128
    """features per step, at most"""
    learning_rate: float = 2e-3
    """of Adam"""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch"):
            if getattr(self, name) < 1:
                raise ConfigError(f"Expected {name} to be at least 1 but got {getattr(self, name)}.")
        if not 0 < self.learning_rate < float("inf"):
            raise ConfigError(f"Expected learning_rate to be above 0 but got {self.learning_rate}.")


def learn_features(
    network: nn.Module,
    loss: Callable[[Int[Tensor, " m"]], Float[Tensor, ""]],
    n: int,
    config: OnFeaturesConfig,
    generator: torch.Generator,
) -> None:
    """Go down a loss of so many features, which is told the places of those in a step."""
    device = generator.device
    optimiser = adam(network, config.learning_rate, (0.9, 0.999))
    batches, total = Batches(n, config.batch, generator, device), torch.zeros((), device=device)

    def step(rows: Tensor) -> None:
        found = loss(rows)
        optimiser.zero_grad()
        found.backward()
        optimiser.step()
        total.add_(found.detach())

    with side_stream(device), exact_float32(), Captured(step, generator, device) as captured:
        for _ in range(config.epochs):
            batches.shuffle()
            for rows in batches.rows:
                captured(rows)
    if not bool(total.isfinite()):
        raise NonFiniteError("Expected a finite loss on features but it is not: lower its learning_rate.")
