"""cls_er: a network that learns, and two slower ones beside it, plastic and stable, that say what to hold on to.

    loss = CE(W f(x), y) + λ ‖W f(x′) − ℓ′‖²   over new and replayed images; x′ replayed ones,

ℓ′ the logits of the plastic or the stable network, whichever gives the class of x′ the higher probability. Both are
moving averages of the network's weights, θ̄ ← α θ̄ + (1 − α) θ, updated at random in a share of the steps, the plastic
one more often; the stable one predicts (Arani, Sarfraz and Zonooz, *Learning Fast, Learning Slow: A General Continual
Learning Method based on Complementary Learning System*, ICLR 2022). Both are kept from task to task, and count as
parameters: three networks instead of one.

Settings: the authors' for CIFAR-10 with 500 images: SGD at 0.1, λ 0.15, α 0.999 for both, updates in 0.9 (plastic) and
0.1 (stable) of the steps, 50 epochs of each task, 32 new and 32 old images in a step, crops and mirror. The averages'
BatchNorm has the statistics of the replayed images that they see, as in the authors' code. An average reaches back
1 / (chance · (1 − α)) steps, 10,000 for the stable one: where a whole stream has fewer, it lags and predicts badly.
The rate is for a ResNet-18; with the dcgan encoder, digits diverged at 0.1 and did not at 0.03.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ictrl.config import StageConfig
from ictrl.errors import ConfigError
from ictrl.memory.buffer import EMPTY
from ictrl.methods.checks import check_chance
from ictrl.methods.rehearsal import RehearsalConfig, RehearsalLearner
from ictrl.methods.supervised import Seen, sgd_stage
from ictrl.nets.layers import exact_float32
from ictrl.nets.wrappers import run_in, to_float
from ictrl.shapes import Float, UInt8
from ictrl.training.replay import frozen_copy
from ictrl.training.state import TrainingState
from ictrl.training.task import chunks


@dataclass(frozen=True)
class AverageConfig:
    """A moving average of the network's weights."""

    chance: float
    """share of the steps after which it is updated"""
    decay: float = 0.999
    """α, how much of it remains then; less in the first steps, when it is 1 − 1/(t + 1)"""


@dataclass(frozen=True)
class CLSERConfig(RehearsalConfig):
    """Replayed images, held to the better one of two moving averages of the network."""

    name: ClassVar[str] = "cls_er"

    stage: StageConfig = field(default_factory=lambda: sgd_stage(epochs=50, batch=32, learning_rate=0.1))
    """every task"""
    consistency: float = 0.15
    """λ, weight of the distance to the averages' logits"""
    plastic: AverageConfig = field(default_factory=lambda: AverageConfig(chance=0.9))
    stable: AverageConfig = field(default_factory=lambda: AverageConfig(chance=0.1))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.consistency < float("inf"):
            raise ConfigError(f"Expected consistency to be at least 0 but got {self.consistency}.")
        for name in ("plastic", "stable"):
            for part, value in vars(getattr(self, name)).items():
                check_chance(f"{name}.{part}", value)


class Average(nn.Module):
    """Encoder and head, their weights a moving average of those of others."""

    steps: Tensor

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = frozen_copy(encoder), frozen_copy(head)
        self.register_buffer("steps", torch.zeros((), device=next(encoder.parameters()).device))
        self.eval()

    def grown(self, head: nn.Module) -> "Average":
        """With a head as large as this one: the rows it has, and the other head's for the new classes."""
        found, old = Average(self.encoder, head), len(next(self.head.parameters()))
        found.steps.copy_(self.steps)
        for mine, other in zip(found.head.parameters(), self.head.parameters()):
            mine[:old] = other
        return found

    def without(self, row: int) -> "Average":
        """Less a row of its head."""
        found = Average(self.encoder, self.head.without(row))  # type: ignore[operator]
        found.steps.copy_(self.steps)
        return found

    @torch.no_grad()
    def update(self, weights: list[nn.Parameter], config: AverageConfig, generator: torch.Generator) -> None:
        """θ̄ ← α θ̄ + (1 − α) θ with this chance; α is at most 1 − 1/(t + 1) in step t."""
        self.steps += 1
        die = torch.rand((), generator=generator, device=self.steps.device)
        share = torch.where(die < config.chance, (1 / (self.steps + 1)).clamp(min=1 - config.decay), 0.0)
        for mean, weight in zip(self.parameters(), weights):
            mean.lerp_(weight, share)


class CLSER(RehearsalLearner):
    """Complementary learning systems with experience replay."""

    settings_type = CLSERConfig
    predicts_by = ("stable",)

    def build(self, initial: torch.Generator) -> TrainingState:
        state = super().build(initial)
        encoder, head = state.networks["encoder"], state.networks["head"]
        return beside(state, {name: Average(encoder, head) for name in ("plastic", "stable")})

    def resize(self, classes: int) -> None:
        averages = self.averages
        super().resize(classes)
        self._state = beside(self._state, {name: average.grown(self.head) for name, average in averages.items()})

    def drop_row(self, row: int) -> None:
        averages = {name: average.without(row) for name, average in self.averages.items()}
        super().drop_row(row)
        self._state = beside(self._state, {name: average.grown(self.head) for name, average in averages.items()})

    @property
    def averages(self) -> dict[str, Average]:
        return {name: part for name, part in self._state.networks.items() if isinstance(part, Average)}

    def train(self, *args: Any, **kwargs: Any) -> None:
        for average in self.averages.values():  # their BatchNorm learns
            average.train()
        super().train(*args, **kwargs)
        for average in self.averages.values():
            average.eval()

    def said_by(self, average: Average, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """An average's logits."""
        with torch.no_grad():
            return average.head(run_in(self._precision, average.encoder, X).float())

    def loss(self, seen: Seen, working: Mapping[str, nn.Module]) -> dict[str, Tensor]:
        settings: Any = self.settings
        old = self.replayed(seen, working)
        X_old = self.shown(old.images, settings.stage.augmentation)
        plastic, stable = (self.said_by(self.averages[name], X_old) for name in ("plastic", "stable"))
        wanted = better(plastic, stable, old.rows.clamp(min=0))
        # a pass of their own, as the authors have it: BatchNorm sees replayed images apart, as the averages' does
        apart = (self.logits(X_old) - wanted).square().mean(1)
        logits = self.logits(torch.cat([seen.X, X_old]))
        return {
            "cross_entropy": cross_entropy(logits, torch.cat([seen.rows, old.rows]), ignore_index=EMPTY),
            "consistency": settings.consistency * (apart * old.there).sum() / old.there.sum().clamp(min=1),
        }

    def after_step(self, seen: Seen, working: Mapping[str, nn.Module]) -> None:
        super().after_step(seen, working)
        for name, average in self.averages.items():
            average.update(self.trained, getattr(self.settings, name), self._state.generator)

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """Log-posteriors of the stable network."""
        stable = self.averages["stable"]
        with exact_float32():
            logits = [self.said_by(stable, to_float(part.to(self.device))) for part in chunks(X)]
        return self.posteriors(torch.cat(logits))


def better(one: Float[Tensor, "n k"], other: Float[Tensor, "n k"], rows: Tensor) -> Float[Tensor, "n k"]:
    """Of two networks' logits of each image those that give its class the higher probability."""
    first, second = (logits.log_softmax(1).gather(1, rows[:, None]) for logits in (one, other))
    return torch.where(second > first, other, one)


def beside(state: TrainingState, averages: Mapping[str, nn.Module]) -> TrainingState:
    """A state with networks that no optimiser moves."""
    return TrainingState({**state.networks, **averages}, state.optimisers, state.generator)
