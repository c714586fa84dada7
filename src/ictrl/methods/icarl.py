"""icarl: incremental classifier and representation learning. The network learns; the means of exemplars classify.

    loss = mean over classes c of BCE(σ(ℓ_c), t_c),     t_c = σ(ℓ′_c) for old classes c, 1[c = y] for new ones,
    class of x = argmin_c ‖f(x) − μ_c‖,     μ_c the mean of f over the exemplars of c, f and μ of unit length,

ℓ′ the logits of the network before the task, on new images and exemplars together. Exemplars are herded after each task
and reduced as classes come. Their means follow the encoder, so that the head's preference for new classes does no harm
(Rebuffi et al., *iCaRL: Incremental Classifier and Representation Learning*, CVPR 2017). The means are kept too. Where
the paper has a sum over classes, the authors' code has a mean, as here; that code also looks at mirrored exemplars for
the means, as the paper and this file do not.

Settings: the authors' are for CIFAR-100 and a ResNet-32: SGD with momentum 0.9 at 2.0, divided by 5 after 49 and 63 of
70 epochs, 128 images in a step, weight decay 1e-5, 2000 exemplars. The defaults are those of the DER++ paper's
comparison for CIFAR-10: SGD at 0.1, 50 epochs of each task, 32 images in a step, crops and mirror, weight decay 1e-5,
500 exemplars.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from ictrl.config import StageConfig
from ictrl.memory.buffer import Exemplars
from ictrl.methods.exemplars import ExemplarLearner, ExemplarLearnerConfig
from ictrl.methods.supervised import OptimiserConfig, Seen, sgd_stage
from ictrl.nets.layers import exact_float32
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.loop import TaskHooks


@dataclass(frozen=True)
class ICaRLConfig(ExemplarLearnerConfig):
    """Herded exemplars, distillation of sigmoids, the nearest mean of exemplars."""

    name: ClassVar[str] = "icarl"

    optimiser: OptimiserConfig = field(default_factory=lambda: OptimiserConfig("sgd", weight_decay=1e-5))
    stage: StageConfig = field(default_factory=lambda: sgd_stage(epochs=50, batch=32, learning_rate=0.1))
    """every task"""


class ICaRL(ExemplarLearner):
    """Incremental classifier and representation learning."""

    settings_type = ICaRLConfig
    keeps = "some images and their means"
    predicts_by = ("encoder",)

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> dict[str, Tensor]:
        rows, classes = self.rows_of(y), len(self.labels) + len(y.unique())
        self.check_room(classes)
        working = {"teacher": self.teacher()} if self.labels else {}
        self.resize(classes)
        both = self.with_exemplars(X, rows)
        self.train(both.images, both.rows.to(self.device), self.settings.stage, hooks, working)
        kept = self.remembered(X, rows)
        return {**kept._asdict(), "means": self.means(kept, classes)}

    def loss(self, seen: Seen, working: Mapping[str, nn.Module]) -> dict[str, Tensor]:
        logits = self.logits(seen.X)
        targets = (seen.rows[:, None] == torch.arange(logits.shape[1], device=logits.device)).float()
        old = 0
        if "teacher" in working:
            before = working["teacher"](seen.X).sigmoid()
            old = before.shape[1]
            targets = torch.cat([before, targets[:, old:]], 1)
        every = binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(0) / logits.shape[1]  # (k,)
        terms = {"cross_entropy": every[old:].sum()}
        return {**terms, "distillation": every[:old].sum()} if old else terms

    def means(self, kept: Exemplars, classes: int) -> Float[Tensor, "k d"]:
        """Of the exemplars' features, each of unit length, and of unit length again; class by class."""
        Z = normalize(self.encode(kept.images))
        return normalize(torch.stack([Z[(kept.rows == row).to(Z.device)].mean(0) for row in range(classes)]))

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """How near the mean of each class is: −‖f(x) − μ‖² = 2 f(x)ᵀμ − 2, both being of unit length."""
        Z = normalize(self.encode(X))
        with exact_float32():
            return self.by_label(2 * Z @ self.kept["means"].T - 2)

    def kept_without(self, row: int) -> dict[str, Tensor]:
        means = self.kept["means"]
        return {**super().kept_without(row), "means": torch.cat([means[:row], means[row + 1 :]])}

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {**super().kept_from(labels, tensors), **self.kept_to_predict_from(labels, tensors)}

    def kept_to_predict(self) -> dict[str, Tensor]:
        return {"means": self.kept["means"]} if self.labels else {}

    def kept_to_predict_from(self, labels: list[int], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if not labels:
            return {}
        expected = (len(labels), self.recipe.method.network.feature_dim)
        if tuple(tensors["means"].shape) != expected:
            raise ValueError(f"means {tuple(tensors['means'].shape)} and not {expected}")
        return {"means": tensors["means"]}
