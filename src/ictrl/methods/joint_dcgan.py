"""joint_dcgan: every image is kept, and with each task a new DCGAN and a new classifier learn all classes at once.

    critic: mean softplus(−D(x)) + mean softplus(D(g(e))),      decoder: mean softplus(−D(g(e))),      e ~ N(0, I)

(Radford, Metz and Chintala, *Unsupervised Representation Learning with Deep Convolutional Generative Adversarial
Networks*, ICLR 2016). It is what the i-CTRL paper compares its pictures with: the same decoder, trained jointly. No
answer to the problem of forgetting but a bound, as `joint` is, whose classifier it has. The decoder is told nothing of
classes; a picture of a class is one that the classifier takes for it.

Settings: the paper's: Adam at 2e-4 with β₁ 0.5, 128 images in a step. Their noise is uniform; here it is normal, as all
methods here have it. The networks are i-CTRL's: the critic is its encoder, with BatchNorm.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from ictrl.config import StageConfig
from ictrl.memory.buffer import Exemplars, exemplars_from
from ictrl.methods.adversarial import AdversarialConfig
from ictrl.methods.scholar import ScholarLearner
from ictrl.shapes import Int, UInt8
from ictrl.training.adversary import AdversaryConfig
from ictrl.training.loop import TaskHooks


@dataclass(frozen=True)
class JointDCGANConfig(AdversarialConfig):
    """A DCGAN and a classifier on all images seen so far, new ones with each task."""

    name: ClassVar[str] = "joint_dcgan"

    adversary: AdversaryConfig = field(
        default_factory=lambda: AdversaryConfig("non-saturating", critic_steps=1, beta1=0.5, beta2=0.999)
    )
    drawing: StageConfig = field(
        default_factory=lambda: StageConfig(epochs=100, batch=128, learning_rate=2e-4, ema=0.0)
    )


class JointDCGAN(ScholarLearner[Exemplars | None]):
    """Keeps every image, and learns to draw and to tell all of them anew with each task."""

    settings_type = JointDCGANConfig
    keeps_images = True
    keeps = "every training image"

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> Exemplars:
        classes = len(self.labels) + len(y.unique())
        # a copy: what the caller does with the images afterwards must not reach those that are kept
        new = Exemplars(X.to("cpu", copy=True), self.rows_of(y).cpu())
        both = new if self.kept is None else self.kept.joined(new)
        self._state = self._networks(torch.Generator().manual_seed(self.seed), self._state.generator)
        self.resize(classes)
        self.learn_with(both.images, both.rows.to(self.device), None, hooks)
        return both

    def kept_tensors(self) -> dict[str, Tensor]:
        return {} if self.kept is None else self.kept._asdict()

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> Exemplars | None:
        if not labels:
            return None
        return exemplars_from({name: tensor.cpu() for name, tensor in tensors.items()}, len(labels))
