"""gdumb: no continual learning at all. Images are kept, balanced; after each task a new network learns from them alone.

    a new image is kept while its class has fewer than capacity / classes, in the place of one of the largest class

It asks how much the rest of a method is worth beyond its memory: whatever does worse than this with the same memory has
learned nothing from the stream (Prabhu, Torr and Dokania, *GDumb: A Simple Approach that Questions Our Progress in
Continual Learning*, ECCV 2020).

Settings: the authors' for CIFAR-10: SGD with momentum 0.9 and weight decay 1e-6, 16 images in a step, 256 epochs, the
rate in cycles of 1, 2, 4, … epochs from 0.05 to 0.0005 after an epoch of warmup, CutMix in half of the steps, gradients
clipped at 10, crops and mirror. The warmup is at half the rate and not at a tenth of it, and a task's images come
in random order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from ictrl.config import StageConfig
from ictrl.errors import ConfigError
from ictrl.memory.buffer import Exemplars
from ictrl.memory.selection import greedy_balanced
from ictrl.methods.checks import check_chance
from ictrl.methods.kept_images import ExemplarLearner, KeptImagesConfig
from ictrl.methods.supervised import OptimiserConfig, Seen, SupervisedConfig, sgd_stage
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.cutmix import cutmix, mixed_cross_entropy
from ictrl.training.loop import TaskHooks


def restarted_stage(batch: int) -> StageConfig:
    """256 epochs at 0.05, an epoch of warmup and then cycles of 1, 2, …, 128: GDumb's, and Rainbow Memory's."""
    return replace(sgd_stage(epochs=256, batch=batch, learning_rate=0.05), schedule="restarts", warmup=1)


@dataclass(frozen=True)
class GDumbConfig(SupervisedConfig):
    """Cross-entropy on the images kept, by new networks with each task."""

    name: ClassVar[str] = "gdumb"

    optimiser: OptimiserConfig = field(default_factory=lambda: OptimiserConfig("sgd", 0.9, 1e-6))
    stage: StageConfig = field(default_factory=lambda: restarted_stage(batch=16))
    """on the images kept, after every task"""
    buffer: KeptImagesConfig = field(default_factory=KeptImagesConfig)
    cutmix: float = 0.5
    """chance that the images of a step are mixed"""
    clip: float = 10.0
    """largest norm of a step's gradient"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_chance("cutmix", self.cutmix)
        if not self.clip > 0:
            raise ConfigError(f"Expected clip to be above 0 but got {self.clip}.")


class GDumb(ExemplarLearner):
    """Greedy sampler and dumb learner."""

    settings_type = GDumbConfig

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> Exemplars:
        settings: Any = self.settings
        rows, classes = self.rows_of(y), len(self.labels) + len(y.unique())
        places = greedy_balanced(self.held, rows, settings.buffer.images, self._state.generator)
        chosen = self.remaining(self.kept_and(X, rows), places)
        self._state = self._networks(torch.Generator().manual_seed(self.seed), self._state.generator)
        self.resize(classes)
        self.train(chosen.images, chosen.rows, settings.stage, hooks)
        return chosen

    def loss(self, seen: Seen, working: Mapping[str, nn.Module]) -> dict[str, Tensor]:
        X, partners, share = cutmix(seen.X, self.settings.cutmix, self._state.generator)
        return {"cross_entropy": mixed_cross_entropy(self.logits(X), seen.rows, partners, share)}

    def backward(self, loss: Float[Tensor, ""]) -> None:
        loss.backward()
        clip_grad_norm_(self.trained, self.settings.clip)
