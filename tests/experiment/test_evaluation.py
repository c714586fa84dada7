"""What is measured after each task: both protocols against their definitions, floors, drift, and no trace of it."""

import json
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from run_support import quick
from support import pictures

from ictrl import ICTRL, Learner, Results, Task, create_learner, tasks_from_arrays
from ictrl.experiment.evaluation import (
    Measured,
    ReadBefore,
    describe,
    measure,
    measure_floor,
    measure_frozen,
    near,
    never_learning,
    predict_all,
    versions,
)
from ictrl.methods.wide_reading import WideReader
from ictrl.recipes.tables import recipe_with
from ictrl.theory.metrics import confusion_table
from ictrl.theory.statistics import Moments

DATASET, TASKS = tasks_from_arrays(
    [(*pictures(classes, each=12), *pictures(classes, each=5, seed=1)) for classes in ([7, 3], [1, 12, 4])]
)
TEST_IMAGES = [10, 15]


def learned(method: str = "ictrl") -> Learner[Any]:
    learner = create_learner(quick(method))
    for task in TASKS:
        learner.learn(task.images, task.labels)
    return learner


class Seen(NamedTuple):
    """A learner after two tasks, and what was measured of it after each."""

    learner: ICTRL
    half: Results
    """after the first task"""
    notes: dict[str, Any]
    """what was measured by then, as a checkpoint has it"""
    measured: Measured
    """after both"""


@pytest.fixture(scope="module")
def seen() -> Seen:
    """i-CTRL, whose memory is pushed away after the second task so that the two protocols disagree."""
    learner, measured = ICTRL(quick()), Measured(TEST_IMAGES)
    measure_floor(learner, TASKS, measured, "untrained")
    learner.learn(TASKS[0].images, TASKS[0].labels)
    measure(learner, TASKS[:1], measured)
    notes = json.loads(json.dumps(asdict(measured)))
    half = describe(quick(), learner, measured, DATASET, TASKS)
    learner.learn(TASKS[1].images, TASKS[1].labels)
    turn = torch.linalg.qr(torch.randn(16, 16, generator=torch.Generator().manual_seed(0))).Q
    learner.kept = learner.memory.moved(0.5 * torch.eye(16) + 0.5 * turn)
    measure(learner, TASKS, measured)
    return Seen(learner, half, notes, measured)


def accuracy(predicted: Any, task: Task) -> float:
    return float(np.mean(np.asarray(predicted) == task.test_labels.numpy()))


def test_memory_is_what_the_learner_predicts(seen: Seen) -> None:
    expected = [accuracy(seen.learner.predict(task.test_images), task) for task in TASKS]
    assert seen.measured.memory[1] == pytest.approx(expected)
    assert [len(row) for row in seen.measured.memory] == [1, 2]


def test_reencoded_is_refitted_from_all_training_images(seen: Seen) -> None:
    learner = seen.learner
    Z = torch.cat([learner.features(task.images) for task in TASKS])
    refitted = learner.classifier_of(Moments.of_features(Z, torch.cat([task.labels for task in TASKS])))
    expected = [accuracy(refitted.predict(learner.features(task.test_images)), task) for task in TASKS]
    assert seen.measured.reencoded[1] == pytest.approx(expected)
    assert seen.measured.reencoded[1] != seen.measured.memory[1]
    assert seen.measured.reencoded[0] == seen.measured.memory[0]  # after a first task nothing has moved


def test_confusion_counts_every_test_image_once(seen: Seen) -> None:
    labels, measured = [1, 3, 4, 7, 12], seen.measured
    for protocol, rows in (("memory", measured.memory), ("reencoded", measured.reencoded)):
        counts = confusion_table(measured.confusion[protocol])
        assert counts.sum(1).tolist() == [5] * 5
        correct = sum(share * n for share, n in zip(rows[-1], TEST_IMAGES))
        assert counts.trace() == pytest.approx(correct)
    true = torch.cat([task.test_labels for task in TASKS])
    predicted = seen.learner.predict(torch.cat([task.test_images for task in TASKS]))
    for i, row in enumerate(labels):
        for j, column in enumerate(labels):
            assert measured.confusion["memory"][i].get(j, 0) == int(((true == row) & (predicted == column)).sum())


def test_drift_is_measured_between_memory_and_images(seen: Seen) -> None:
    learner, measured = seen.learner, seen.measured
    assert learner.labels == [3, 7, 1, 4, 12]
    for label, distance in zip(learner.labels, measured.drift_mean[-1]):
        images = torch.cat([task.images[task.labels == label] for task in TASKS])
        expected = (learner.memory[label].mean - learner.features(images).mean(0)).norm()
        assert distance == pytest.approx(float(expected), abs=1e-5)
        assert distance > 0.1
    assert all(0 <= affinity < 0.999 for affinity in measured.drift_affinity[-1])
    assert measured.drift_mean[0] == pytest.approx([0.0, 0.0], abs=1e-5)


def test_a_row_measured_again_takes_the_place_of_the_old_one(seen: Seen) -> None:
    before = json.dumps(asdict(seen.measured))
    measure(seen.learner, TASKS, seen.measured)
    assert json.dumps(asdict(seen.measured)) == before
    assert len(seen.measured.memory) == len(seen.measured.replay) == 2


def test_measuring_changes_nothing() -> None:
    learner = create_learner(quick())
    state = {name: tensor.clone() for name, tensor in learner._state.tensors().items()}
    learner.learn(TASKS[0].images, TASKS[0].labels)
    undisturbed = learned()
    measured = Measured(TEST_IMAGES)
    measure(learner, TASKS[:1], measured)
    measure_floor(learner, TASKS, measured, "frozen")
    learner.learn(TASKS[1].images, TASKS[1].labels)
    after, expected = learner._state.tensors(), undisturbed._state.tensors()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in after.items())
    assert any(not torch.equal(tensor, after[name]) for name, tensor in state.items())


def test_a_floor_tells_only_the_classes_seen_so_far_apart() -> None:
    """The first row is measured among the classes of the first task, however many come later."""
    learner = create_learner(quick())
    rows = never_learning(learner, TASKS)  # type: ignore[arg-type]
    assert [len(row) for row in rows] == [1, 2]
    assert rows[0] == never_learning(learner, TASKS[:1])[0]  # type: ignore[arg-type]
    Z = torch.cat([learner.features(task.images) for task in TASKS])  # type: ignore[attr-defined]
    refitted = learner.classifier_of(Moments.of_features(Z, torch.cat([t.labels for t in TASKS])))  # type: ignore[attr-defined]
    expected = [accuracy(refitted.decide(learner.views(t.test_images)), t) for t in TASKS]  # type: ignore[attr-defined]
    assert rows[1] == pytest.approx(expected)


@pytest.mark.parametrize("method", ["finetune", "joint"])
def test_of_a_learner_without_moments_only_its_predictions_are_measured(method: str) -> None:
    learner, measured = learned(method), Measured(TEST_IMAGES)
    measure_floor(learner, TASKS, measured, "untrained")
    measure(learner, TASKS, measured)
    assert set(predict_all(learner, TASKS)) == set(measured.confusion) == {"memory"}
    assert measured.memory[-1] == pytest.approx([accuracy(learner.predict(t.test_images), t) for t in TASKS])
    for name in ("reencoded", "untrained", "frozen", "replay", "drift_mean", "drift_affinity"):
        assert getattr(measured, name) == []
    assert measured.seconds["floors"] == 0.0


def test_what_was_measured_is_described(seen: Seen) -> None:
    half, measured = seen.half, seen.measured
    assert (half.complete, half.done, half.tasks) == (False, 1, [[3, 7], [1, 4, 12]])
    assert half.image_bytes == 24 * 64  # of the images seen so far
    assert half.untrained is not None
    assert len(half.untrained.matrix) == 1  # floors are known for all tasks, and told for those done
    assert half.frozen is None
    whole = describe(quick(), seen.learner, measured, DATASET, TASKS)
    assert (whole.complete, whole.done) == (True, 2)
    assert whole.image_bytes == 60 * 64
    assert whole.memory.last == round(sum(a * n for a, n in zip(measured.memory[-1], TEST_IMAGES)) / 25, 6)
    assert whole.drift is not None
    assert whole.drift.classes == seen.learner.labels
    assert whole.drift.mean[0][2:] == [None] * 3
    assert whole.drift.mean[1] == [round(value, 6) for value in measured.drift_mean[1]]
    assert whole.versions == versions()
    assert whole.kept_bytes == seen.learner.kept_bytes
    assert whole.class_names == {label: str(label) for label in (1, 3, 4, 7, 12)}


def test_notes_of_version_0_1_are_read(seen: Seen) -> None:
    measured = Measured.from_notes(seen.notes)
    assert json.loads(json.dumps(asdict(measured))) == seen.notes
    old = {("floor" if name == "untrained" else name): value for name, value in seen.notes.items()}
    old["seconds"] = {("floor" if name == "floors" else name): value for name, value in seen.notes["seconds"].items()}
    old["confusion"] = {name: confusion_table(counts).tolist() for name, counts in measured.confusion.items()}
    assert Measured.from_notes(old) == measured
    del old["drift_mean"], old["drift_affinity"]
    earlier = Measured.from_notes(old)
    assert earlier.drift_mean == earlier.drift_affinity == [[]]
    assert earlier.memory == measured.memory


def test_time_is_added_to_its_phase() -> None:
    measured = Measured(TEST_IMAGES)
    for _ in range(2):
        with measured.timed("learn"):
            sum(range(1000))
    assert measured.seconds["learn"] > 0
    assert measured.seconds["evaluate"] == measured.seconds["floors"] == 0


def test_tasks_near_the_device_are_the_same_tasks() -> None:
    for task, moved in zip(TASKS, near(TASKS, torch.device("cpu"))):
        assert moved.classes == task.classes
        assert torch.equal(moved.images, task.images)
        assert torch.equal(moved.test_labels, task.test_labels)


WIDE = ["wide", "wide-ictrl", "wide-gan"]


@pytest.mark.parametrize("method", WIDE)
def test_the_floor_of_who_stands_still_is_what_memory_says(method: str) -> None:
    """It is not measured by itself in a run; measured by itself it says the same."""
    learner, measured, by_itself = create_learner(quick(method)), Measured(TEST_IMAGES), Measured(TEST_IMAGES)
    for done, task in enumerate(TASKS, start=1):
        learner.learn(task.images, task.labels)
        measure(learner, TASKS[:done], measured)
        measure_frozen(learner, TASKS, measured, done)
        if done == 1:
            measure_floor(learner, TASKS, by_itself, "frozen")
    assert measured.frozen == measured.memory == by_itself.frozen
    assert [len(row) for row in measured.frozen] == [1, 2]
    measured.frozen = []  # as a checkpoint of before this floor has it
    measure_frozen(learner, TASKS, measured, 2)
    assert [len(row) for row in measured.frozen] == [1, 2]


def test_the_floor_of_who_learns_on_is_measured_by_itself() -> None:
    learning_on = {"learning_on": {"epochs": 3, "distillation": 0.0, "learning_rate": 0.1}}
    learner, measured = create_learner(recipe_with(quick("wide"), {"method": learning_on})), Measured(TEST_IMAGES)
    learner.learn(TASKS[0].images, TASKS[0].labels)
    measure(learner, TASKS[:1], measured)
    measure_frozen(learner, TASKS, measured, 1)
    before = [list(row) for row in measured.frozen]
    assert [len(row) for row in before] == [1, 2]
    learner.learn(TASKS[1].images, TASKS[1].labels)
    measure(learner, TASKS, measured)
    measure_frozen(learner, TASKS, measured, 2)
    assert measured.frozen == before


@pytest.mark.parametrize("most", [0, 2**28])
def test_an_encoder_that_stands_still_reads_no_test_image_twice(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReadBefore, "most", most)  # what does not fit is read again
    learner, measured, before, seen = create_learner(quick("wide")), Measured(TEST_IMAGES), ReadBefore(), list[int]()
    stages = WideReader.stages
    monkeypatch.setattr(WideReader, "stages", lambda self, X: seen.append(len(X)) or stages(self, X))  # type: ignore[func-returns-value]
    for done, task in enumerate(TASKS, start=1):
        learner.learn(task.images, task.labels)
        seen.clear()
        measure(learner, TASKS[:done], measured, before)
        assert sum(seen) == sum(TEST_IMAGES[:done] if not most else TEST_IMAGES[done - 1 : done])
    expected = [accuracy(learner.predict(task.test_images), task) for task in TASKS]
    assert measured.memory[-1] == pytest.approx(expected)
    table = confusion_table(measured.confusion["memory"])
    predicted = learner.predict(torch.cat([task.test_images for task in TASKS]))
    assert table.sum(0).tolist() == [int((predicted == label).sum()) for label in sorted(learner.labels)]
