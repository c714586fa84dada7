"""dgr: deep generative replay. A generative adversarial network and a classifier teach those of the next task.

The old *scholar*, a decoder g′ and a classifier h′, is frozen when a task begins. The new decoder learns by WGAN-GP
from new images and from those that g′ draws; the new classifier pays

    r CE(h(x), y) + (1 − r) CE(h(g′(e)), argmax h′(g′(e))),      r the share of new classes among all

(Shin, Lee, Kim and Kim, *Continual Learning with Deep Generative Replay*, NeurIPS 2017). Nothing is kept but the
networks. What g′ draws badly and h′ takes for something else is handed down as it is, from task to task.

Settings: the authors name the loss, WGAN-GP, and r, the importance of the new task. The rest of decoder and critic is
that of WGAN-GP's paper: Adam at 1e-4 with β (0, 0.9), λ 10, five steps of the critic on 64 images each for one of the
decoder. Epochs and the classifier's settings are ours.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ictrl.methods.adversarial import AdversarialConfig, Replay
from ictrl.methods.scholar import ScholarLearner
from ictrl.nets.wrappers import run_in
from ictrl.shapes import Int, UInt8
from ictrl.training.loop import TaskHooks
from ictrl.training.replay import frozen_copy


@dataclass(frozen=True)
class DGRConfig(AdversarialConfig):
    """Replay of what the last task's decoder draws, labelled by its classifier."""

    name: ClassVar[str] = "dgr"


class DGR(ScholarLearner[None]):
    """Deep generative replay."""

    settings_type = DGRConfig

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> None:
        rows = self.rows_of(y)
        # follows from the state at the task's beginning, so that a stopped task finds the same again
        replay = self.scholar() if self.labels else None
        self.resize(len(self.labels) + len(y.unique()))
        self.learn_with(X, rows, replay, hooks)

    def scholar(self) -> Replay:
        """The decoder as it is, and the classifier that says what it has drawn."""
        encoder, head, precision = frozen_copy(self.encoder), frozen_copy(self.head), self._precision

        def named(images: Tensor) -> Tensor:
            return head(run_in(precision, encoder, images).float()).argmax(1)

        return self.replay_of(self.artist.frozen(), len(self.labels), named)
