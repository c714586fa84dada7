"""The real images that drawings are held against, looked at once however many learners are measured.

Of each class some training images and some test images are chosen, by a seed of their own. The training images stand
for what is real. The test images, real too, are measured like drawings: what they reach is the floor.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ictrl.data import Task
from ictrl.data.streams import choose
from ictrl.errors import InputError
from ictrl.methods.inputs import whole_number
from ictrl.shapes import Float, UInt8
from ictrl.theory.copies import NEAREST
from ictrl.theory.neighbours import nearest
from ictrl.training.task import CHUNK
from ictrl.visualize.judges import Judge, look

CHOICE = 20260102  # seed of which images are chosen, where there are more than needed
SETS_PER_CLASS = 2

Told = Callable[[], None]
"""told of every set of images that has been looked at"""


class RealImages:
    """Training and test images of some classes, their features, and distances between them."""

    def __init__(
        self,
        tasks: Sequence[Task],
        labels: Sequence[int],
        judge: Judge,
        images: int,
        device: torch.device,
        told: Told = lambda: None,
    ) -> None:
        """`images` over all classes, or as many as there are; `told` is called after each of two sets per class."""
        each = whole_number(images, "images", least=max(2, len(labels))) // len(labels)
        self.judge, self.device, self.labels = judge, device, [*labels]
        self.tasks = [task for task in tasks if any(label in task.classes for label in labels)]
        self.training: dict[int, Float[Tensor, "n d"]] = {}
        self.test_images: dict[int, UInt8[Tensor, "m c h w"]] = {}
        self.test: dict[int, Float[Tensor, "m d"]] = {}
        self._near: dict[tuple[int, ...], dict[int, Float[Tensor, "m k"]]] = {}
        for label in labels:
            chosen, self.test_images[label] = _choose(tasks, label, each)
            self.training[label] = self.look(chosen)
            told()
            self.test[label] = self.look(self.test_images[label])
            told()

    def look(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Features of images, on the CPU."""
        return look(self.judge, X, self.device)

    def fewest(self, label: int) -> int:
        """How many images of a class there are of both kinds."""
        return min(len(self.training[label]), len(self.test[label]))

    def to_training(self, X: UInt8[Tensor, "n c h w"], labels: Sequence[int]) -> Float[Tensor, "n k"]:
        """Distances, in pixels, to the nearest of all training images of these classes, the nearest first."""
        pixels, found = X.flatten(1).to(self.device), []
        for task in self.tasks:
            wanted = torch.isin(task.labels, torch.tensor([*labels])).nonzero().flatten()
            if not len(wanted):
                continue
            images = task.images
            for rows in wanted.split(CHUNK):  # images may lie in a file
                found.append(nearest(pixels, images[rows].flatten(1), min(NEAREST, len(rows)))[1])
        return torch.cat(found, 1).sort(1).values[:, :NEAREST]

    def test_to_training(self, labels: Sequence[int]) -> dict[int, Float[Tensor, "m k"]]:
        """The same distances of the test images of each of these classes."""
        key = tuple(sorted(labels))
        if key not in self._near:
            self._near[key] = {label: self.to_training(self.test_images[label], key) for label in key}
        return self._near[key]


def _choose(tasks: Sequence[Task], label: int, most: int) -> tuple[UInt8[Tensor, "n c h w"], UInt8[Tensor, "m c h w"]]:
    """Training and test images of a class, each at most so many."""
    task = next((task for task in tasks if label in task.classes), None)
    if task is None:
        raise InputError(f"Expected data with class {label}, which was learned, but it has no such class.")

    def some(labels: Tensor) -> Tensor:
        rows = choose(labels, label, 1.0, most, CHOICE)
        # in random order: the first ones of a class stand for all of it where fewer are compared
        return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(CHOICE))]

    return task.images[some(task.labels)], task.test_images[some(task.test_labels)]
