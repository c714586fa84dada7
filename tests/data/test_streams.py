"""Datasets cut into tasks."""

import numpy as np
import pytest
import torch

from ictrl.config import StreamConfig
from ictrl.data import Dataset, Task, describe_stream, split_tasks, tasks_from_arrays
from ictrl.errors import InputError


def dataset(classes: int = 10, each: int = 20, each_test: int = 4) -> Dataset:
    """Image i is filled with i, labels go round; classes have names that are not their labels."""
    n, m = classes * each, classes * each_test
    return Dataset(
        name="toy",
        images=torch.arange(n, dtype=torch.uint8)[:, None, None, None].expand(n, 1, 2, 2),
        labels=torch.arange(n) % classes,
        test_images=torch.arange(m, dtype=torch.uint8)[:, None, None, None].expand(m, 1, 2, 2),
        test_labels=torch.arange(m) % classes,
        class_names={label: f"class {label}" for label in range(classes)},
    )


def classes_of(tasks: list[Task]) -> list[tuple[int, ...]]:
    return [task.classes for task in tasks]


def test_equal_tasks_in_ascending_order_partition_the_dataset() -> None:
    toy = dataset()
    tasks = split_tasks(toy, StreamConfig(tasks=5))
    assert classes_of(tasks) == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert torch.equal(torch.cat([task.rows for task in tasks]).sort().values, torch.arange(200))
    assert torch.equal(torch.cat([task.test_rows for task in tasks]).sort().values, torch.arange(40))
    for task in tasks:
        assert set(task.labels.tolist()) == set(task.test_labels.tolist()) == set(task.classes)
        assert torch.equal(task.images[:, 0, 0, 0].long() % 10, task.labels)
        assert torch.equal(task.test_images[:, 0, 0, 0].long() % 10, task.test_labels)
        assert torch.equal(task.rows, task.rows.sort().values)


def test_tasks_share_the_datasets_memory() -> None:
    toy = dataset()
    assert all(task.dataset is toy for task in split_tasks(toy, StreamConfig()))


def test_sizes_by_hand_take_the_place_of_the_number() -> None:
    tasks = split_tasks(dataset(), StreamConfig(tasks=3, task_sizes=(5, 2, 2, 1)))
    assert classes_of(tasks) == [(0, 1, 2, 3, 4), (5, 6), (7, 8), (9,)]


def test_a_given_order() -> None:
    order = (9, 0, 8, 1, 7, 2, 6, 3, 5, 4)
    tasks = split_tasks(dataset(), StreamConfig(tasks=2, class_order=order))
    assert classes_of(tasks) == [(9, 0, 8, 1, 7), (2, 6, 3, 5, 4)]


def test_a_shuffled_order_depends_on_its_seed_alone() -> None:
    first, again, other = (
        classes_of(split_tasks(dataset(), StreamConfig(tasks=2, class_order_seed=seed))) for seed in (0, 0, 1)
    )
    assert first == again != other
    assert sorted(sum(first, ())) == list(range(10))


def test_a_subset_takes_its_share_of_each_class_and_leaves_the_test_images() -> None:
    tasks = split_tasks(dataset(), StreamConfig(subset=0.2))
    assert all(task.labels.bincount()[list(task.classes)].tolist() == [4, 4] for task in tasks)
    assert sum(len(task.test_rows) for task in tasks) == 40


def rows(**settings: object) -> dict[int, list[int]]:
    """The chosen training images of each class."""
    tasks = split_tasks(dataset(), StreamConfig(**settings))
    return {label: task.rows[task.labels == label].tolist() for task in tasks for label in task.classes}


def test_a_subset_depends_on_its_seed_and_not_on_the_order_of_classes() -> None:
    assert rows(subset=0.5) == rows(subset=0.5, class_order_seed=3, tasks=2)
    assert rows(subset=0.5) != rows(subset=0.5, subset_seed=1)


@pytest.mark.parametrize("smaller", [{"subset": 0.2}, {"subset": 0.5, "limit": 3}, {"limit": 4}])
def test_a_smaller_choice_is_part_of_a_larger_one(smaller: dict) -> None:
    larger = rows(subset=0.5)
    assert all(set(chosen) <= set(larger[label]) for label, chosen in rows(**smaller).items())


def test_classes_are_not_all_thinned_at_the_same_places() -> None:
    positions = {tuple(row // 10 for row in chosen) for chosen in rows(subset=0.5).values()}
    assert len(positions) > 5


def test_halved_tasks() -> None:
    tasks = split_tasks(dataset(), StreamConfig(halved_tasks=(2, 4)))
    assert [len(task.rows) for task in tasks] == [40, 20, 40, 20, 40]
    assert [len(task.test_rows) for task in tasks] == [8] * 5
    tasks = split_tasks(dataset(), StreamConfig(halved_tasks=(1,), halved_share=0.25, subset=0.8))
    assert [len(task.rows) for task in tasks] == [8, 32, 32, 32, 32]


def test_a_limit_holds_for_training_and_test_images() -> None:
    tasks = split_tasks(dataset(), StreamConfig(limit=3))
    assert [len(task.rows) for task in tasks] == [6] * 5
    assert [len(task.test_rows) for task in tasks] == [6] * 5
    assert [len(task.rows) for task in split_tasks(dataset(), StreamConfig(limit=1000))] == [40] * 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": 3}, "Expected a number of tasks that divides the 10 classes of toy but got 3."),
        ({"tasks": 20}, "Expected a number of tasks that divides the 10 classes of toy but got 20"),
        ({"task_sizes": (5, 4)}, "Expected stream.task_sizes to add up to the 10 classes of toy but 5 + 4 = 9."),
        ({"task_sizes": (5, 6)}, "Expected stream.task_sizes to add up to the 10 classes of toy but 5 + 6 = 11."),
        ({"class_order": tuple(range(9))}, "to name each of the 10 classes once but got 9 without [9]."),
        ({"class_order": (*range(9), 12)}, "to name each of the 10 classes once but got [12] that are no classes."),
        ({"halved_tasks": (2, 6)}, "Expected stream.halved_tasks among the 5 tasks but got 6."),
        (
            {"subset": 0.05},
            "Expected at least 2 training images of class 0 (class 0) but a share of 0.05 leaves 1 of 20",
        ),
        ({"halved_tasks": (2,), "halved_share": 0.01}, "class 2 (class 2) but a share of 0.01 leaves 0 of 20"),
    ],
)
def test_what_does_not_divide_or_exist_is_refused_with_the_numbers(settings: dict, message: str) -> None:
    with pytest.raises(InputError) as caught:
        split_tasks(dataset(), StreamConfig(**settings))
    assert message in str(caught.value)


def test_validation_images_come_from_the_training_images_and_take_the_place_of_the_test_images() -> None:
    toy = dataset()
    tasks = split_tasks(toy, StreamConfig(tasks=5, validation=0.25))
    learned, held = (torch.cat([getattr(task, rows) for task in tasks]) for rows in ("rows", "test_rows"))
    assert torch.equal(torch.cat([learned, held]).sort().values, torch.arange(200))  # every training image once
    for task in tasks:
        assert torch.equal(task.test_images, toy.images[task.test_rows])
        assert torch.equal(task.test_labels, toy.labels[task.test_rows])
        assert [int((task.test_labels == label).sum()) for label in task.classes] == [5, 5]
        assert [int((task.labels == label).sum()) for label in task.classes] == [15, 15]


def test_validation_images_are_the_same_whatever_else_is_set() -> None:
    toy, sets = dataset(), []
    for settings in ({}, {"class_order_seed": 3}, {"subset": 0.5}, {"subset_seed": 9, "halved_tasks": (1,)}):
        tasks = split_tasks(toy, StreamConfig(tasks=5, validation=0.2, **settings))
        sets.append(torch.cat([task.test_rows for task in tasks]).sort().values)
        learned = torch.cat([task.rows for task in tasks])
        assert not set(learned.tolist()) & set(sets[-1].tolist())
    assert all(torch.equal(found, sets[0]) for found in sets)


def test_a_validation_share_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="validation image of class 0 .* raise stream.validation"):
        split_tasks(dataset(), StreamConfig(tasks=5, validation=0.01))


def test_description_of_a_stream() -> None:
    config = StreamConfig(task_sizes=(1, 9), class_order=(4, *range(4), *range(5, 10)), halved_tasks=(1,))
    first, second = describe_stream(split_tasks(dataset(), config))
    assert (first.number, first.classes, first.names) == (1, (4,), ("class 4",))
    assert (first.images, first.test_images) == ((10,), (4,))
    assert (second.number, second.names[0], second.images, second.test_images) == (2, "class 0", (20,) * 9, (4,) * 9)


def arrays(*labels: int, each: int = 3, size: int = 4) -> list[np.ndarray]:
    """A task: each image is filled with its label plus 100 for training or 200 for test, in shuffled order."""
    task = []
    for count, level in ((each, 100), (1, 200)):
        chosen = np.random.default_rng(0).permutation(np.repeat(labels, count))
        images = np.broadcast_to((level + chosen)[:, None, None, None], (len(chosen), 3, size, size))
        task += [images.astype(np.uint8), chosen]
    return task


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_tasks_from_arrays(convert) -> None:
    given = [[convert(part) for part in arrays(*labels)] for labels in ((5, 0), (9,), (2, 1, 3))]
    dataset, tasks = tasks_from_arrays(given, class_names={label: f"class {label}" for label in range(10)})
    assert classes_of(tasks) == [(0, 5), (9,), (1, 2, 3)]
    assert dataset.name == "arrays"
    assert list(dataset.class_names) == [0, 1, 2, 3, 5, 9]
    assert dataset.class_names[5] == "class 5"
    for task, (images, labels, test_images, test_labels) in zip(tasks, given):
        assert task.dataset is dataset
        assert np.array_equal(task.images, images)
        assert np.array_equal(task.labels, labels)
        assert np.array_equal(task.test_images, test_images)
        assert np.array_equal(task.test_labels, test_labels)
    assert [summary.images for summary in describe_stream(tasks)] == [(3, 3), (3,), (3, 3, 3)]
    assert describe_stream(tasks)[0].names == ("class 0", "class 5")


def test_tasks_from_arrays_keep_no_reference_to_the_arrays() -> None:
    task = arrays(0, 1)
    dataset, _ = tasks_from_arrays([task], name="mine")
    task[0][:] = 0
    assert int(dataset.images.min()) == 100
    assert dataset.name == "mine"
    assert dataset.class_names == {0: "0", 1: "1"}


def changed(position: int, value: np.ndarray) -> list[np.ndarray]:
    task = arrays(2, 3)
    task[position] = value
    return task


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "Expected at least one task but got none."),
        (
            [arrays(0)[:2]],
            "Expected task 1 as (images, labels, test_images, test_labels) but got 2 arrays.",
        ),
        (
            [arrays(0, 1), arrays(2, 1)],
            "Expected new classes in task 2 but got 1, which is in task 1: give all images of a class in one task.",
        ),
        (
            [arrays(0), arrays(1, size=5)],
            "Expected images of shape (3, 4, 4) in task 2, as in task 1, but got (3, 5, 5).",
        ),
        ([arrays(0), arrays(1, each=1)], "Expected at least 2 training images of class 1 (1) but got 1: add images."),
        (
            [arrays(0), changed(3, np.array([2, 2]))],
            "Expected test images of each of the 2 classes of task 2 but got none of 3 (3).",
        ),
        (
            [arrays(0), changed(3, np.array([2, 7]))],
            "Expected test labels of task 2 among its 2 classes but got 7: the training and test images must show",
        ),
        (
            [arrays(0), changed(2, np.zeros((2, 3, 4, 5), np.uint8))],
            "Expected test images of task 2 of shape (3, 4, 4), like its training images, but got (3, 4, 5).",
        ),
        (
            [arrays(0), changed(0, np.zeros((6, 3, 4, 4)))],
            "Expected uint8 images (0 to 255) as images of task 2 but got float64: scale and convert them.",
        ),
        (
            [arrays(0), changed(1, np.array([2, 3]))],
            "Expected a label in labels for each of the 6 images in images of task 2 but got 2.",
        ),
    ],
)
def test_arrays_that_are_no_stream_are_refused(tasks: list, message: str) -> None:
    with pytest.raises(InputError) as caught:
        tasks_from_arrays(tasks)
    assert message in str(caught.value)


def test_names_for_some_of_the_classes_only_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"Expected class_names to name each of the 3 classes but got none for \[1, 4\]"
    ):
        tasks_from_arrays([arrays(0, 1), arrays(4)], class_names={0: "zero"})


def test_datasets_and_tasks_introduce_themselves_in_a_line() -> None:
    toy = dataset()
    assert repr(toy) == "Dataset('toy', 200 training and 40 test images of 1×2×2, 10 classes)"
    first, *_ = split_tasks(toy, StreamConfig(tasks=5))
    assert repr(first) == "Task('toy', classes 0, 1, 40 training and 8 test images)"
    (whole,) = split_tasks(toy, StreamConfig(tasks=1))
    assert repr(whole) == "Task('toy', classes 0, 1, 2, 3, 4, 5, 6, 7 …, 200 training and 40 test images)"
