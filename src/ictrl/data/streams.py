"""Class-incremental streams: a dataset whose classes arrive task by task.

A task holds the positions of its images in the dataset, not the images: they are gathered when they are asked for, so
that a dataset is in memory once, however it is cut.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ictrl.config import DataConfig
from ictrl.data.dataset import Dataset
from ictrl.errors import InputError
from ictrl.training.loader import fits

VALIDATION = 20260101  # seed of the images that are held out for validation; another than any subset's
FEWEST = 2  # training images of a class: the learner takes no fewer


@dataclass(frozen=True)
class Task:
    """The images of a few classes: those to learn from, and those to be tested on. Each access gathers them anew."""

    classes: tuple[int, ...]
    dataset: Dataset
    rows: Int[Tensor, " n"]
    test_rows: Int[Tensor, " m"]

    @property
    def images(self) -> UInt8[Tensor, "n c h w"]:
        return self.dataset.images[self.rows]

    @property
    def labels(self) -> Int[Tensor, " n"]:
        return self.dataset.labels[self.rows]

    @property
    def test_images(self) -> UInt8[Tensor, "m c h w"]:
        return self.dataset.test_images[self.test_rows]

    @property
    def test_labels(self) -> Int[Tensor, " m"]:
        return self.dataset.test_labels[self.test_rows]


def near(tasks: list[Task], device: torch.device) -> list[Task]:
    """The same tasks, with their images on the device if there is ample room: a run gathers them again and again."""
    dataset = tasks[0].dataset
    parts = dataset.images, dataset.test_images
    if not all(fits(images, device, share=0.2) for images in parts):  # a task's images are gathered beside them
        return tasks
    images, test_images = (part.to(device) for part in parts)
    moved = replace(dataset, images=images, test_images=test_images)
    return [replace(task, dataset=moved) for task in tasks]


def split_tasks(dataset: Dataset, data: DataConfig) -> list[Task]:
    """The dataset's classes, in the order and in the tasks that the settings ask for, with the images they leave."""
    classes = order_classes(sorted(dataset.class_names), data.class_order, data.class_order_seed)
    groups = group_classes(classes, data.tasks, data.task_sizes, dataset.name)
    beyond = [number for number in data.halved_tasks if number > len(groups)]
    if beyond:
        raise InputError(f"Expected data.halved_tasks among the {len(groups)} tasks but got {beyond[0]}.")
    if data.validation:  # nothing of the test part is left to look at
        dataset, kept, held = _with_validation(dataset, data)
    else:
        kept, held = torch.arange(len(dataset.labels)), torch.arange(len(dataset.test_labels))
    labels, test_labels = dataset.labels[kept], dataset.test_labels[held]
    tasks = []
    for number, group in enumerate(groups, start=1):
        share = data.subset * (data.halved_share if number in data.halved_tasks else 1.0)
        rows = [kept[choose(labels, label, share, data.limit, data.subset_seed)] for label in group]
        test_rows = [held[choose(test_labels, label, 1.0, data.limit, data.subset_seed)] for label in group]
        for label, chosen, tested in zip(group, rows, test_rows):
            _check_enough(dataset, label, len(chosen), share)
            if data.validation and not len(tested):
                raise InputError(
                    f"Expected a validation image of class {label} but a share of {data.validation:g} gives none: "
                    "raise data.validation."
                )
        tasks.append(Task(group, dataset, torch.cat(rows).sort().values, torch.cat(test_rows).sort().values))
    return tasks


def _with_validation(dataset: Dataset, data: DataConfig) -> tuple[Dataset, Tensor, Tensor]:
    """The dataset with its training images in both parts, the positions to learn from, and those to be measured on.

    Which images are held out depends on nothing but the data: all settings are compared on the same ones.
    """
    parts = [choose(dataset.labels, label, data.validation, None, VALIDATION) for label in dataset.class_names]
    chosen = torch.zeros(len(dataset.labels), dtype=torch.bool)
    chosen[torch.cat(parts)] = True
    both = replace(dataset, test_images=dataset.images, test_labels=dataset.labels)
    return both, (~chosen).nonzero().flatten(), chosen.nonzero().flatten()


def order_classes(classes: Sequence[int], given: Sequence[int], seed: int | None) -> list[int]:
    """The classes as they are, in the order given, or shuffled by a seed.

    >>> order_classes([0, 1, 2], given=[2, 0, 1], seed=None)
    [2, 0, 1]
    """
    if given:
        unknown, absent = sorted(set(given) - set(classes)), sorted(set(classes) - set(given))
        if unknown or absent or len(given) != len(classes):
            wrong = f"{unknown} that are no classes" if unknown else f"{len(given)} without {absent}"
            raise InputError(
                f"Expected data.class_order to name each of the {len(classes)} classes once but got {wrong}."
            )
        return list(given)
    if seed is None:
        return list(classes)
    shuffled = torch.randperm(len(classes), generator=torch.Generator().manual_seed(seed))
    return [classes[position] for position in shuffled.tolist()]


def group_classes(classes: Sequence[int], tasks: int, sizes: Sequence[int], name: str) -> list[tuple[int, ...]]:
    """The classes of the dataset of that name, cut into tasks of equally many, or of the sizes given.

    >>> group_classes([3, 1, 2, 0], tasks=2, sizes=(), name="toy")
    [(3, 1), (2, 0)]
    >>> group_classes([3, 1, 2, 0], tasks=2, sizes=(1, 1, 2), name="toy")
    [(3,), (1,), (2, 0)]
    """
    if sizes and sum(sizes) != len(classes):
        raise InputError(
            f"Expected data.task_sizes to add up to the {len(classes)} classes of {name} but "
            f"{' + '.join(map(str, sizes))} = {sum(sizes)}."
        )
    if not sizes and len(classes) % tasks:
        raise InputError(
            f"Expected a number of tasks that divides the {len(classes)} classes of {name} but got {tasks}. "
            "For tasks of unequal size, give data.task_sizes."
        )
    sizes = sizes or [len(classes) // tasks] * tasks
    return [tuple(classes[start:end]) for start, end in pairwise(accumulate(sizes, initial=0))]


def choose(labels: Int[Tensor, " n"], label: int, share: float, limit: int | None, seed: int) -> Int[Tensor, " chosen"]:
    """Positions of some of a class's images, ascending.

    They depend on the seed and the class alone, not on the order of classes or the task; and what a smaller share or
    limit chooses, a larger one chooses too.
    """
    rows = (labels == label).nonzero().flatten()
    wanted = min(round(share * len(rows)), len(rows) if limit is None else limit)
    if wanted == len(rows):
        return rows
    digest = hashlib.sha256(f"{seed} {label}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
    return rows[torch.randperm(len(rows), generator=generator)[:wanted]].sort().values


@dataclass(frozen=True)
class TaskSummary:
    """A task in numbers, for `ictrl data show`: for each class its label, its name and how many images it has."""

    number: int
    classes: tuple[int, ...]
    names: tuple[str, ...]
    images: tuple[int, ...]
    test_images: tuple[int, ...]


def describe_stream(tasks: Sequence[Task]) -> list[TaskSummary]:
    """What the stream will be, task by task."""
    return [
        TaskSummary(
            number=number,
            classes=task.classes,
            names=tuple(task.dataset.class_names[label] for label in task.classes),
            images=tuple(int((task.labels == label).sum()) for label in task.classes),
            test_images=tuple(int((task.test_labels == label).sum()) for label in task.classes),
        )
        for number, task in enumerate(tasks, start=1)
    ]


def _check_enough(dataset: Dataset, label: int, left: int, share: float) -> None:
    if left < FEWEST:
        total = int((dataset.labels == label).sum())
        raise InputError(
            f"Expected at least {FEWEST} training images of class {label} ({dataset.class_names[label]}) but "
            + (
                f"a share of {share:g} leaves {left} of {total}: raise data.subset or data.halved_share, or add images."
                if share < 1
                else f"there is {total}, beside those held out to test: add images."
            )
        )
