"""The Learner protocol holds for every method: what it learns, keeps, gives back, refuses and survives."""

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from method_support import (
    METHODS,
    TASKS,
    TEST_LABELS,
    TESTS,
    ema_of,
    everything,
    learner_of,
    recipe_of,
    same,
    stop_after,
    undisturbed,
)
from support import pictures
from torch import Tensor

from ictrl import EpochReport, InputError, Learner, create_learner, load_learner
from ictrl.methods.base import LEARNERS
from ictrl.methods.storage import LEARNER, read_stored

TRAIN_ONCE = {"frozen", "wide", "slda", "fecam", "analytic", "fearnet"}  # and only remember after their first task
SEVERAL_STAGES = {"joint_dcgan": 6, "dgr": 6, "mergan": 6, "dgmw": 6, "eec": 9, "eecs": 6}
"""epochs of methods whose tasks have several stages of three epochs"""
EPOCHS = {("wide-ictrl", 0): 6, ("wide-gan", 0): 6}  # the first task alone; all others have one stage
EPOCHS |= {(method, task): epochs for method, epochs in SEVERAL_STAGES.items() for task in (0, 1)}
# (method, task) with epochs in it
PLAYED = [(method, task) for method in METHODS for task in (0, 1) if not (task and method in TRAIN_ONCE)]


@pytest.fixture(scope="module", params=METHODS)
def learner(request: pytest.FixtureRequest) -> Learner[Any]:
    """A learner of each method after two tasks, to look at and to leave as it is."""
    return learner_of(request.param)


def test_all_methods_are_known_by_name() -> None:
    assert {"ictrl", "frozen", "finetune", "joint"} <= set(METHODS)
    for method in METHODS:
        made = create_learner(recipe_of(method))
        assert type(made) is LEARNERS[method]
        assert made.recipe.method.name == made.settings_type.name == method
        assert repr(made) == f"{type(made).__name__}('tiny', 0 classes, {made.parameter_count} parameters, cpu)"


def test_two_tasks_are_learned_and_labels_predicted(learner: Learner[Any]) -> None:
    assert learner.labels == [-4, 5, 2, 30]  # task by task
    assert learner.classes_.tolist() == [-4, 2, 5, 30]
    assert learner.classes_.dtype == np.int64
    predicted = learner.predict(TESTS)
    assert predicted.shape == (len(TESTS),)
    assert predicted.dtype == torch.int64
    assert set(predicted.tolist()) <= {-4, 2, 5, 30}


def test_the_largest_score_is_the_class_predicted(learner: Learner[Any]) -> None:
    scores = learner.scores(TESTS)
    assert scores.shape == (len(TESTS), 4)
    assert torch.equal(torch.from_numpy(learner.classes_)[scores.argmax(1)], learner.predict(TESTS))
    right = (learner.predict(TESTS) == TEST_LABELS).double().mean()
    assert learner.score(TESTS, TEST_LABELS) == pytest.approx(float(right))


def test_scores_know_the_newest_task(learner: Learner[Any]) -> None:
    """Columns belong to the labels that they are said to belong to, whatever the order of learning."""
    new = (TEST_LABELS == 2) | (TEST_LABELS == 30)
    assert learner.score(TESTS[new], TEST_LABELS[new]) > 0.9


def test_what_comes_back_is_of_the_kind_that_went_in(learner: Learner[Any]) -> None:
    for give in (learner.predict, learner.scores):
        tensor, array = give(TESTS), give(TESTS.numpy())
        assert isinstance(tensor, Tensor)
        assert isinstance(array, np.ndarray)
        np.testing.assert_array_equal(tensor.numpy(), array)


def test_kept_bytes_are_those_of_what_is_kept(learner: Learner[Any], tmp_path: Path) -> None:
    kept = learner.kept_tensors()
    assert learner.kept_bytes == sum(len(tensor.numpy().tobytes()) for tensor in kept.values()) + 8 * 4
    learner.save(tmp_path / "learner")
    written = read_stored(tmp_path / "learner", LEARNER).tensors
    assert {name for name in written if name.startswith("memory.")} == {f"memory.{name}" for name in kept}
    images = [tensor for tensor in kept.values() if tensor.dtype == torch.uint8 and tensor.ndim == 4]
    assert learner.keeps_images == bool(images)


def test_every_trainable_number_is_counted(learner: Learner[Any]) -> None:
    networks = learner._state.networks.values()
    assert learner.parameter_count == sum(len(p.flatten()) for network in networks for p in network.parameters())
    assert not any(network.training for network in networks)


WRONG_TASKS = {
    "floats": (TASKS[1][0].float(), TASKS[1][1], r"floats from 0 to 1, but got float32 .*: convert by images / 255\."),
    "another shape": (
        torch.zeros(4, 64, dtype=torch.uint8),
        [8, 8, 9, 9],
        r"of shape \(n, height, width\), .* but got",
    ),
    "a class again": (*pictures([9, 5]), "Expected new classes but 5 was learned before"),
    "one image": (TASKS[0][0][:1], [9], "at least 2 images per class but got one of class 9"),
}


@pytest.mark.parametrize("case", WRONG_TASKS)
def test_wrong_input_is_refused_in_a_line(case: str, learner: Learner[Any]) -> None:
    images, labels, message = WRONG_TASKS[case]
    before = everything(learner)
    with pytest.raises(InputError, match=message) as error:
        learner.learn(images, labels)
    assert "\n" not in str(error.value)
    if case in ("floats", "another shape"):
        for look in (learner.predict, learner.scores):
            with pytest.raises(InputError, match=message):
                look(images)
    assert same(everything(learner), before)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_can_be_asked_of_a_new_learner(method: str) -> None:
    learner = create_learner(recipe_of(method))
    assert (learner.labels, learner.kept_bytes) == ([], 0)
    for ask in ("predict", "scores"):
        with pytest.raises(InputError, match=f"has learned but got a new one: call learn before {ask}"):
            getattr(learner, ask)(TESTS)
    with pytest.raises(InputError, match="call learn before score"):
        learner.score(TESTS, TEST_LABELS)


@pytest.mark.parametrize("method", METHODS)
def test_a_recipe_for_another_method_is_refused(method: str) -> None:
    other = METHODS[METHODS.index(method) - 1]
    with pytest.raises(InputError, match=f"for the method {method} but 'tiny' is for {other}: ictrl.create_learner"):
        LEARNERS[method](recipe_of(other))


@pytest.mark.parametrize("method", METHODS)
def test_no_image_outlives_learning_unless_the_method_says_so(method: str) -> None:
    learner = learner_of(method, tasks=1)
    images, labels = pictures([2, 30], each=23)  # a number of images that no other test has
    given, array = images.clone(), images.numpy().copy()
    gone = [weakref.ref(given), weakref.ref(array)]
    learner.learn(given, labels)
    learner.predict(array)
    learner.scores(array)
    del given, array, images, labels
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
    copies = [t for t in gc.get_objects() if type(t) is Tensor and t.ndim == 4 and t.shape[0] in (46, 40 + 46)]
    assert bool(copies) == (method in ("joint_dcgan", "joint"))  # others that keep images keep some of them
    uint8 = [t for t in learner.kept_tensors().values() if t.dtype == torch.uint8 and t.ndim == 4]
    assert bool(uint8) == learner.keeps_images


@pytest.mark.parametrize("method", METHODS)
def test_what_happens_to_the_images_afterwards_changes_nothing(method: str) -> None:
    images, labels = (part.clone() for part in TASKS[0])
    learner = create_learner(recipe_of(method)).learn(images, labels)
    before = everything(learner)
    images.zero_()
    labels.zero_()
    assert same(everything(learner), before)
    learner.learn(*TASKS[1])
    assert same(everything(learner), undisturbed(method))


@pytest.mark.parametrize("method", METHODS)
def test_a_seed_decides_everything_and_nothing_else_does(method: str) -> None:
    expected = undisturbed(method)
    torch.manual_seed(20260101)
    before = torch.get_rng_state()
    assert same(everything(learner_of(method)), expected)
    assert torch.equal(torch.get_rng_state(), before)
    other = create_learner(recipe_of(method), seed=1)
    assert other.seed == 1
    assert not same(everything(other.learn(*TASKS[0]).learn(*TASKS[1])), expected)


@pytest.mark.parametrize("method", METHODS)
def test_saved_and_loaded_it_predicts_and_goes_on_exactly(method: str, tmp_path: Path) -> None:
    learner = learner_of(method, tasks=1)
    learner.save(tmp_path / "learner", {"mine": "a note"})
    again = load_learner(tmp_path / "learner")
    assert type(again) is type(learner)
    assert again.recipe == learner.recipe
    assert same(everything(again), everything(learner))
    assert again.kept_bytes == learner.kept_bytes
    known, _ = pictures([5, -4], seed=1)
    assert torch.equal(again.scores(known), learner.scores(known))
    assert torch.equal(again.predict(known), learner.predict(known))
    assert read_stored(tmp_path / "learner", LEARNER).notes == {"mine": "a note"}
    for one in (learner, again):
        one.learn(*TASKS[1])
    assert same(everything(again), everything(learner))
    assert torch.equal(again.scores(TESTS), learner.scores(TESTS))


@pytest.mark.parametrize("method", METHODS)
def test_another_methods_file_is_refused(method: str, tmp_path: Path) -> None:
    create_learner(recipe_of(method)).save(tmp_path / "learner")
    other = METHODS[METHODS.index(method) - 1]
    with pytest.raises(InputError, match=f"of the method {other} but .* holds one of {method}: ictrl.load_learner"):
        LEARNERS[other].load(tmp_path / "learner")


@pytest.mark.parametrize("ema", [0.0, 1.5])
@pytest.mark.parametrize(("method", "task"), PLAYED)
def test_a_stopped_task_goes_on_exactly(method: str, task: int, ema: float, tmp_path: Path) -> None:
    """After the first and the last epoch of each stage, in a learner that was read from a file."""
    epochs = EPOCHS.get((method, task), 3)
    learner = learner_of(method, tasks=task, **ema_of(method, ema))
    learner.save(tmp_path / "before")
    for epoch in sorted({1, 3, epochs - 2, epochs}):
        stop_after(learner, TASKS[task], epoch, tmp_path / "stopped")
        again, reports = load_learner(tmp_path / "before"), list[EpochReport]()
        again.learn(*TASKS[task], progress=reports.append, resume=tmp_path / "stopped")
        assert [(report.epoch, report.epochs) for report in reports] == [
            (e, epochs) for e in range(epoch + 1, epochs + 1)
        ]
        assert same(everything(again), undisturbed(method, task + 1, ema))


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize(("method", "task"), PLAYED)
def test_a_task_that_fails_leaves_the_learner_as_it_was(method: str, task: int, error: type) -> None:
    """In its last epoch, when networks, head, optimisers and random state have long been others."""
    learner = learner_of(method, tasks=task)
    before, labels = everything(learner), list(learner.labels)
    stop_after(learner, TASKS[task], epoch=EPOCHS.get((method, task), 3), error=error)
    assert same(everything(learner), before)
    assert learner.labels == labels
    assert not any(network.training for network in learner._state.networks.values())
    for following in TASKS[task:]:  # and it goes on as if nothing had happened
        learner.learn(*following)
    assert same(everything(learner), undisturbed(method))


def test_a_class_that_cannot_be_remembered_leaves_a_frozen_learner_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its later tasks have no epochs that could fail."""
    learner = learner_of("frozen", tasks=1)
    before = everything(learner)
    with monkeypatch.context() as failing:
        failing.setattr(learner, "formed", lambda Z, y: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            learner.learn(*TASKS[1])
    assert same(everything(learner), before)
    assert same(everything(learner.learn(*TASKS[1])), undisturbed("frozen"))


@pytest.mark.parametrize("method", METHODS)
def test_progress_hears_every_epoch_with_finite_numbers(method: str) -> None:
    learner, heard = create_learner(recipe_of(method)), list[EpochReport]()
    learner.learn(*TASKS[0], progress=heard.append)
    assert [report.epoch for report in heard] == list(range(1, EPOCHS.get((method, 0), 3) + 1))
    assert all(report.terms and np.isfinite(list(report.terms.values())).all() for report in heard)


def test_scikit_learns_names(learner: Learner[Any]) -> None:
    again = create_learner(learner.recipe)
    for images, labels in TASKS:
        assert again.partial_fit(images.numpy(), labels.tolist(), classes=[-4, 2, 5, 30]) is again
    assert same(everything(again), everything(learner))


def test_without_a_recipe_the_methods_own_defaults_are_taken() -> None:
    for kind in LEARNERS.values():
        learner = kind(device="cpu")
        assert learner.settings == kind.settings_type()
