"""joint: every image is kept, and with each task new networks learn all classes seen so far at once.

Not an answer to the problem but its upper bound: what the same encoder and head could do if nothing had to be
forgotten. It keeps every training image and says so: `keeps_images`, and their bytes in `kept_bytes`.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ictrl.config import MethodConfig, StageConfig
from ictrl.methods.finetune import CrossEntropyLearner, check_stage
from ictrl.training.loop import TaskHooks


@dataclass(frozen=True)
class JointConfig(MethodConfig):
    """Cross-entropy on all images seen so far, by new networks with each task."""

    name: ClassVar[str] = "joint"

    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    """of the convolutions; auto: bfloat16 on a GPU, float32 elsewhere"""
    stage: StageConfig = field(default_factory=lambda: StageConfig(epochs=40, batch=128, learning_rate=1e-3, ema=0.0))

    def __post_init__(self) -> None:
        check_stage("stage", self.stage)


class Everything(NamedTuple):
    """All training images so far, and the rows of the head that their classes have."""

    images: Tensor
    rows: Tensor


class Joint(CrossEntropyLearner[Everything | None]):
    """Keeps every image, and learns all of them anew with each task."""

    settings_type = JointConfig
    keeps_images = True

    def fit(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> Everything:
        labels, old = y.unique(), len(self.labels)
        # a copy: what the caller does with the images afterwards must not reach those that are kept
        new = Everything(X.to("cpu", copy=True), (old + torch.searchsorted(labels, y)).cpu())
        both = new if self.kept is None else Everything(*(torch.cat(pair) for pair in zip(self.kept, new)))
        self._state = self._networks(torch.Generator().manual_seed(self.seed), self._state.generator)
        self.resize(old + len(labels))
        self.train(both.images, both.rows.to(self.device), self.settings.stage, hooks)
        return both

    def kept_tensors(self) -> dict[str, Tensor]:
        return {} if self.kept is None else self.kept._asdict()

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> Everything | None:
        if not labels:
            return None
        images, rows = tensors["images"].cpu(), tensors["rows"].cpu()
        if images.dtype != torch.uint8 or images.ndim != 4 or rows.shape != (len(images),):
            raise ValueError(f"images {images.dtype} {tuple(images.shape)} with rows {tuple(rows.shape)}")
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(labels):
            raise ValueError(f"rows from {int(rows.min())} to {int(rows.max())} for {len(labels)} classes")
        return Everything(images, rows)
