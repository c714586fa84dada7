"""Labels come back as they went in; classes that are taught by name keep their names through files and stops."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from method_support import SEVERAL, TASKS, everything, recipe_of, same
from support import pictures, tiny_recipe
from torch.utils.data import DataLoader

from ictrl import ICTRL, EpochReport, InputError, create_learner, load_learner
from ictrl.methods.storage import LEARNER, read_stored

NAMES = {5: "owl", -4: "ant", 2: "bee", 30: "cat"}
TESTS, TEST_LABELS = pictures([5, -4, 2, 30], each=8, seed=1)


def called(labels: Any) -> list[str]:
    return [NAMES[int(label)] for label in labels]


def numbered(labels: Any) -> list[int]:
    """As a learner numbers the names: in the order of tasks, those of one by the alphabet."""
    return [["ant", "owl", "bee", "cat"].index(name) for name in called(labels)]


@pytest.mark.parametrize("method", SEVERAL)
def test_names_are_learned_as_their_numbers_would_be(method: str, tmp_path: Path) -> None:
    by_name, by_number = create_learner(recipe_of(method)), create_learner(recipe_of(method))
    for images, labels in TASKS:
        by_name.learn(images, called(labels))
        by_number.learn(images, numbered(labels))
    assert same(everything(by_name), everything(by_number))
    assert by_name.classes_.tolist() == ["ant", "owl", "bee", "cat"]
    assert by_name.class_names == dict(enumerate(["ant", "owl", "bee", "cat"]))
    assert by_number.class_names == {}
    for given in (TESTS, TESTS.numpy(), list(TESTS)):
        predicted = by_name.predict(given)
        assert isinstance(predicted, np.ndarray)
        assert predicted.tolist() == [by_name.class_names[int(label)] for label in by_number.predict(TESTS)]
    assert torch.equal(by_name.scores(TESTS), by_number.scores(TESTS))
    assert by_name.score(TESTS, called(TEST_LABELS)) == by_number.score(TESTS, numbered(TEST_LABELS))
    by_name.save(tmp_path / "learner")
    again = load_learner(tmp_path / "learner")
    assert again.class_names == by_name.class_names
    assert again.predict(TESTS).tolist() == by_name.predict(TESTS).tolist()


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda names: np.array(names, dtype=object)])
def test_texts_of_any_kind(kind: Any) -> None:
    learner = ICTRL(tiny_recipe()).learn(TASKS[0][0], kind(called(TASKS[0][1])))
    assert learner.classes_.tolist() == ["ant", "owl"]


def test_a_loader_may_bring_names() -> None:
    rows = list(zip(TASKS[0][0], called(TASKS[0][1])))
    learner = ICTRL(tiny_recipe()).learn(DataLoader(rows, batch_size=6))  # type: ignore[arg-type]
    assert learner.classes_.tolist() == ["ant", "owl"]
    assert learner.score(DataLoader(rows, batch_size=6)) > 0.9  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def learner() -> ICTRL:
    return ICTRL(tiny_recipe()).learn(TASKS[0][0], called(TASKS[0][1]))


def test_what_is_refused_is_called_by_name(learner: ICTRL) -> None:
    images, labels = TASKS[0]
    for given, message in (
        (called(labels), "Expected new classes but ant, owl were learned before"),
        (labels, "Expected texts as labels, which this learner was taught by, but got whole numbers"),
        (["x"] * 39 + ["y"], "Expected at least 2 images per class but got one of class y"),
    ):
        with pytest.raises(InputError, match=message):
            learner.learn(images, given)
    with pytest.raises(InputError, match="Expected texts as labels"):
        learner.score(images, labels)
    with pytest.raises(InputError, match="Expected a learned label but got 'cow'; learned are ant, owl"):
        learner.sample("cow", 1)
    assert learner.class_names == {0: "ant", 1: "owl"}


def test_a_name_that_was_never_taught_is_never_predicted(learner: ICTRL) -> None:
    assert learner.score(TASKS[0][0], ["cow"] * 40) == 0


def test_classes_are_drawn_and_reviewed_by_name_or_number(learner: ICTRL) -> None:
    assert learner.recall("owl") is learner.recall(1)
    assert learner.sample("owl", 3).shape == learner.sample(1, 3).shape == (3, 1, 8, 8)
    again = ICTRL(tiny_recipe()).learn(TASKS[0][0], called(TASKS[0][1]))
    owls = TASKS[0][0][TASKS[0][1] == 5]
    assert again.review(owls, label="owl").label == "owl"
    assert again.review(owls, certain=False).label == "owl"


def test_a_stopped_task_goes_on_by_name(tmp_path: Path) -> None:
    (first, first_labels), (images, labels) = TASKS
    whole = ICTRL(tiny_recipe()).learn(first, called(first_labels)).learn(images, called(labels))
    learner = ICTRL(tiny_recipe()).learn(first, called(first_labels))

    def stop(report: EpochReport) -> None:
        learner.save_task(tmp_path / "stopped", report)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(images, called(labels), progress=stop)
    assert learner.classes_.tolist() == ["ant", "owl"]
    learner.learn(images, called(labels), resume=tmp_path / "stopped")
    assert same(everything(learner), everything(whole))
    assert learner.class_names == whole.class_names
    other = ICTRL(tiny_recipe()).learn(first, ["elk" if name == "ant" else name for name in called(first_labels)])
    with pytest.raises(InputError, match="Expected a task stopped by this very learner"):
        other.learn(images, called(labels), resume=tmp_path / "stopped")


def test_names_that_are_noted_beside_numbers_are_known_after_loading(tmp_path: Path) -> None:
    """As runs note them, of all classes of a dataset; labels stay the numbers that were taught."""
    learner = ICTRL(tiny_recipe()).learn(*pictures([0, 1]))
    learner.save(tmp_path / "learner", {"class_names": '{"0": "circle", "1": "square", "2": "star"}'})
    again = ICTRL.load(tmp_path / "learner")
    assert again.class_names == {0: "circle", 1: "square"}
    assert again.classes_.tolist() == [0, 1]
    again.save(tmp_path / "again")
    assert ICTRL.load(tmp_path / "again").class_names == again.class_names
    learner.save(tmp_path / "own", {"class_names": "a note of my own"})
    assert ICTRL.load(tmp_path / "own").class_names == {}
    assert read_stored(tmp_path / "own", LEARNER).notes == {"class_names": "a note of my own"}


def test_notes_of_ones_own_do_not_displace_names(tmp_path: Path, learner: ICTRL) -> None:
    learner.save(tmp_path / "learner", {"class_names": "mine", "mine": "too"})
    assert ICTRL.load(tmp_path / "learner").class_names == {0: "ant", 1: "owl"}
    assert read_stored(tmp_path / "learner", LEARNER).notes["mine"] == "too"
