"""An adapter: a network from the features of before to those of now, and Gaussians that are moved through it.

What a class's features have become cannot be seen without its images. But how features of new images have moved can,
and an adapter that learns it says where those of old classes should be by now: features are drawn from the Gaussian
that was kept, moved, and a new Gaussian is formed of them.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.nn.utils import clip_grad_norm_

from ictrl.errors import ConfigError
from ictrl.nets.layers import exact_float32
from ictrl.nets.mlp import mlp
from ictrl.shapes import Float
from ictrl.theory.collapse import anti_collapse
from ictrl.theory.statistics import ClassStatistics, spectrum
from ictrl.training.graphs import Captured, side_stream
from ictrl.training.loader import Batches
from ictrl.training.players import sgd
from ictrl.training.schedule import learning_rate, set_learning_rate

LONGEST_GRADIENT = 1.0
MOMENTUM, WEIGHT_DECAY = 0.9, 5e-4


@dataclass(frozen=True)
class AdapterConfig:
    """How the adapter is trained, and how many features move a Gaussian."""

    epochs: int = 100
    """passes over the features of a task"""
    batch: int = 256
    """features per step, at most"""
    learning_rate: float = 0.01
    """of SGD, falling to 0 along half a cosine"""
    samples: int = 10_000
    """features drawn from the Gaussian of each old class"""

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch", 1), ("samples", 2)):
            if getattr(self, name) < least:
                raise ConfigError(f"Expected adapter.{name} to be at least {least} but got {getattr(self, name)}.")
        if not 0 < self.learning_rate < float("inf"):
            raise ConfigError(f"Expected adapter.learning_rate to be above 0 but got {self.learning_rate}.")


def train_adapter(
    before: Float[Tensor, "n d"],
    now: Float[Tensor, "n d"],
    hidden: int,
    collapse: float,
    config: AdapterConfig,
    generator: torch.Generator,
) -> nn.Module:
    """A network from features of before to those of now: mean squared error, and what collapse weighs."""
    n, d = before.shape
    adapter = mlp(d, hidden, d, generator)
    optimiser = sgd(adapter, config.learning_rate, MOMENTUM, WEIGHT_DECAY)
    optimiser.register_step_pre_hook(clip_gradients)
    batches = Batches(n, config.batch, generator, before.device)

    def step(rows: Tensor) -> None:
        moved = adapter(before[rows])
        loss = mse_loss(moved, now[rows])
        if collapse:
            loss = loss + collapse * anti_collapse(moved)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    device = before.device
    with side_stream(device), exact_float32(), Captured(step, generator, device) as captured:
        for epoch in range(1, config.epochs + 1):
            set_learning_rate(optimiser, learning_rate(config.learning_rate, epoch, config.epochs, "cosine", 0))
            batches.shuffle()
            for rows in batches.rows:
                captured(rows)
    return adapter.requires_grad_(False)


def moved_gaussian(
    mean: Float[Tensor, " d"],
    covariance: Float[Tensor, "d d"],
    adapter: nn.Module,
    samples: int,
    generator: torch.Generator,
) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
    """Mean and covariance of features that are drawn from a Gaussian and moved by the adapter."""
    values, vectors = spectrum(covariance)
    noise = torch.randn(samples, len(mean), generator=generator, device=mean.device, dtype=mean.dtype)
    with torch.no_grad(), exact_float32():
        moved = adapter(mean + (noise * values.clamp(min=0).sqrt()) @ vectors.T)
    found = ClassStatistics.of(moved)
    return found.mean, found.covariance


def clip_gradients(optimiser: torch.optim.Optimizer, *_: Any) -> None:
    """Before a step: no gradient is longer than 1, since that of a covariance near collapse has no bound."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    clip_grad_norm_(parameters, LONGEST_GRADIENT)
