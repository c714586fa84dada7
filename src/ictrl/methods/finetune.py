"""finetune: the encoder and a linear head learn every task by cross-entropy, with nothing to protect the old ones.

The loss of a task is −log softmax(W f(x))_y over all classes seen so far, on images of the new classes alone. Nothing
is kept besides the networks, and nearly everything old is forgotten: the lower bound of class-incremental learning.

Settings: ours. Each task has its own Adam and trains BatchNorm in the ordinary way.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ictrl.config import MethodConfig, StageConfig, used_later
from ictrl.errors import ConfigError
from ictrl.methods.base import Kept, Learner
from ictrl.nets.families import encoder_of
from ictrl.nets.head import LinearHead
from ictrl.nets.layers import exact_float32
from ictrl.nets.wrappers import precision_of, run_in, to_float
from ictrl.training.augmentation import draw
from ictrl.training.ema import refresh_batchnorm
from ictrl.training.loader import Batches, ImageSource
from ictrl.training.loop import TaskHooks, run_epochs
from ictrl.training.players import adam
from ictrl.training.profiler import untimed
from ictrl.training.state import TrainingState
from ictrl.training.task import CHUNK


def check_stage(name: str, stage: StageConfig) -> None:
    """Refuse what only the game has."""
    if stage.batch == "rule":
        raise ConfigError(f'Expected {name}.batch to be a number but got "rule", which is a rule of i-CTRL.')
    if stage.augmentation.rotations:
        raise ConfigError(f"Expected {name}.augmentation.rotations to be false: a head has no rows for rotations.")


@dataclass(frozen=True)
class FinetuneConfig(MethodConfig):
    """Cross-entropy on each task, without protection."""

    name: ClassVar[str] = "finetune"

    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    """of the convolutions; auto: bfloat16 on a GPU, float32 elsewhere"""
    first: StageConfig = field(default_factory=lambda: StageConfig(epochs=40, batch=128, learning_rate=1e-3, ema=0.0))
    later: StageConfig = used_later(StageConfig(epochs=40, batch=128, learning_rate=1e-3, ema=0.0))

    def __post_init__(self) -> None:
        check_stage("first", self.first)
        check_stage("later", self.later)


class CrossEntropyLearner(Learner[Kept]):
    """An encoder and a linear head that grows with the classes; rows of the head are in the order of learning."""

    def build(self, initial: torch.Generator) -> TrainingState:
        self._precision = precision_of(self.settings.precision, self.device)
        return self._networks(initial, torch.Generator(self.device).manual_seed(self.seed))

    def _networks(self, initial: torch.Generator, generator: torch.Generator) -> TrainingState:
        """New ones, with a head for no class yet."""
        network = self.recipe.method.network
        encoder = encoder_of(network, initial).to(self.device).eval()
        return self._with_head(encoder, LinearHead(network.feature_dim), generator)

    def _with_head(self, encoder: nn.Module, head: nn.Module, generator: torch.Generator) -> TrainingState:
        networks: dict[str, nn.Module] = {"encoder": encoder, "head": head.to(self.device).eval()}
        optimiser = adam(nn.ModuleDict(networks), 1e-3, (0.9, 0.999))
        return TrainingState(networks, {"network": optimiser}, generator)

    def resize(self, classes: int) -> None:
        """A head of so many rows: those it has, and new ones drawn at random."""
        head, generator = self._state.networks["head"], self._state.generator
        assert isinstance(head, LinearHead)
        self._state = self._with_head(self._state.networks["encoder"], head.grown(classes, generator), generator)

    def train(self, X: Tensor, rows: Int[Tensor, " n"], stage: StageConfig, hooks: TaskHooks) -> None:
        """Cross-entropy on images whose classes are given as rows of the head."""
        state, device = self._state, self.device
        encoder, head = state.networks["encoder"], state.networks["head"]
        source = ImageSource(X, device)
        assert stage.batch != "rule"
        batches = Batches(len(source), stage.batch, state.generator, device)
        optimiser = state.optimisers["network"]

        lap = hooks.profiler.lap if hooks.profiler is not None else untimed

        def step(chosen: Tensor, *sent: Tensor) -> dict[str, Tensor]:
            with lap("images"):
                drawn = draw(stage.augmentation, chosen, state.generator)
                images = drawn.apply(source.pixels(chosen, *sent), self._precision)
            with lap("loss"):
                loss = cross_entropy(head(run_in(self._precision, encoder, images).float()), rows[chosen])
            optimiser.zero_grad()
            with lap("gradient"):
                loss.backward()
            with lap("update"):
                optimiser.step()
            return {"cross_entropy": loss.detach()}

        encoder.train()
        run_epochs(step, source, batches, stage, state, hooks)
        if stage.ema:
            refresh_batchnorm(encoder, (to_float(source.pixels(*given)) for given in source.batches(batches.rows)))
        encoder.eval()

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """Log-posteriors."""
        encoder, head = self._state.networks["encoder"], self._state.networks["head"]
        with torch.no_grad(), exact_float32():
            features = [run_in(self._precision, encoder, to_float(part.to(self.device))) for part in X.split(CHUNK)]
            logits = head(torch.cat(features).float())
        ascending = torch.tensor(self.labels, device=self.device).argsort()
        return logits.log_softmax(1)[:, ascending]


class Finetune(CrossEntropyLearner[None]):
    """Learns each task as if there had been no other."""

    settings_type = FinetuneConfig

    def fit(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> None:
        settings: Any = self.settings
        labels, old = y.unique(), len(self.labels)
        self.resize(old + len(labels))
        stage = settings.later if old else settings.first
        self.train(X, old + torch.searchsorted(labels, y), stage, hooks)
