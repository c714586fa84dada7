"""frozen: after its first task nothing of the networks moves, so that what memory says stays exact."""

import pytest
import torch
from method_support import TASKS, TESTS, learner_of, recipe_of

from ictrl import create_learner, tasks_from_arrays
from ictrl.experiment.evaluation import measure
from ictrl.experiment.measured import Measured
from ictrl.methods.ictrl import ICTRL


def test_only_the_first_task_moves_the_networks() -> None:
    learner = learner_of("frozen", tasks=0)
    new = {name: tensor.clone() for name, tensor in learner._state.tensors().items()}
    learner.learn(*TASKS[0])
    first = {name: tensor.clone() for name, tensor in learner._state.tensors().items()}
    reports: list[object] = []
    learner.learn(*TASKS[1], progress=reports.append)
    assert reports == []  # there is nothing to be learned
    second = learner._state.tensors()
    assert second.keys() == first.keys()
    assert all(torch.equal(tensor, first[name]) for name, tensor in second.items())
    assert any(not torch.equal(tensor, new[name]) for name, tensor in first.items() if name in new)


def test_old_classes_stay_in_memory_as_they_were() -> None:
    learner = learner_of("frozen", tasks=1)
    before = {name: tensor.clone() for name, tensor in learner.kept_tensors().items()}
    learner.learn(*TASKS[1])
    after = learner.kept_tensors()
    assert len(after) == 2 * len(before)
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_the_first_task_is_that_of_ictrl() -> None:
    one, other = learner_of("frozen", tasks=1), ICTRL(recipe_of("ictrl")).learn(*TASKS[0])
    images = TESTS
    assert torch.equal(one.scores(images), other.scores(images))


def test_memory_is_as_good_as_the_images_themselves() -> None:
    """With an encoder that stands still, stored moments are those of the images: both protocols say the same."""
    halves = [(images[:30], labels[:30], images[30:], labels[30:]) for images, labels in TASKS]
    _, tasks = tasks_from_arrays(halves)
    learner, measured = create_learner(recipe_of("frozen")), Measured([10, 10])
    for number, task in enumerate(tasks, start=1):
        learner.learn(task.images, task.labels)
        measure(learner, tasks[:number], measured)
    assert measured.memory == measured.reencoded
    assert measured.confusion["memory"] == measured.confusion["reencoded"]
    assert [len(row) for row in measured.memory] == [1, 2]
    for drifts in measured.drift_mean:
        assert drifts == pytest.approx([0.0] * len(drifts), abs=1e-5)
