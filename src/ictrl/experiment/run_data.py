"""The data of a run: read by its recipe, known again by a digest."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ictrl.config import Recipe
from ictrl.data import Dataset, Task, load_dataset, split_tasks
from ictrl.data.patience import stopped_by
from ictrl.errors import InputError
from ictrl.experiment.run_folder import RunFolder
from ictrl.files import absolute
from ictrl.memory.few_images import check_enough
from ictrl.methods.capabilities import KeepsStatistics
from ictrl.training.task import CHUNK

IN_MEMORY = "memory"
"""what `stream.dataset` says of a run whose tasks were given in memory"""

Stream = tuple[Dataset, list[Task]]


def stream_of(recipe: Recipe, begun: Path | None = None, stop: Callable[[], bool] = lambda: False) -> Stream:
    """The data set that a recipe names, cut into its tasks: for a new run, or for one that was begun in a folder.

    Where `stop` gives True while pictures are read, it raises KeyboardInterrupt."""
    if recipe.stream.dataset == IN_MEMORY:
        raise InputError(
            "Expected the tasks of this run, which were given in memory, but got none: "
            "call ictrl.resume(folder, stream=…) with the same tasks."
        )
    network = recipe.method.network
    with stopped_by(stop):
        dataset = load_dataset(recipe.stream, network.image_size, network.channels)
    try:
        return dataset, split_tasks(dataset, recipe.stream)
    except InputError as error:
        if begun is None:
            raise
        raise InputError(
            f"Expected the data that {begun} was begun with but it has changed since the run "
            f"({str(error).rstrip('.')}): put it back, or begin a new run."
        ) from None


def check_images(learner: object, tasks: list[Task]) -> None:
    """Whether the classes to come have as many images as the method needs: better refused now than after hours."""
    if isinstance(learner, KeepsStatistics) and tasks:
        check_enough(torch.cat([task.labels for task in tasks]), tasks[0].dataset.class_names)


def run_data(folder: RunFolder, root: Path | None = None, stop: Callable[[], bool] = lambda: False) -> Stream:
    """The data that a run was begun with, from where it was or from `root`; other data is refused."""
    dataset, tasks = stream_of(moved(folder.recipe(), root), folder.path, stop)
    folder.check_data(fingerprint(tasks))
    return dataset, tasks


def moved(recipe: Recipe, root: Path | None) -> Recipe:
    """The recipe with its data in another place, if one is given."""
    return recipe if root is None else replace(recipe, stream=replace(recipe.stream, root=str(absolute(root))))


def fingerprint(tasks: list[Task]) -> dict[str, Any]:
    """What tells whether data is the same: its numbers and a digest of every image and label, in order."""
    sha = hashlib.sha256()
    for task in tasks:
        for part in (task.images, task.labels, task.test_images, task.test_labels):
            for some in part.split(CHUNK):
                sha.update(some.flatten().numpy().data)
    return {
        "training_images": sum(len(task.rows) for task in tasks),
        "test_images": sum(len(task.test_rows) for task in tasks),
        "sha256": sha.hexdigest(),
    }


def about(dataset: Dataset) -> dict[str, Any]:
    """What the report says of the data besides: numbers, and nothing that names a file or a place."""
    return {"image_shape": list(dataset.images.shape[1:]), "files_left_out": len(dataset.skipped)}
