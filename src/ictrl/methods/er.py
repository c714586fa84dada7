"""er: experience replay. Every step sees new images and as many old ones, drawn from a reservoir.

    loss = −log softmax(W f(x))_y   over new and replayed images together

The plainest of all methods that keep images, and hard to beat (Chaudhry et al., *On Tiny Episodic Memories in Continual
Learning*, 2019; the reservoir: Riemer et al., ICLR 2019).

Settings: those of Buzzega et al. (DER++, NeurIPS 2020) for CIFAR-10: SGD at 0.1, 50 epochs of each task, 32 new and 32
old images in a step, crops and mirror.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ictrl.config import StageConfig
from ictrl.memory.buffer import EMPTY
from ictrl.methods.rehearsal import RehearsalConfig, RehearsalLearner
from ictrl.methods.supervised import Seen, sgd_stage


@dataclass(frozen=True)
class ERConfig(RehearsalConfig):
    """Cross-entropy on new and replayed images."""

    name: ClassVar[str] = "er"

    stage: StageConfig = field(default_factory=lambda: sgd_stage(epochs=50, batch=32, learning_rate=0.1))
    """every task"""


class ER(RehearsalLearner):
    """Experience replay from a reservoir."""

    settings_type = ERConfig

    def loss(self, seen: Seen, working: Mapping[str, nn.Module]) -> dict[str, Tensor]:
        old = self.replayed(seen, working)
        both = torch.cat([seen.X, self.shown(old.images, self.settings.stage.augmentation)])
        logits = self.logits(both)  # together, as BatchNorm should see them
        return {"cross_entropy": cross_entropy(logits, torch.cat([seen.rows, old.rows]), ignore_index=EMPTY)}
