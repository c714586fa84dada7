"""joint: every image is kept, and with each task new networks learn all classes seen so far at once.

Not an answer to the problem but its upper bound: what the same encoder and head could do if nothing had to be
forgotten. It keeps every training image and says so: `keeps_images`, and their bytes in `kept_bytes`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from ictrl.config import StageConfig
from ictrl.memory.buffer import Exemplars, exemplars_from
from ictrl.methods.supervised import SupervisedConfig, SupervisedLearner
from ictrl.shapes import Int, UInt8
from ictrl.training.loop import TaskHooks


@dataclass(frozen=True)
class JointConfig(SupervisedConfig):
    """Cross-entropy on all images seen so far, by new networks with each task."""

    name: ClassVar[str] = "joint"

    stage: StageConfig = field(default_factory=lambda: StageConfig(epochs=40, batch=128, learning_rate=1e-3, ema=0.0))


class Joint(SupervisedLearner[Exemplars | None]):
    """Keeps every image, and learns all of them anew with each task."""

    settings_type = JointConfig
    shares_batches = True
    keeps_images = True
    keeps = "every training image"

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> Exemplars:
        labels, old = y.unique(), len(self.labels)
        # a copy: what the caller does with the images afterwards must not reach those that are kept
        new = Exemplars(X.to("cpu", copy=True), self.rows_of(y).cpu())
        both = new if self.kept is None else self.kept.joined(new)
        self._state = self._networks(torch.Generator().manual_seed(self.seed), self._state.generator)
        self.resize(old + len(labels))
        self.train(both.images, both.rows.to(self.device), self.settings.stage, hooks)
        return both

    def kept_tensors(self) -> dict[str, Tensor]:
        return {} if self.kept is None else self.kept._asdict()

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> Exemplars | None:
        if not labels:
            return None
        return exemplars_from({name: tensor.cpu() for name, tensor in tensors.items()}, len(labels))
