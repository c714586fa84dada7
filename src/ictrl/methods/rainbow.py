"""rainbow: rainbow memory. Of each class images are kept from sure to unsure, and replayed beside the new ones.

    u(x) = 1 − max_c S_c(x) / T,

S_c the number of T perturbed views of x that the network takes for class c. After a task, the images of each class, old
and new, are sorted by u, and equally many of each class are kept at even steps: typical images and those at the border
(Bang, Kim, Yoo, Ha and Choi, *Rainbow Memory: Continual Learning with a Memory of Diverse Samples*, CVPR 2021).

Settings: the authors' for CIFAR-10: SGD with momentum 0.9 and weight decay 1e-4, 8 new and 8 old images in a step (16
new ones in the first task), 256 epochs of each task with GDumb's rates, CutMix in half of the steps, crops and mirror,
T = 12. Simplified: views are crops and changes of colour instead of RandAugment, training has no AutoAugment, momentum
is not Nesterov's, and places that a small class leaves free stay free.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ictrl.config import AugmentationConfig, StageConfig
from ictrl.errors import ConfigError
from ictrl.memory.buffer import Exemplars, balanced
from ictrl.memory.selection import spread
from ictrl.methods.checks import check_chance
from ictrl.methods.gdumb import restarted_stage
from ictrl.methods.kept_images import ExemplarLearner
from ictrl.methods.rehearsal import BufferConfig, RehearsalConfig
from ictrl.methods.supervised import OptimiserConfig, Seen
from ictrl.nets.layers import exact_float32
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.cutmix import cutmix, mixed_cross_entropy
from ictrl.training.loop import TaskHooks
from ictrl.training.task import CHUNK


@dataclass(frozen=True)
class RainbowConfig(RehearsalConfig):
    """Cross-entropy on new and replayed images; what is kept is chosen by how unsure the network is."""

    name: ClassVar[str] = "rainbow"

    optimiser: OptimiserConfig = field(default_factory=lambda: OptimiserConfig("sgd", 0.9, 1e-4))
    stage: StageConfig = field(default_factory=lambda: restarted_stage(batch=8))
    """every task"""
    buffer: BufferConfig = field(default_factory=lambda: BufferConfig(batch=8))
    cutmix: float = 0.5
    """chance that the images of a step are mixed"""
    views: int = 12
    """T, perturbed views by which it is told how sure the network is of an image"""
    perturbation: AugmentationConfig = field(
        default_factory=lambda: AugmentationConfig(mirror=True, shifts=4, crop=0.3, jitter=0.5, grey=0.2)
    )
    """of these views"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_chance("cutmix", self.cutmix)
        if self.views < 1:
            raise ConfigError(f"Expected views to be at least 1 but got {self.views}.")
        if self.perturbation.rotations:
            raise ConfigError("Expected perturbation.rotations to be false: a head has no rows for rotations.")


class Rainbow(ExemplarLearner):
    """Rainbow memory."""

    settings_type = RainbowConfig

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> Exemplars:
        settings: Any = self.settings
        rows, stage = self.rows_of(y), settings.stage
        self.resize(len(self.labels) + len(y.unique()))
        if self.kept is None:  # steps of as many images as later
            stage = replace(stage, batch=stage.batch + settings.buffer.batch)
        self.train(X, rows, stage, hooks)
        both = self.kept_and(X, rows)
        return self.remaining(both, self.diverse(both, settings.buffer.images))

    def loss(self, seen: Seen, working: Mapping[str, nn.Module]) -> dict[str, Tensor]:
        X, rows = seen.X, seen.rows
        if self.kept is not None:
            old = self.replayed()
            X = torch.cat([X, self.shown(old.images, self.settings.stage.augmentation)])
            rows = torch.cat([rows, old.rows])
        X, partners, share = cutmix(X, self.settings.cutmix, self._state.generator)
        return {"cross_entropy": mixed_cross_entropy(self.logits(X), rows, partners, share)}

    def diverse(self, among: Exemplars, capacity: int) -> Int[Tensor, " m"]:
        """Places of equally many images of each class, from those that the network is sure of to the others."""
        unsure, found = self.uncertainty(among.images).to(among.rows.device), []
        for row, count in balanced(among.rows, capacity).items():
            mine = (among.rows == row).nonzero().flatten()
            found.append(mine[spread(unsure[mine], count)])
        return torch.cat(found)

    def uncertainty(self, images: UInt8[Tensor, "n c h w"]) -> Float[Tensor, " n"]:
        """1 − the largest share of perturbed views that are taken for one and the same class."""
        settings: Any = self.settings
        found = []
        with torch.no_grad(), exact_float32():
            for part in images.split(CHUNK):
                pixels = part.to(self.device)
                votes = torch.zeros(len(pixels), len(self.head.bias), device=self.device)  # type: ignore[arg-type]
                for _ in range(settings.views):
                    taken_for = self.logits(self.shown(pixels, settings.perturbation)).argmax(1)
                    votes[torch.arange(len(pixels), device=self.device), taken_for] += 1
                found.append(1 - votes.amax(1) / settings.views)
        return torch.cat(found)
