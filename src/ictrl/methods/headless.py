"""What methods share that train with a head and throw it away: what is kept are statistics of features.

A task may have a head of its own, for its classes alone. Between tasks there is none, and classes are told by what is
kept: named tensors, whose shapes follow from the number of classes.
"""

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from ictrl.methods.supervised import SupervisedLearner
from ictrl.shapes import Int


class HeadlessLearner(SupervisedLearner[dict[str, Tensor]]):
    """An encoder, and statistics of its features."""

    predicts_by: ClassVar[tuple[str, ...]] = ("encoder",)
    only_to_learn: ClassVar[tuple[str, ...]] = ()
    """names of what is kept that `predict` does not need"""
    keeps_statistics = True

    @abstractmethod
    def shapes(self, classes: int) -> dict[str, tuple[int, ...]]:
        """Of all that is kept of so many classes."""

    def begin_head(self, rows: int, **more: nn.Module) -> None:
        """A head for the task that begins, and an optimiser for it and the encoder; `more` is learned beside it."""
        generator = self._state.generator
        head = self.new_head(self.settings.network.feature_dim).to(self.device).grown(rows, generator)  # type: ignore[operator]
        for name, module in more.items():
            head.add_module(name, module)
        self._state = self._with_head(self.encoder, head, generator)

    def throw_head_away(self) -> None:
        head = self.new_head(self.settings.network.feature_dim)
        self._state = self._with_head(self.encoder, head, self._state.generator)

    def resize(self, classes: int) -> None:
        """Nothing grows: between tasks there is no head."""

    def rows_of(self, y: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """Classes of this task alone, labels ascending from 0."""
        return y.unique(return_inverse=True)[1]

    def drop_row(self, row: int) -> None:
        """Nothing: between tasks there is no head."""

    def kept_without(self, row: int) -> dict[str, Tensor]:
        """Every tensor that grows with the classes, less this one; what does not is shared by all."""
        with_it, without = self.shapes(len(self.labels)), self.shapes(len(self.labels) - 1)
        found = dict(self.kept)
        for name, shape in with_it.items():
            for axis, (size, smaller) in enumerate(zip(shape, without[name])):
                if size != smaller:
                    stay = [i for i in range(size) if i != row]
                    found[name] = found[name].index_select(axis, torch.tensor(stay, device=found[name].device))
        return found

    def kept_tensors(self) -> dict[str, Tensor]:
        return self.kept

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if not labels:
            return {}
        return _of_shapes(tensors, self.shapes(len(labels)))

    def kept_to_predict(self) -> dict[str, Tensor]:
        return {name: kept for name, kept in self.kept.items() if name not in self.only_to_learn}

    def kept_to_predict_from(self, labels: list[int], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        needed = {name: shape for name, shape in self.shapes(len(labels)).items() if name not in self.only_to_learn}
        return _of_shapes(tensors, needed) if labels else {}


def _of_shapes(tensors: dict[str, Tensor], expected: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    found = {name: tuple(kept.shape) for name, kept in tensors.items()}
    if found != expected:
        raise ValueError(f"what is kept has shapes {found} and not {expected}")
    return tensors
