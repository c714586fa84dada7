"""What methods share that draw old images from a reservoir at every step of a task."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from torch import Tensor, nn
from torch.nn.functional import pad

from ictrl.config import StageConfig
from ictrl.errors import ConfigError
from ictrl.memory.buffer import Replayed, ReservoirBuffer, exemplars_from, reservoir_without
from ictrl.methods.supervised import OptimiserConfig, Seen, SupervisedConfig, SupervisedLearner, sgd_stage
from ictrl.shapes import Int, UInt8
from ictrl.training.loop import TaskHooks


@dataclass(frozen=True)
class BufferConfig:
    """Images that are kept of old classes, and how many of them a step is shown."""

    images: int = 500
    """kept at most, of all classes together"""
    batch: int = 32
    """drawn for each step"""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ConfigError(f"Expected buffer.{name} to be at least 1 but got {value}.")


@dataclass(frozen=True)
class RehearsalConfig(SupervisedConfig):
    """A stage for every task, and a buffer. The defaults are those of the DER++ paper for CIFAR-10."""

    optimiser: OptimiserConfig = field(default_factory=lambda: OptimiserConfig("sgd"))
    stage: StageConfig = field(default_factory=lambda: sgd_stage(epochs=50, batch=32, learning_rate=0.03))
    """every task"""
    buffer: BufferConfig = field(default_factory=BufferConfig)
    head_rows: int = 0
    """rows of the head from the first task on, those of classes yet to come included, which learn that no image so far
    is of theirs; the DER++ authors have all. 0: the head grows, since nobody may know how many will come"""
    head_initialisation: Literal["own", "torch"] = "own"
    """how new rows of the head begin: from N(0, 1/d) with a bias of 0, or as in PyTorch, uniform in ±1/√d, the bias
    too"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_initialisation not in ("own", "torch"):
            found = self.head_initialisation
            raise ConfigError(f'Expected head_initialisation to be "own" or "torch" but got {found!r}.')
        if self.head_rows < 0:
            raise ConfigError(f"Expected head_rows to be at least 0 but got {self.head_rows}.")


class RehearsalLearner(SupervisedLearner[dict[str, Tensor]]):
    """Adds the images of every step to a reservoir, and draws from it at every step."""

    keeps_images = True
    keeps = "some images"
    keeps_logits: ClassVar[bool] = False
    """whether logits are kept beside each image"""

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> dict[str, Tensor]:
        settings: Any = self.settings
        rows, classes = self.rows_of(y), len(self.labels) + len(y.unique())
        self.resize(classes)
        width = self.head_size(classes) if self.keeps_logits else 0
        buffer = ReservoirBuffer(settings.buffer.images, tuple(X.shape[1:]), width)
        buffer = buffer.to(self.device)
        if self.kept:
            buffer.load(self.kept)
        self.train(X, rows, settings.stage, hooks, {"buffer": buffer, **self.working(buffer)})
        return buffer.tensors()

    def working(self, buffer: ReservoirBuffer) -> Mapping[str, nn.Module]:
        """What else a task changes."""
        return {}

    def replayed(self, seen: Seen, working: Mapping[str, nn.Module]) -> Replayed:
        """Images drawn from the buffer for this step; while it holds too few, new ones beside them, as EMPTY."""
        buffer = working["buffer"]
        assert isinstance(buffer, ReservoirBuffer)
        return buffer.draw(self.settings.buffer.batch, self._state.generator).filled(seen.pixels)

    def after_step(self, seen: Seen, working: Mapping[str, nn.Module]) -> None:
        buffer = working["buffer"]
        assert isinstance(buffer, ReservoirBuffer)
        buffer.add(seen.pixels, seen.rows, self._state.generator)

    def kept_without(self, row: int) -> dict[str, Tensor]:
        found = reservoir_without(self.kept, row)
        if self.keeps_logits:  # a head with rows for classes yet to come has a new one of these
            missing = self.head_size(len(self.labels) - 1) - found["logits"].shape[1]
            found["logits"] = pad(found["logits"], (0, missing))
        return found

    def kept_tensors(self) -> dict[str, Tensor]:
        return self.kept

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if not labels:
            return {}
        images, _ = exemplars_from(tensors, len(labels))
        expected = {"images", "rows", "seen", *(["logits", "widths"] if self.keeps_logits else [])}
        if set(tensors) != expected or tensors["seen"].shape != ():
            raise ValueError(f"the buffer has {sorted(tensors)} and not {sorted(expected)}")
        expected_logits = (len(images), self.head_size(len(labels)))
        if self.keeps_logits and tensors["logits"].shape != expected_logits:
            raise ValueError(f"logits {tuple(tensors['logits'].shape)} and not {expected_logits}")
        return tensors
