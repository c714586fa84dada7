"""lwf: learning without forgetting. The network of before says what new images look like to it, and that is kept up.

    loss = CE(W f(x), y) + λ T² KL(softmax(ℓ_before / T) ‖ softmax(ℓ_now / T))   over the logits of old classes

No old image is used: new images stand in for old ones (Li and Hoiem, *Learning without Forgetting*, ECCV 2016). In the
class-incremental setting, where tasks have to be told apart as well, this is not enough: nothing says that an image of
an old class is not of a new one, and the head's new rows win.

Settings: T = 2 is the paper's; λ = 0.75 (they write 3, without the factor T²) and SGD (0.01, weight decay 5e-4, 50
epochs, 32 images in a step, crops and mirror) are those of the DER++ authors' library for CIFAR-10.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ictrl.config import StageConfig
from ictrl.errors import ConfigError
from ictrl.methods.supervised import OptimiserConfig, Seen, SupervisedConfig, SupervisedLearner, sgd_stage
from ictrl.nets.wrappers import run_in
from ictrl.shapes import Int, UInt8
from ictrl.theory.likelihood import cross_entropy
from ictrl.theory.soft_targets import soft_targets
from ictrl.training.loop import TaskHooks
from ictrl.training.replay import frozen_copy


@dataclass(frozen=True)
class LwFConfig(SupervisedConfig):
    """Distillation of the old classes' logits on new images."""

    name: ClassVar[str] = "lwf"

    optimiser: OptimiserConfig = field(default_factory=lambda: OptimiserConfig("sgd", weight_decay=5e-4))
    stage: StageConfig = field(default_factory=lambda: sgd_stage(epochs=50, batch=32, learning_rate=0.01))
    """every task"""
    distillation: float = 0.75
    """λ, weight of what the network of before says"""
    temperature: float = 2.0
    """T, by which logits are divided before they are compared"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.distillation < float("inf"):
            raise ConfigError(f"Expected distillation to be at least 0 but got {self.distillation}.")
        if not 0 < self.temperature < float("inf"):
            raise ConfigError(f"Expected temperature to be above 0 but got {self.temperature}.")


class LwF(SupervisedLearner[None]):
    """Learning without forgetting."""

    settings_type = LwFConfig
    shares_batches = True

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> None:
        settings: Any = self.settings
        rows = self.rows_of(y)
        # follows from the state at the task's beginning, so that a stopped task finds the same again
        self._before = (frozen_copy(self.encoder), frozen_copy(self.head)) if self.labels else None
        self.resize(len(self.labels) + len(y.unique()))
        self.train(X, rows, settings.stage, hooks)
        self._before = None

    def loss(self, seen: Seen, working: Mapping[str, nn.Module]) -> dict[str, Tensor]:
        logits = self.logits(seen.X)
        terms = {"cross_entropy": cross_entropy(logits, seen.rows)}
        if self._before is not None and self.settings.distillation:
            encoder, head = self._before
            with torch.no_grad():
                before = head(run_in(self._precision, encoder, seen.X).float())
            distance = soft_targets(logits[:, : before.shape[1]], before, self.settings.temperature)
            terms["distillation"] = self.settings.distillation * distance
        return terms
