"""What methods share whose encoder learns the first task by cross-entropy and then stays as it is.

From then on an image is its features, nothing drifts, and a method is what it keeps of features: `remembered`. What the
first classes did not teach the encoder it never learns, and with few of them all such methods suffer alike.

Settings: FeCAM's for CIFAR-100 (the authors have none for CIFAR-10): SGD at 0.1 along half a cosine, momentum 0.9,
weight decay 5e-4, 200 epochs, 128 images in a step, crops and mirror. Theirs have AutoAugment as well. The rate is one
for ResNet-18, whose features follow a BatchNorm; the small encoder, `dcgan`, wants a lower one.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from ictrl.config import StageConfig
from ictrl.memory.few_images import check_enough
from ictrl.methods.forgetting import IN_THE_FIRST_WEIGHTS, POOLED
from ictrl.methods.headless import HeadlessLearner
from ictrl.methods.supervised import OptimiserConfig, SupervisedConfig, sgd_stage
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.loop import TaskHooks


@dataclass(frozen=True)
class FirstTaskConfig(SupervisedConfig):
    """How the encoder learns its only task."""

    optimiser: OptimiserConfig = field(default_factory=lambda: OptimiserConfig("sgd", 0.9, 5e-4))
    first: StageConfig = field(default_factory=lambda: replace(sgd_stage(200, 128, 0.1), schedule="cosine"))
    """the first task, the only one that trains"""


class FirstTaskLearner(HeadlessLearner):
    """Trains its encoder on the first task; the head that it was trained with is thrown away."""

    @abstractmethod
    def remembered(self, Z: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> dict[str, Tensor]:
        """All that is kept, by name, with the classes of these features behind those that were kept before."""

    def what_remains(self) -> list[str]:
        shared = self.shapes(1).items() & self.shapes(2).items()  # what does not grow with the classes
        return [IN_THE_FIRST_WEIGHTS, *([POOLED] if shared else [])]

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> dict[str, Tensor]:
        check_enough(y)
        settings: Any = self.settings
        if not self.labels:
            self.begin_head(len(y.unique()))
            self.train(X, self.rows_of(y), settings.first, hooks)
            self.throw_head_away()
        return self.remembered(self.encode(X), y)
