"""Teaching a learner in memory: labels, notes, what is held out, which class looks like which."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import pictures, tiny_recipe

from ictrl import ICTRL, InputError, create_learner, load_recipe, recipe_with
from ictrl.data import tasks_from_arrays
from ictrl.experiment.checkpoints import Position
from ictrl.experiment.class_facts import ClassFacts, after_task, read_facts, written
from ictrl.experiment.measured import Measured
from ictrl.experiment.run import run
from ictrl.experiment.taught import LearnerPlace
from ictrl.experiment.teaching import forget, known_names, new_labels, teach
from ictrl.methods.base import Learner

WIDE = recipe_with(
    load_recipe("digits"),
    {
        "method": {"network": {"image_size": 8, "width": 8, "feature_dim": 16}, "trunk": {"epochs": 2}},
        "run": {"device": "cpu"},
    },
)


def of(label: int, each: int = 20, seed: int = 0) -> torch.Tensor:
    return pictures([label], each, seed)[0]


def wide() -> Position:
    return Position(create_learner(WIDE).learn(*pictures([0, 1, 2])), 0, {"mine": "kept", "measured": "{}"})


def ictrl() -> Position:
    return Position(ICTRL(tiny_recipe(first={"epochs": 30})).learn(*pictures([0, 1, 2], each=60)), 0)


def named(learner: Learner[object], names: dict[int, str]) -> Position:
    return Position(learner, 0, {"class_names": json.dumps(names)})


def test_new_classes_are_named_counted_and_noted() -> None:
    position = wide()
    found = teach(position, {"three": of(3), "four": of(4, each=30)}, held_out=0.1, seed=1)
    assert [(new.name, new.label, new.images, new.held_out) for new in found] == [
        ("three", 3, 18, 2),
        ("four", 4, 27, 3),
    ]
    assert all(new.accuracy == 1.0 for new in found)
    assert known_names(position) == {0: "0", 1: "1", 2: "2", 3: "three", 4: "four"}
    assert position.notes["mine"] == "kept"
    assert "measured" not in position.notes  # what a run measured is of other classes than there are now
    facts = read_facts(position.notes, [0, 4])
    assert facts[0] == ClassFacts()
    assert (facts[4].images, facts[4].tested, facts[4].among, facts[4].accuracy) == (27, 3, 5, 1.0)
    remains = forget(position, [3, 0])
    assert any("spread" in part for part in remains)
    assert known_names(position) == {1: "1", 2: "2", 4: "four"}
    assert set(json.loads(position.notes["classes"])) == {"1", "2", "4"}


def test_which_pictures_are_held_out_follows_from_the_seed() -> None:
    def means(seed: int) -> torch.Tensor:
        position = wide()
        teach(position, {"three": of(3)}, seed=seed)
        return position.learner.kept.means[-1]

    assert torch.equal(means(0), means(0))
    assert not torch.equal(means(0), means(1))


def test_labels_of_new_classes() -> None:
    learner = create_learner(WIDE).learn(*pictures([0, 1]))
    assert new_labels(named(learner, {}), ["7", "12"]) == {"7": 7, "12": 12}
    assert new_labels(named(learner, {0: "cat", 1: "dog"}), ["7", "cow"]) == {"7": 2, "cow": 3}
    coming = named(learner, {0: "cat", 1: "dog", 2: "owl", 3: "fox"})  # the run's stream has two more
    assert new_labels(coming, ["elk", "fox"]) == {"elk": 4, "fox": 3}
    assert new_labels(Position(create_learner(WIDE), 0), ["cat"]) == {"cat": 0}


def test_a_learner_of_one_class_and_one_of_none_can_be_taught() -> None:
    position = Position(create_learner(WIDE), 0)
    assert teach(position, {"a": of(0)})[0].accuracy == 1.0
    assert teach(position, {"b": of(1)})[0].likeness is None
    assert known_names(position) == {0: "a", 1: "b"}


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({}, r"^Expected pictures of at least one new class but got none.$"),
        ({"1": of(3)}, r"^Expected new classes but 1 is known already: "),
        (
            {"x": of(3, each=11)},
            r"got 9 of class x \(2 more are held out: --held-out 0 learns from them too\): from",
        ),
        ({"x": of(3), "y": of(4, each=1)}, r"^Expected at least 2 images per class but got one of class y: the mean"),
    ],
)
def test_what_is_refused_changes_nothing(new: dict[str, torch.Tensor], message: str) -> None:
    position = wide()
    before = dict(position.notes)
    with pytest.raises(InputError, match=message):
        teach(position, new)
    assert position.notes == before
    assert position.learner.labels == [0, 1, 2]


@pytest.mark.parametrize("position", [wide, ictrl])
def test_a_class_under_another_name_looks_like_itself(position: Callable[[], Position]) -> None:
    found = teach(position(), {"new": of(4, each=60, seed=3), "again": of(1, each=60, seed=3)})
    assert found[0].likeness is None
    assert found[1].likeness is not None
    assert found[1].likeness.name == "1"


def test_a_method_without_a_measure_tells_by_what_is_taken_for_what() -> None:
    recipe = recipe_with(tiny_recipe(), {"method": {"name": "finetune", "first": {"epochs": 20}}})
    position = Position(create_learner(recipe).learn(*pictures([0, 1])), 0)
    position.learner.predict = None  # type: ignore[assignment,method-assign]  # scores alone decide
    position.learner.scores = lambda X: torch.tensor([[0.0, 1.0, 0.5]]).expand(len(X), 3)  # type: ignore[assignment,method-assign]
    (found,) = teach(position, {"again": of(1, seed=2)})
    assert found.accuracy == 0.0
    assert found.likeness is not None
    assert (found.likeness.name, found.likeness.reason) == ("1", "4 of 4 held-out pictures are taken for it")


def test_facts_of_a_run(tmp_path: Path) -> None:
    stream = tasks_from_arrays([(*pictures(two), *pictures(two, each=10, seed=1)) for two in ([0, 1], [2, 3])])
    run(tiny_recipe(), tmp_path / "run", stream=stream)
    position = LearnerPlace(tmp_path / "run").open("cpu")
    facts = read_facts(position.notes, position.learner.labels)
    assert {label: (found.task, found.images) for label, found in facts.items()} == {
        0: (1, 20),
        1: (1, 20),
        2: (2, 20),
        3: (2, 20),
    }
    assert {found.among for found in facts.values()} == {4}
    assert sum(found.tested or 0 for found in facts.values()) == 40
    confusion = Measured.from_notes(json.loads(position.notes["measured"])).confusion["memory"]
    assert facts[2].accuracy == pytest.approx(confusion[2].get(2, 0) / sum(confusion[2].values()), abs=1e-6)
    again = after_task(facts, stream[1][0], 1, confusion, "validation images")
    assert {found.measured_on for found in again.values()} == {"validation images"}
    assert read_facts({"classes": written(facts)}, [2]) == {2: facts[2]}
    later = json.dumps({"2": {"images": 5, "unheard of": 1}})  # of a version to come
    assert read_facts({"classes": later}, [2]) == {2: ClassFacts(images=5)}
