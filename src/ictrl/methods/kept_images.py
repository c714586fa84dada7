"""What methods share that choose the images they keep once, after a task."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ictrl.errors import ConfigError
from ictrl.memory.buffer import Exemplars, exemplars_from
from ictrl.methods.supervised import SupervisedLearner
from ictrl.shapes import Int, UInt8


@dataclass(frozen=True)
class KeptImagesConfig:
    """How many images are kept."""

    images: int = 500
    """kept at most, of all classes together"""

    def __post_init__(self) -> None:
        if self.images < 1:
            raise ConfigError(f"Expected buffer.images to be at least 1 but got {self.images}.")


class ExemplarLearner(SupervisedLearner[Exemplars | None]):
    """Keeps images, the same ones all through a task; None before the first."""

    keeps_images = True
    keeps = "some images"

    @property
    def held(self) -> Int[Tensor, " n"]:
        """The rows of the images that are kept."""
        return torch.zeros(0, dtype=torch.long, device=self.device) if self.kept is None else self.kept.rows

    def replayed(self) -> Exemplars:
        """Different images of those that are kept, drawn for this step: all of them where there are too few."""
        assert self.kept is not None
        settings: Any = self.settings
        order = torch.rand(len(self.kept.rows), generator=self._state.generator, device=self.device)
        return self.kept.at(order.topk(min(settings.buffer.batch, len(order))).indices)

    def kept_and(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"]) -> Exemplars:
        """The images that are kept, and the new ones behind them, wherever these lie."""
        new = Exemplars(X, rows.to(X.device))
        return new if self.kept is None else Exemplars(*(part.to(X.device) for part in self.kept)).joined(new)

    def remaining(self, both: Exemplars, places: Int[Tensor, " m"]) -> Exemplars:
        """Copies of those at these places, on the learner's device."""
        images, rows = both.at(places)
        return Exemplars(images.to(self.device), rows.to(self.device))

    def kept_tensors(self) -> dict[str, Tensor]:
        return {} if self.kept is None else self.kept._asdict()

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> Exemplars | None:
        return exemplars_from(tensors, len(labels)) if labels else None
