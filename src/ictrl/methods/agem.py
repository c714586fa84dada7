"""agem: averaged gradient episodic memory. A step must not raise the loss on images drawn from memory.

    g ← g − (g·g_ref / g_ref·g_ref) g_ref   where g·g_ref < 0,

g the gradient on new images and g_ref that on old ones: of all steps under which the old loss does not rise, to first
order, the one nearest to g (Chaudhry, Ranzato, Rohrbach and Elhoseiny, *Efficient Lifelong Learning with A-GEM*, ICLR
2019). In the class-incremental setting this is weak: old images only veto, they are never learned from, and as long as
gradients agree the head's new rows win as they do without any memory.

Settings: those of the DER++ paper's comparison for CIFAR-10 (SGD at 0.03, 50 epochs of each task, 32 new and 32 old
images in a step, crops and mirror); the paper itself has one pass, 10 new and 1300 old images. Memory is what the paper
has: random images of old tasks, equally many of each class, chosen when a task is over.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ictrl.memory.buffer import Exemplars
from ictrl.memory.selection import greedy_balanced
from ictrl.methods.kept_images import ExemplarLearner
from ictrl.methods.rehearsal import RehearsalConfig
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.loop import TaskHooks


@dataclass(frozen=True)
class AGEMConfig(RehearsalConfig):
    """Gradients projected so that the loss on old images does not rise."""

    name: ClassVar[str] = "agem"


class AGEM(ExemplarLearner):
    """Averaged gradient episodic memory."""

    settings_type = AGEMConfig

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> Exemplars:
        settings: Any = self.settings
        rows = self.rows_of(y)
        self.resize(len(self.labels) + len(y.unique()))
        self.train(X, rows, settings.stage, hooks)
        places = greedy_balanced(self.held, rows, settings.buffer.images, self._state.generator)
        return self.remaining(self.kept_and(X, rows), places)

    def backward(self, loss: Float[Tensor, ""]) -> None:
        loss.backward()
        if self.kept is None:
            return
        old = self.replayed()
        logits = self.logits(self.shown(old.images, self.settings.stage.augmentation))
        # two passes, as the authors have them: BatchNorm sees new and old images apart
        reference = torch.autograd.grad(cross_entropy(logits, old.rows), self.trained)
        gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
        with torch.no_grad():
            project(gradients, reference)


def project(gradients: list[Tensor], reference: tuple[Tensor, ...]) -> None:
    """g ← g − min(0, g·r) / (r·r) r in place, the parts of g and r taken together as one vector."""
    along = torch.stack([(g * r).sum() for g, r in zip(gradients, reference)]).sum()
    length = torch.stack([r.square().sum() for r in reference]).sum()
    factor = along.clamp(max=0.0) / length.clamp(min=1e-12)
    for g, r in zip(gradients, reference):
        g.sub_(factor * r)
