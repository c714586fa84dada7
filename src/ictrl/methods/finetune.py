"""finetune: the encoder and a linear head learn every task by cross-entropy, with nothing to protect the old ones.

The loss of a task is −log softmax(W f(x))_y over all classes seen so far, on images of the new classes alone. Nothing
is kept besides the networks, and nearly everything old is forgotten: the lower bound of class-incremental learning.

Settings: ours. Each task has its own Adam and trains BatchNorm in the ordinary way.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from ictrl.config import StageConfig, used_later
from ictrl.methods.supervised import SupervisedConfig, SupervisedLearner
from ictrl.shapes import Int, UInt8
from ictrl.training.loop import TaskHooks


@dataclass(frozen=True)
class FinetuneConfig(SupervisedConfig):
    """Cross-entropy on each task, without protection."""

    name: ClassVar[str] = "finetune"

    first: StageConfig = field(default_factory=lambda: StageConfig(epochs=40, batch=128, learning_rate=1e-3, ema=0.0))
    later: StageConfig = used_later(StageConfig(epochs=40, batch=128, learning_rate=1e-3, ema=0.0))


class Finetune(SupervisedLearner[None]):
    """Learns each task as if there had been no other."""

    settings_type = FinetuneConfig
    shares_batches = True

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> None:
        settings: Any = self.settings
        rows, old = self.rows_of(y), len(self.labels)
        self.resize(old + len(y.unique()))
        self.train(X, rows, settings.later if old else settings.first, hooks)
