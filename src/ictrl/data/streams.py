"""Class-incremental streams: a dataset whose classes arrive task by task.

A task holds not its images but their positions in the dataset, and gathers the images when it is asked for them: a
dataset is in memory once, however it is divided into tasks. Images that lie in a file stay there (`image_file.py`).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from ictrl.config import StreamConfig
from ictrl.data.arrays import Array
from ictrl.data.dataset import Dataset
from ictrl.data.image_file import take
from ictrl.errors import InputError
from ictrl.shapes import Int, UInt8

VALIDATION = 20260101  # seed that chooses the validation images, unlike that of any subset
FEWEST = 2  # training images that a learner needs of each class
PARTS = ("images", "labels", "test_images", "test_labels")


@dataclass(frozen=True)
class Task:
    """The images of a few classes, to learn from and to be tested on. Each access to them gathers them anew."""

    classes: tuple[int, ...]
    dataset: Dataset
    rows: Int[Tensor, " n"]
    test_rows: Int[Tensor, " m"]

    def __repr__(self) -> str:
        classes = ", ".join(map(str, self.classes[:8])) + (" …" if len(self.classes) > 8 else "")
        counts = f"{len(self.rows)} training and {len(self.test_rows)} test images"
        return f"Task({self.dataset.name!r}, classes {classes}, {counts})"

    @property
    def images(self) -> UInt8[Tensor, "n c h w"]:
        return take(self.dataset.images, self.rows)

    @property
    def labels(self) -> Int[Tensor, " n"]:
        return self.dataset.labels[self.rows]

    @property
    def test_images(self) -> UInt8[Tensor, "m c h w"]:
        return take(self.dataset.test_images, self.test_rows)

    @property
    def test_labels(self) -> Int[Tensor, " m"]:
        return self.dataset.test_labels[self.test_rows]


def split_tasks(dataset: Dataset, stream: StreamConfig) -> list[Task]:
    """Divide the dataset's classes into tasks, in the order and with the share of images that the settings ask for."""
    classes = order_classes(sorted(dataset.class_names), stream.class_order, stream.class_order_seed)
    groups = group_classes(classes, stream.tasks, stream.task_sizes, dataset.name)
    beyond = [number for number in stream.halved_tasks if number > len(groups)]
    if beyond:
        raise InputError(f"Expected stream.halved_tasks among the {len(groups)} tasks but got {beyond[0]}.")
    if stream.validation:  # the test images are out of sight: whoever chooses settings must not see them
        dataset, kept, held = _with_validation(dataset, stream)
    else:
        kept, held = torch.arange(len(dataset.labels)), torch.arange(len(dataset.test_labels))
    labels, test_labels = dataset.labels[kept], dataset.test_labels[held]
    tasks = []
    for number, group in enumerate(groups, start=1):
        share = stream.subset * (stream.halved_share if number in stream.halved_tasks else 1.0)
        rows = [kept[choose(labels, label, share, stream.limit, stream.subset_seed)] for label in group]
        test_rows = [held[choose(test_labels, label, 1.0, stream.limit, stream.subset_seed)] for label in group]
        for label, chosen, tested in zip(group, rows, test_rows):
            _check_enough(dataset, label, len(chosen), share)
            if stream.validation and not len(tested):
                raise InputError(
                    f"Expected a validation image of class {label} but a share of {stream.validation:g} gives none: "
                    "raise stream.validation."
                )
        tasks.append(Task(group, dataset, torch.cat(rows).sort().values, torch.cat(test_rows).sort().values))
    return tasks


def tasks_from_arrays(
    tasks: Sequence[Sequence[Array]], class_names: Mapping[int, str] | None = None, name: str = "arrays"
) -> tuple[Dataset, list[Task]]:
    """A stream from arrays in memory: for each task (images, labels, test_images, test_labels), no class in two tasks.

    Images are uint8 of shape (n, channels, height, width), labels one whole number per image, both NumPy arrays or
    tensors, which are copied. Classes without names are called by their numbers.
    """
    if not tasks:
        raise InputError("Expected at least one task but got none.")
    parts: list[Dataset] = []
    for number, given in enumerate(tasks, start=1):
        if len(given) != len(PARTS):
            raise InputError(f"Expected task {number} as ({', '.join(PARTS)}) but got {len(given)} arrays.")
        images, labels, test_images, test_labels = given
        part = Dataset.from_arrays(f"task {number}", images, labels, test_images, test_labels)
        _check_next(part, parts)
        parts.append(part)
    classes = sorted(label for part in parts for label in part.class_names)
    names = {label: str(label) for label in classes} if class_names is None else class_names
    unnamed = [label for label in classes if label not in names]
    if unnamed:
        raise InputError(f"Expected class_names to name each of the {len(classes)} classes but got none for {unnamed}.")
    dataset = Dataset(
        name=name,
        images=torch.cat([part.images for part in parts]),
        labels=torch.cat([part.labels for part in parts]),
        test_images=torch.cat([part.test_images for part in parts]),
        test_labels=torch.cat([part.test_labels for part in parts]),
        class_names={label: names[label] for label in classes},
    )
    rows = torch.arange(len(dataset.labels)).split([len(part.labels) for part in parts])
    test_rows = torch.arange(len(dataset.test_labels)).split([len(part.test_labels) for part in parts])
    return dataset, [Task(tuple(part.class_names), dataset, *both) for part, *both in zip(parts, rows, test_rows)]


def _check_next(part: Dataset, before: Sequence[Dataset]) -> None:
    """Whether a task of a stream can follow those before it: images of the same shape, enough of each, new classes."""
    shape, first = (tuple(dataset.images.shape[1:]) for dataset in (part, before[0] if before else part))
    if shape != first:
        raise InputError(f"Expected images of shape {first} in {part.name}, as in task 1, but got {shape}.")
    for label in part.class_names:
        earlier = next((other.name for other in before if label in other.class_names), None)
        if earlier:
            raise InputError(
                f"Expected new classes in {part.name} but got {label}, which is in {earlier}: "
                "give all images of a class in one task."
            )
        _check_enough(part, label, int((part.labels == label).sum()), share=1.0)


def _with_validation(dataset: Dataset, stream: StreamConfig) -> tuple[Dataset, Tensor, Tensor]:
    """The dataset with its training images as test images too, the positions to learn from, and those to test on.

    Which images are held out depends on the data and the share alone: all settings are compared on the same ones.
    """
    parts = [choose(dataset.labels, label, stream.validation, None, VALIDATION) for label in dataset.class_names]
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
                f"Expected stream.class_order to name each of the {len(classes)} classes once but got {wrong}."
            )
        return list(given)
    if seed is None:
        return list(classes)
    shuffled = torch.randperm(len(classes), generator=torch.Generator().manual_seed(seed))
    return [classes[position] for position in shuffled.tolist()]


def group_classes(classes: Sequence[int], tasks: int, sizes: Sequence[int], name: str) -> list[tuple[int, ...]]:
    """The classes of the dataset of that name, divided into equally large tasks or into tasks of the sizes given.

    >>> group_classes([3, 1, 2, 0], tasks=2, sizes=(), name="toy")
    [(3, 1), (2, 0)]
    >>> group_classes([3, 1, 2, 0], tasks=2, sizes=(1, 1, 2), name="toy")
    [(3,), (1,), (2, 0)]
    """
    if sizes and sum(sizes) != len(classes):
        raise InputError(
            f"Expected stream.task_sizes to add up to the {len(classes)} classes of {name} but "
            f"{' + '.join(map(str, sizes))} = {sum(sizes)}."
        )
    if not sizes and len(classes) % tasks:
        raise InputError(
            f"Expected a number of tasks that divides the {len(classes)} classes of {name} but got {tasks}. "
            "For tasks of unequal size, give stream.task_sizes."
        )
    sizes = sizes or [len(classes) // tasks] * tasks
    return [tuple(classes[start:end]) for start, end in pairwise(accumulate(sizes, initial=0))]


def choose(labels: Int[Tensor, " n"], label: int, share: float, limit: int | None, seed: int) -> Int[Tensor, " chosen"]:
    """Positions of some of the images of one class, in ascending order.

    The choice depends on the seed and the class alone, not on the order of classes or the task, and a larger share or
    limit includes everything that a smaller one chooses.
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
    """A task in numbers, for `ictrl data show`: the label, name and numbers of images of each class."""

    number: int
    classes: tuple[int, ...]
    names: tuple[str, ...]
    images: tuple[int, ...]
    test_images: tuple[int, ...]


def describe_stream(tasks: Sequence[Task]) -> list[TaskSummary]:
    """The classes of each task, and how many images they have."""
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
        found = f"got {left}: "
        if share < 1:
            total = int((dataset.labels == label).sum())
            found = f"a share of {share:g} leaves {left} of {total}: raise stream.subset or stream.halved_share, or "
        raise InputError(
            f"Expected at least {FEWEST} training images of class {label} ({dataset.class_names[label]}) "
            f"but {found}add images."
        )
