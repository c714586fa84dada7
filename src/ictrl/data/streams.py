"""Class-incremental streams: a dataset whose classes arrive task by task."""

from dataclasses import dataclass

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ictrl.data.datasets import Dataset
from ictrl.errors import InputError


@dataclass(frozen=True)
class Task:
    """The images of a few classes: those to learn from, and those to be tested on."""

    classes: tuple[int, ...]
    images: UInt8[Tensor, "n c h w"]
    labels: Int[Tensor, " n"]
    test_images: UInt8[Tensor, "m c h w"]
    test_labels: Int[Tensor, " m"]


def split_tasks(dataset: Dataset, tasks: int) -> list[Task]:
    """The dataset's classes in ascending order, in tasks of equally many."""
    classes = sorted(dataset.class_names)
    if tasks < 1 or len(classes) % tasks:
        raise InputError(
            f"Expected a number of tasks that divides the {len(classes)} classes of {dataset.name} but got {tasks}."
        )
    size = len(classes) // tasks
    return [_task(dataset, tuple(classes[start : start + size])) for start in range(0, len(classes), size)]


def _task(dataset: Dataset, classes: tuple[int, ...]) -> Task:
    wanted = torch.tensor(classes)
    train, test = torch.isin(dataset.labels, wanted), torch.isin(dataset.test_labels, wanted)
    return Task(
        classes, dataset.images[train], dataset.labels[train], dataset.test_images[test], dataset.test_labels[test]
    )
