"""wide-ictrl: classifies by wide features of an encoder that learns once, as `wide` does, and draws as `ictrl` does.

In the first task the encoder becomes a trunk and is frozen, exactly as in `wide`: the same classes are predicted, with
the same probabilities. On its last stage a(x) sits a head of its own, whose d numbers the decoder draws from:

    z = f(x) = W a(x) / ‖W a(x)‖,   x̂ = g(z).

W and the decoder play the game on the first task, against the trunk as it is; then W stands still too. So every stored
moment of z is that of the images for ever, nothing drifts, and the decoder alone goes on learning: new images as they
come, old classes replayed from their direction Gaussians. Because such an encoder cannot object to noise that it does
not see, the decoder also pays for what the trunk's stages see in its images (feature matching).
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from ictrl.config import GameConfig, GameStageConfig, MemoryConfig, MethodConfig, WeightsConfig, used_later
from ictrl.errors import ConfigError
from ictrl.memory.few_images import check_enough
from ictrl.methods.wide import WideConfig, default_trunk
from ictrl.methods.wide_drawing import WideAndDrawn, WideDrawingLearner
from ictrl.methods.wide_reading import CalibrationConfig, ReadingConfig, WideReader
from ictrl.nets.families import backbones
from ictrl.nets.head import HeadOnTrunk
from ictrl.nets.wrappers import precision_of, run_stages
from ictrl.shapes import Int, UInt8
from ictrl.theory.objectives import Objective
from ictrl.training.loop import TaskHooks
from ictrl.training.players import untrained
from ictrl.training.state import TrainingState
from ictrl.training.trunk import TrunkStageConfig, train_trunk


@dataclass(frozen=True)
class WideICTRLConfig(MethodConfig):
    """A trunk trained on the first task, wide features and LDA; and a decoder that goes on learning to draw."""

    name: ClassVar[str] = "wide-ictrl"

    trunk: TrunkStageConfig = field(default_factory=default_trunk)
    """the first part of the first task, in which the encoder is trained"""
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    calibration: CalibrationConfig = field(default_factory=CalibrationConfig)
    game: GameConfig = field(default_factory=GameConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    """what is kept of a class to draw from; there is no drift to compensate"""
    first: GameStageConfig = field(default_factory=lambda: GameStageConfig(weights=WeightsConfig(match_new=100.0)))
    """the second part of the first task: the game of head and decoder"""
    later: GameStageConfig = used_later(GameStageConfig(weights=WeightsConfig(match_new=100.0, match_replayed=100.0)))
    """every later task, in which the decoder plays alone: what the encoder would pay for does nothing"""

    def __post_init__(self) -> None:
        if self.first.batch == "rule":
            raise ConfigError('Expected first.batch to be a number but got "rule": in a first task nothing is old.')


class WideICTRL(WideDrawingLearner):
    """Trains its encoder on the first task, and its decoder on every task.

    `encoder` may be a network of your own, with a method `stages` as `Wide` asks for it; so may `decoder`, a module
    that turns features (n, d) into images (n, channels, side, side) in [−1, 1].
    """

    settings_type = WideICTRLConfig
    shares_batches = True

    def build(self, initial: torch.Generator) -> TrainingState:
        network, settings = self.recipe.method.network, self.settings
        shape = network.channels, network.image_size, network.image_size
        trunk, decoder = backbones(network, self._own_networks, initial)
        trunk.to(self.device).eval()
        self._precision = precision_of(settings.game.precision, self.device)
        self.reader = WideReader(trunk, shape, settings.reading, self._precision)
        with torch.no_grad():
            last = run_stages(self._precision, trunk, torch.zeros(1, *shape, device=self.device))[-1]
        head = HeadOnTrunk(trunk, last.shape[1], network.feature_dim, initial)
        state = self._paired(head, decoder)
        return replace(
            state,
            networks={"encoder": trunk, "head": head, "decoder": decoder},
            optimisers={"head": state.optimisers["encoder"], "decoder": state.optimisers["decoder"]},
        )

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> WideAndDrawn:
        check_enough(y)  # before anything is trained
        settings: WideICTRLConfig = self.settings
        drawing: TaskHooks | None = hooks
        if not self.labels:
            training, drawing = hooks.in_turn(settings.trunk.epochs, settings.first.epochs)
            if training is not None:
                self._train(X, torch.searchsorted(y.unique(), y), training)
        assert drawing is not None
        share, stage = settings.calibration.held_out, settings.later if self.labels else settings.first
        with untrained(self.reader.encoder):  # gradients pass through the trunk, on their way to the decoder
            self.play(X, y, self.memory, stage, drawing)
        if not self.labels:
            self._rest()
        wide = self.reader.remembered(self.wide_memory, X, y, share, self.seed)
        return WideAndDrawn(wide, self.memory.with_classes(self.formed(self.encode(X), y)))

    def _train(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"], hooks: TaskHooks) -> None:
        d, stage, generator = self.recipe.method.network.feature_dim, self.settings.trunk, self._state.generator
        train_trunk(self.reader.encoder, d, X, rows, stage, self._precision, generator, hooks)

    def _rest(self) -> None:
        """Forget what an optimiser of the first task needs no more: the head's everything, the decoder's if told so."""
        self._state.optimisers["head"].state.clear()
        if self.settings.game.optimiser == "fresh":
            self._state.optimisers["decoder"].state.clear()

    def objective_of(self, stage: GameStageConfig, first: bool) -> Objective:
        objective = super().objective_of(stage, first)
        return objective if first else objective._replace(encoder={})

    @property
    def as_wide(self) -> WideConfig:
        settings: WideICTRLConfig = self.settings
        precision, trunk = settings.game.precision, settings.trunk
        return WideConfig(
            settings.network, precision, trunk, reading=settings.reading, calibration=settings.calibration
        )
