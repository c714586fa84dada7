"""What methods share that train with a head and throw it away: what is kept are statistics of features.

A task may have a head of its own, for its classes alone. Between tasks there is none, and classes are told by what is
kept: named tensors, whose shapes follow from the number of classes.
"""

from abc import abstractmethod

from jaxtyping import Int
from torch import Tensor, nn

from ictrl.methods.supervised import SupervisedLearner


class HeadlessLearner(SupervisedLearner[dict[str, Tensor]]):
    """An encoder, and statistics of its features."""

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

    def kept_tensors(self) -> dict[str, Tensor]:
        return self.kept

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if not labels:
            return {}
        expected, found = self.shapes(len(labels)), {name: tuple(kept.shape) for name, kept in tensors.items()}
        if found != expected:
            raise ValueError(f"what is kept has shapes {found} and not {expected}")
        return tensors
