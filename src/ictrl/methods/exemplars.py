"""What methods share that learn each task from its images and a herd of exemplars of the old classes.

The exemplars are those images of a class whose mean of features comes nearest to that of all (herding). There is room
for a fixed number of images, equally many of each class: with every task the old classes give up their last ones. A
*teacher*, the networks as they were, says what old classes look like in the images of a task.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ictrl.errors import ConfigError
from ictrl.memory.buffer import Exemplars, balanced, exemplars_from, herded
from ictrl.methods.supervised import SupervisedConfig, SupervisedLearner
from ictrl.nets.wrappers import run_in
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.replay import frozen_copy


@dataclass(frozen=True)
class ExemplarsConfig:
    """Images that are kept of old classes."""

    images: int = 500
    """kept at most, of all classes together"""

    def __post_init__(self) -> None:
        if self.images < 1:
            raise ConfigError(f"Expected buffer.images to be at least 1 but got {self.images}.")


@dataclass(frozen=True)
class ExemplarLearnerConfig(SupervisedConfig):
    """Settings of every method that keeps herded exemplars."""

    buffer: ExemplarsConfig = field(default_factory=ExemplarsConfig)


class Teacher(nn.Module):
    """An encoder and a head as they were, that say what they see in an image. A working module of a task."""

    def __init__(self, encoder: nn.Module, head: nn.Module, precision: torch.dtype) -> None:
        super().__init__()
        self.encoder, self.head, self.precision = frozen_copy(encoder), frozen_copy(head), precision

    @torch.no_grad()
    def forward(self, X: Float[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """Logits."""
        return self.head(run_in(self.precision, self.encoder, X).float())


class ExemplarLearner(SupervisedLearner[dict[str, Tensor]]):
    """Keeps exemplars, class by class, in the order of herding; a method may keep more tensors beside them."""

    keeps_images = True
    keeps = "some images"

    def exemplars(self) -> Exemplars:
        """Those of the old classes, in the host's memory."""
        if not self.kept:
            network = self.recipe.method.network
            shape = (0, network.channels, network.image_size, network.image_size)
            return Exemplars(torch.zeros(shape, dtype=torch.uint8), torch.zeros(0, dtype=torch.long))
        return Exemplars(self.kept["images"], self.kept["rows"])

    def with_exemplars(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"]) -> Exemplars:
        """Exemplars of the old classes, and behind them the images of a task."""
        return self.exemplars().joined(Exemplars(X.cpu(), rows.cpu()))

    def check_room(self, classes: int) -> None:
        """Every class needs an exemplar."""
        if (images := self.settings.buffer.images) < classes:
            raise ConfigError(
                f"Expected buffer.images to be at least the {classes} classes but got {images}: "
                "every class needs an exemplar."
            )

    def teacher(self) -> Teacher:
        """The networks as they are now."""
        return Teacher(self.encoder, self.head, self._precision)

    def herd(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"], counts: dict[int, int]) -> Int[Tensor, " m"]:
        """Places of so many images of each class, class by class, the best first."""
        Z, rows = normalize(self.encode(X)), rows.to(self.device)
        members = {row: (rows == row).nonzero()[:, 0] for row in rows.unique().tolist()}
        return torch.cat([places[herded(Z[places], counts[row])] for row, places in members.items()]).cpu()

    def remembered(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"]) -> Exemplars:
        """What is kept after a task: fewer exemplars of each old class, and a herd of each new one."""
        old = self.exemplars()
        room = balanced(torch.cat([old.rows, rows.cpu()]), self.settings.buffer.images)
        new = self.herd(X, rows, room)
        # indexing copies: what the caller does with the images afterwards does not reach those that are kept
        return old.at(first_of_each(old.rows, room)).joined(
            Exemplars(X[new.to(X.device)].cpu(), rows[new.to(rows.device)].cpu())
        )

    def kept_without(self, row: int) -> dict[str, Tensor]:
        return {**self.kept, **self.exemplars().without(row)._asdict()}

    def kept_tensors(self) -> dict[str, Tensor]:
        return self.kept

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if not labels:
            return {}
        images, rows = exemplars_from(tensors, len(labels))
        if len(rows.unique()) != len(labels):
            raise ValueError(f"exemplars of {len(rows.unique())} classes for {len(labels)} labels")
        return {**tensors, "images": images.cpu(), "rows": rows.cpu()}


def first_of_each(rows: Int[Tensor, " n"], counts: dict[int, int]) -> Int[Tensor, " m"]:
    """Places of the first so many of each row.

    >>> first_of_each(torch.tensor([0, 0, 0, 1, 1]), {0: 2, 1: 1}).tolist()
    [0, 1, 3]
    """
    places = [(rows == row).nonzero()[: counts[row], 0] for row in rows.unique().tolist()]
    return torch.cat(places) if places else torch.zeros(0, dtype=torch.long)
