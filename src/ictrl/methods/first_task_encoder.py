"""What methods share whose encoder learns the first task by cross-entropy and then stays as it is.

From then on an image is its features, nothing drifts, and a method is what it keeps of features: `remembered`. What the
first classes did not teach the encoder it never learns, and with few of them all such methods suffer alike.

Settings: FeCAM's for CIFAR-100 (the authors have none for CIFAR-10): SGD at 0.1 along half a cosine, momentum 0.9,
weight decay 5e-4, 200 epochs, 128 images in a step, crops and mirror. Theirs have AutoAugment as well.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Float, Int, UInt8
from torch import Tensor

from ictrl.config import StageConfig
from ictrl.methods.supervised import OptimiserConfig, SupervisedConfig, SupervisedLearner, sgd_stage
from ictrl.training.loop import TaskHooks


@dataclass(frozen=True)
class FirstTaskConfig(SupervisedConfig):
    """How the encoder learns its only task."""

    optimiser: OptimiserConfig = field(default_factory=lambda: OptimiserConfig("sgd", 0.9, 5e-4))
    first: StageConfig = field(default_factory=lambda: replace(sgd_stage(200, 128, 0.1), schedule="cosine"))
    """the first task, the only one that trains"""


class FirstTaskLearner(SupervisedLearner[dict[str, Tensor]]):
    """Trains its encoder on the first task; the head that it was trained with is thrown away."""

    @abstractmethod
    def remembered(self, Z: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> dict[str, Tensor]:
        """All that is kept, by name, with the classes of these features behind those that were kept before."""

    @abstractmethod
    def shapes(self, classes: int) -> dict[str, tuple[int, ...]]:
        """Of all that is kept of so many classes."""

    def fit(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> dict[str, Tensor]:
        settings: Any = self.settings
        if not self.labels:
            super().resize(len(y.unique()))
            self.train(X, self.rows_of(y), settings.first, hooks)
            head = self.new_head(settings.network.feature_dim)
            self._state = self._with_head(self.encoder, head, self._state.generator)
        return self.remembered(self.encode(X), y)

    def resize(self, classes: int) -> None:
        """Nothing grows: between tasks there is no head."""

    def kept_tensors(self) -> dict[str, Tensor]:
        return self.kept

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if not labels:
            return {}
        expected, found = self.shapes(len(labels)), {name: tuple(kept.shape) for name, kept in tensors.items()}
        if found != expected:
            raise ValueError(f"what is kept has shapes {found} and not {expected}")
        return tensors
