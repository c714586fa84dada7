"""What methods share that hold each weight where it was, the more firmly the more the old tasks depend on it.

    loss = CE(W f(x), y) + strength · Σᵢ importanceᵢ (θᵢ − anchorᵢ)²,

anchor the weights at the end of the task before. Both are kept, two numbers per weight, as one vector each: encoder
first, then head, in the order of their parameters. Rows of the head that are new have importance 0.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from ictrl.config import StageConfig
from ictrl.methods.supervised import OptimiserConfig, Seen, SupervisedConfig, SupervisedLearner, sgd_stage
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.loop import TaskHooks


@dataclass(frozen=True)
class ConsolidationConfig(SupervisedConfig):
    """A stage for every task. The defaults are those of the DER++ paper's comparison for CIFAR-10."""

    optimiser: OptimiserConfig = field(default_factory=lambda: OptimiserConfig("sgd"))
    stage: StageConfig = field(default_factory=lambda: sgd_stage(epochs=50, batch=32, learning_rate=0.03))
    """every task"""


class Held(NamedTuple):
    """Where each weight was, and how much the old tasks depend on it."""

    importance: Float[Tensor, " p"]
    anchor: Float[Tensor, " p"]


class ConsolidationLearner(SupervisedLearner[Held | None]):
    """Pays for moving weights that matter."""

    keeps = "two numbers per weight"
    _held: Held | None = None  # while a later task is learned

    # what a method writes

    @property
    @abstractmethod
    def strength(self) -> float:
        """Weight of the penalty."""

    @abstractmethod
    def importance(
        self,
        X: UInt8[Tensor, "n c h w"],
        before: Float[Tensor, " p"] | None,
        start: Float[Tensor, " p"],
        working: Mapping[str, nn.Module],
    ) -> Float[Tensor, " p"]:
        """Of each weight after a task, from that of before, the weights at the task's start and its working modules."""

    def working(self) -> Mapping[str, nn.Module]:
        """What a task changes besides the networks."""
        return {}

    # what it gets

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> Held:
        rows, shapes = self.rows_of(y), self.shapes()
        self.resize(len(self.labels) + len(y.unique()))
        if self.kept is not None:
            self._held = Held(*(grown(part, shapes, self.shapes()) for part in self.kept))
        start, working = self.weights().detach(), self.working()
        self.train(X, rows, self.settings.stage, hooks, working)
        before = None if self._held is None else self._held.importance
        found = Held(self.importance(X, before, start, working), self.weights().detach())
        self._held = None
        return found

    def loss(self, seen: Seen, working: Mapping[str, nn.Module]) -> dict[str, Tensor]:
        terms = {"cross_entropy": cross_entropy(self.logits(seen.X), seen.rows)}
        if self._held is not None:
            moved = self.weights() - self._held.anchor
            terms["penalty"] = self.strength * (self._held.importance * moved.square()).sum()
        return terms

    def weights(self) -> Float[Tensor, " p"]:
        """All of them, as a new vector through which gradients pass."""
        return flat(self.trained)

    def shapes(self) -> list[torch.Size]:
        return [parameter.shape for parameter in self.trained]

    def kept_without(self, row: int) -> Held | None:
        """The numbers of the head's row go with it."""
        encoder = len(list(self.encoder.parameters()))

        def less(values: Float[Tensor, " p"]) -> Float[Tensor, " q"]:
            parts = values.split([shape.numel() for shape in self.shapes()])
            rows = [part.view(shape) for part, shape in zip(parts[encoder:], self.shapes()[encoder:])]
            return flat([*parts[:encoder], *(torch.cat([part[:row], part[row + 1 :]]) for part in rows)])

        return None if self.kept is None else Held(*(less(part) for part in self.kept))

    def kept_tensors(self) -> dict[str, Tensor]:
        return {} if self.kept is None else self.kept._asdict()

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> Held | None:
        if not labels:
            return None
        held, expected = Held(tensors["importance"], tensors["anchor"]), (sum(s.numel() for s in self.shapes()),)
        for name, part in held._asdict().items():
            if tuple(part.shape) != expected or part.dtype != torch.float32:
                raise ValueError(f"{name} {part.dtype} {tuple(part.shape)} for weights {expected}")
        return held


def flat(parts: Iterable[Tensor]) -> Float[Tensor, " p"]:
    """Tensors of any shape as one vector."""
    return torch.cat([part.flatten() for part in parts])


def grown(values: Float[Tensor, " p"], before: Sequence[torch.Size], now: Sequence[torch.Size]) -> Float[Tensor, " q"]:
    """A number per weight, and 0 for the weights that have come: those at the end of each dimension.

    >>> row, bias = torch.Size([1, 2]), torch.Size([1])
    >>> grown(torch.tensor([1.0, 2.0, 3.0]), [row, bias], [torch.Size([2, 2]), torch.Size([2])])
    tensor([1., 2., 0., 0., 3., 0.])
    """
    parts = values.split([shape.numel() for shape in before])
    return flat(
        pad(part.view(old), [more for a, b in zip(old[::-1], new[::-1]) for more in (0, b - a)])
        for part, old, new in zip(parts, before, now)
    )
