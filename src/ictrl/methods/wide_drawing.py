"""What learners share that classify by wide features of a frozen trunk and draw from moments of other features.

The same classes are predicted as by `wide`, with the same probabilities: what is drawn has no say in it.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ictrl.config import Recipe
from ictrl.memory.store import Memory
from ictrl.memory.wide_memory import WideMemory, nothing_yet
from ictrl.methods.closed_loop import REPLAYED, DrawingLearner
from ictrl.methods.forgetting import IN_THE_WEIGHTS
from ictrl.methods.inference import check_can_draw
from ictrl.methods.threads import reads
from ictrl.methods.wide import Wide, WideConfig, WideLearner
from ictrl.shapes import Float, Int
from ictrl.training.state import group

WIDE, DRAWN = "wide", "drawn"  # of names of what is kept


class WideAndDrawn(NamedTuple):
    """What is kept of all classes, to classify by and to draw from."""

    wide: WideMemory
    drawn: Memory

    def without(self, place: int) -> "WideAndDrawn":
        """Less the class in that place of the order of learning."""
        return WideAndDrawn(self.wide.without(place), self.drawn.without(place))


class WideDrawingLearner(WideLearner[WideAndDrawn], DrawingLearner[WideAndDrawn]):
    """Keeps wide memory, and moments of what the decoder draws from."""

    keeps = "class means, one covariance, moments to draw from"

    @property
    def wide_memory(self) -> WideMemory:
        return self.kept.wide

    @property
    def memory(self) -> Memory:
        return self.kept.drawn

    @property
    def own_encoder(self) -> nn.Module | None:
        return self._own_networks[0]

    @property
    @abstractmethod
    def as_wide(self) -> WideConfig:
        """The settings of a `wide` that has this one's trunk and reading."""

    def encode(self, images: Tensor) -> Float[Tensor, "n d"]:
        check_can_draw(self, "give features to draw from")
        return super().encode(images)

    def replayed(self, generator: torch.Generator) -> tuple[Float[Tensor, "n d"], Int[Tensor, " n"]]:
        """Features of every class as `sample` draws them, and the rows of their classes."""
        return self.memory.gaussians().sample(REPLAYED, generator)

    @reads
    def replay_recognised(self) -> float:
        """Share of images drawn from memory, as `sample` gives them, for which `predict` gives their class."""
        check_can_draw(self, "replay")
        Z, y = self.replayed(torch.Generator(self.device).manual_seed(0))
        predicted = self.reader.scores(self.wide_memory, self.decode(Z)).argmax(1)
        return float((predicted == y).double().mean())

    def what_remains(self) -> list[str]:
        return [IN_THE_WEIGHTS, *super().what_remains()[1:]]

    def kept_tensors(self) -> dict[str, Tensor]:
        if not self.labels:
            return {}
        parts: Mapping[str, dict[str, Tensor]] = {WIDE: self.wide_memory.tensors(), DRAWN: self.memory.state()}
        return {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> WideAndDrawn:
        if not labels:
            return WideAndDrawn(nothing_yet(self.device), Memory())
        wide, drawn = (group(tensors, part) for part in (WIDE, DRAWN))
        d = self.recipe.method.network.feature_dim
        return WideAndDrawn(self.reader.kept_from(len(labels), wide), Memory.from_state(labels, drawn, d))

    def kept_to_predict(self) -> dict[str, Tensor]:
        return {name: kept for name, kept in self.kept_tensors().items() if name.startswith(f"{WIDE}.")}

    def kept_to_predict_from(self, labels: list[int], tensors: dict[str, Tensor]) -> WideAndDrawn:
        if not labels:
            return self.kept_from([], {})
        return WideAndDrawn(self.reader.kept_from(len(labels), group(tensors, WIDE)), Memory())

    def remembering(self, recipe: Recipe | None = None) -> Wide:
        """As `wide` would go on from here: for the floors."""
        return super().remembering(recipe or replace(self.recipe, method=self.as_wide))
