"""What methods that learn by cross-entropy share: an encoder, a head that grows, an optimiser, one loop.

A method says what a step pays for (`loss`), what becomes of the gradient (`backward`), and what it does with the images
of a step once it has moved (`after_step`). The first and the last may read and change *working* modules that `train`
is given, such as a replay buffer: these belong to the task, are written with it when it is stopped, and what is kept of
them is for `learn_task` to return.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from ictrl.config import AugmentationConfig, MethodConfig, StageConfig
from ictrl.errors import ConfigError
from ictrl.methods.base import Kept
from ictrl.methods.checks import check_stage
from ictrl.methods.forgetting import ForgettingLearner
from ictrl.methods.inputs import seeded
from ictrl.methods.threads import shows
from ictrl.nets.families import encoder_of
from ictrl.nets.head import LinearHead
from ictrl.nets.layers import exact_float32
from ictrl.nets.wrappers import precision_of, run_in, to_float
from ictrl.parallel.sharing import add_gradients, mine, spread
from ictrl.shapes import Float, Int, UInt8
from ictrl.theory.likelihood import cross_entropy
from ictrl.training.augmentation import draw
from ictrl.training.ema import refresh_batchnorm
from ictrl.training.loader import Batches, ImageSource
from ictrl.training.loop import TaskHooks, run_epochs
from ictrl.training.players import adam, sgd
from ictrl.training.profiler import untimed
from ictrl.training.state import TrainingState
from ictrl.training.task import chunks


@dataclass(frozen=True)
class OptimiserConfig:
    """What moves encoder and head; each task begins with a new one."""

    kind: Literal["adam", "sgd"] = "adam"
    """Adam (AdamW where weights decay), or stochastic gradient descent"""
    momentum: float = 0.0
    """of SGD"""
    weight_decay: float = 0.0
    """of all weights, decoupled with Adam"""

    def __post_init__(self) -> None:
        if self.kind not in ("adam", "sgd"):
            raise ConfigError(f'Expected optimiser.kind to be "adam" or "sgd" but got {self.kind!r}.')
        if not 0 <= self.momentum < 1:
            raise ConfigError(f"Expected optimiser.momentum to be at least 0 and below 1 but got {self.momentum}.")
        if not 0 <= self.weight_decay < float("inf"):
            raise ConfigError(f"Expected optimiser.weight_decay to be at least 0 but got {self.weight_decay}.")


@dataclass(frozen=True)
class SupervisedConfig(MethodConfig):
    """Settings of every method that learns by cross-entropy."""

    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    """of the convolutions; auto: bfloat16 on a GPU, float32 elsewhere"""
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)

    def __post_init__(self) -> None:
        for name, stage in vars(self).items():
            if isinstance(stage, StageConfig):
                check_stage(name, stage)


def sgd_stage(epochs: int, batch: int, learning_rate: float) -> StageConfig:
    """A stage as papers on rehearsal have it: images moved by up to four pixels and mirrored, no average of weights."""
    return StageConfig(epochs, batch, learning_rate, ema=0.0, augmentation=AugmentationConfig(mirror=True, shifts=4))


class Seen(NamedTuple):
    """What a step is shown; where processes share a batch, the rows of this one."""

    X: Float[Tensor, "n c h w"]
    """augmented images"""
    rows: Int[Tensor, " n"]
    """their classes, as rows of the head"""
    pixels: UInt8[Tensor, "n c h w"]
    """the same images as they are"""
    chosen: Int[Tensor, " n"]
    """their places among the task's images"""


class SupervisedLearner(ForgettingLearner[Kept]):
    """An encoder and a linear head that grows with the classes; rows of the head are in the order of learning."""

    # what a method may write

    def loss(self, seen: Seen, working: Mapping[str, nn.Module]) -> dict[str, Tensor]:
        """What a step pays for, by name; the loss is the sum."""
        return {"cross_entropy": cross_entropy(self.logits(seen.X), seen.rows)}

    def backward(self, loss: Float[Tensor, ""]) -> None:
        """Leave in the parameters' `grad` what the optimiser is to follow; there is none before."""
        loss.backward()

    def after_step(self, seen: Seen, working: Mapping[str, nn.Module]) -> None:
        """What happens once the networks have moved."""

    # what it gets

    def build(self, initial: torch.Generator) -> TrainingState:
        self._precision = precision_of(self.settings.precision, self.device)
        return self._networks(initial, seeded(self.device, self.seed))

    @property
    @shows
    def encoder(self) -> nn.Module:
        return self._state.networks["encoder"]

    @property
    @shows
    def head(self) -> nn.Module:
        return self._state.networks["head"]

    @property
    def trained(self) -> list[nn.Parameter]:
        """The parameters that the optimiser moves."""
        return [*self.encoder.parameters(), *self.head.parameters()]

    def features(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """f(x) of images as a network sees them."""
        return run_in(self._precision, self.encoder, X).float()

    def logits(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """W f(x) + b."""
        return self.head(self.features(X))

    def encode(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """f(x) of images as they are, by the networks as they are, nothing learned from it."""
        with torch.no_grad(), exact_float32():
            return spread(lambda X: torch.cat([self.features(to_float(x.to(self.device))) for x in chunks(X)]), X)

    def _networks(self, initial: torch.Generator, generator: torch.Generator) -> TrainingState:
        """New ones, with a head for no class yet."""
        network = self.recipe.method.network
        encoder = encoder_of(network, initial).to(self.device).eval()
        return self._with_head(encoder, self.new_head(network.feature_dim), generator)

    def new_head(self, d: int) -> nn.Module:
        """A head for no class yet; it has a method `grown`."""
        return LinearHead(d, uniform=getattr(self.settings, "head_initialisation", "own") == "torch")

    def _with_head(self, encoder: nn.Module, head: nn.Module, generator: torch.Generator) -> TrainingState:
        networks: dict[str, nn.Module] = {"encoder": encoder, "head": head.to(self.device).eval()}
        chosen: OptimiserConfig = self.settings.optimiser
        both = nn.ModuleDict(networks)
        optimiser: torch.optim.Optimizer = (
            adam(both, 1e-3, (0.9, 0.999), chosen.weight_decay)
            if chosen.kind == "adam"
            else sgd(both, 1e-3, chosen.momentum, chosen.weight_decay)
        )
        return TrainingState(networks, {"network": optimiser}, generator)

    def resize(self, classes: int) -> None:
        """A head for so many classes: the rows it has, and new ones drawn at random; and a new optimiser for both."""
        generator = self._state.generator
        grown = self.head.grown(self.head_size(classes), generator)  # type: ignore[operator]
        self._state = self._with_head(self.encoder, grown, generator)

    def drop_row(self, row: int) -> None:
        smaller = self.head.without(row)  # type: ignore[operator]
        self._state = self._with_head(self.encoder, smaller, self._state.generator)
        self.resize(len(self.labels) - 1)  # rows for classes yet to come, where settings name them

    def head_size(self, classes: int) -> int:
        """Rows of the head once there are so many classes: as many, or all from the start where settings name them."""
        return max(classes, getattr(self.settings, "head_rows", 0))

    def rows_of(self, y: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """The head's rows of new classes: labels ascending, behind those of the old ones."""
        return len(self.labels) + torch.searchsorted(y.unique(), y)

    def shown(self, pixels: UInt8[Tensor, "n c h w"], augmentation: AugmentationConfig) -> Float[Tensor, "n c h w"]:
        """Images augmented at random, as a network sees them."""
        places = torch.zeros(len(pixels), dtype=torch.long, device=pixels.device)
        return draw(augmentation, places, self._state.generator).apply(pixels, self._precision)

    def train(
        self,
        X: UInt8[Tensor, "n c h w"],
        rows: Int[Tensor, " n"],
        stage: StageConfig,
        hooks: TaskHooks,
        working: Mapping[str, nn.Module] | None = None,
    ) -> None:
        """One stage on images whose classes are given as rows of the head."""
        state, device, working = self._state, self.device, working or {}
        encoder, optimiser = self.encoder, state.optimisers["network"]
        source = ImageSource(X, device)
        assert stage.batch != "rule"
        batches = Batches(len(source), stage.batch, state.generator, device)
        lap = hooks.profiler.lap if hooks.profiler is not None else untimed

        def step(chosen: Tensor, *sent: Tensor) -> dict[str, Tensor]:
            with lap("images"):
                pixels = source.pixels(chosen, *sent)
                drawn, own = draw(stage.augmentation, chosen, state.generator).mine(), mine(chosen)
                seen = Seen(drawn.apply(pixels, self._precision), rows[own], pixels, own)
            with lap("loss"):
                terms = self.loss(seen, working)
                loss = torch.stack(list(terms.values())).sum()
            optimiser.zero_grad()
            with lap("gradient"):
                self.backward(loss)
                add_gradients(optimiser)
            with lap("update"):
                optimiser.step()
                self.after_step(seen, working)
            return {name: value.detach() for name, value in terms.items()}

        encoder.train()
        whole = TrainingState({**state.networks, **working}, state.optimisers, state.generator)
        run_epochs(step, source, batches, stage, whole, hooks)
        if stage.ema:
            batches.shuffle()  # a task stopped after its last epoch does not know that epoch's order
            refresh_batchnorm(encoder, (to_float(source.pixels(*given)) for given in source.batches(batches.rows)))
        encoder.eval()

    def kept_to_predict(self) -> dict[str, Tensor]:
        """Nothing: the networks do it alone."""
        return {}

    def kept_to_predict_from(self, labels: list[int], tensors: dict[str, Tensor]) -> Kept:
        return self.kept_from([], {})

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """Log-posteriors."""
        with torch.no_grad(), exact_float32():
            logits = self.head(self.encode(X))
        return self.posteriors(logits)

    def posteriors(self, logits: Float[Tensor, "n rows"]) -> Float[Tensor, "n k"]:
        """Logarithms, of the classes learned so far; rows of the head for classes yet to come are left out."""
        return self.by_label(logits[:, : len(self.labels)].log_softmax(1))

    def by_label(self, scores: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """Columns in the order of learning, put into that of ascending labels."""
        return scores[:, torch.tensor(self.labels, device=scores.device).argsort()]
