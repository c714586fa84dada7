"""What a review wrote, damaged: refused in a line, with its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from ictrl import InputError
from ictrl.experiment.class_facts import ClassFacts, read_facts
from ictrl.experiment.measured import Measured
from ictrl.experiment.review_record import read_progress, read_review

SEEN = {"label": 3, "taken_for": 3, "affinity": 0.9, "margin": 0.1, "share": 1.0, "changed": 3, "reason": None}
CYCLES = [
    {"cycle": 0, "memory": 0.5, "classes": []},
    {"cycle": 1, "memory": 0.75, "recognised": 1.0, "classes": [SEEN]},
]


def test_a_review_is_read(tmp_path: Path) -> None:
    (tmp_path / "review.json").write_text(json.dumps({"cycles": CYCLES, "anchors": 0.5, "joint": {"memory": 0.9}}))
    found = read_review(tmp_path / "review.json")
    assert (found["cycles"], found["distillation"]) == (CYCLES, 0.5)
    notes = {"review": json.dumps({"manner": {"merge": True}, "cycles": CYCLES, "classes": [SEEN]})}
    assert read_progress(notes) == {"manner": {"merge": True}, "cycles": CYCLES, "classes": [SEEN]}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([], "expected a table but got a list"),
        ({}, "cycles: expected a list but got null"),
        ({"cycles": [3]}, "cycles.0: expected a table but got a whole number"),
        ({"cycles": [{"memory": 0.5}]}, "cycles.0.cycle: expected an entry but got none"),
        ({"cycles": [CYCLES[1]]}, "cycles.0.cycle: expected 0 but got 1"),
        ({"cycles": [{"cycle": 0, "memory": 1.5}]}, "cycles.0.memory: expected a share from 0 to 1"),
        ({"cycles": [CYCLES[0], {"cycle": 1}]}, "cycles.1.memory: expected a share from 0 to 1, in every cycle"),
        ({"cycles": CYCLES, "joint": {"memory": "x"}}, "joint.memory: expected a number or null but got a text"),
        ({"cycles": CYCLES, "distillation": []}, "distillation: expected a number but got a list"),
    ],
)
def test_what_is_no_review_is_refused_with_its_place(tmp_path: Path, table: Any, message: str) -> None:
    path = tmp_path / "review.json"
    path.write_text(json.dumps(table))
    with pytest.raises(InputError, match=f"Expected what ictrl wrote in {path} but could not read it: {message}"):
        read_review(path)


@pytest.mark.parametrize(
    ("note", "message"),
    [
        (None, "Expected a learner of a review but its notes have none"),
        ("[]", "expected a table but got a list"),
        ("{}", "manner: expected a table but got null"),
        ('{"manner": {}, "cycles": [], "classes": [{"label": "x"}]}', "classes.0.label: expected a whole number"),
        ("[" * 9999, "more than 64 deep"),
    ],
)
def test_a_learner_of_a_review_without_its_notes(note: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_progress({} if note is None else {"review": note})


def test_facts_of_classes_are_typed() -> None:
    noted = {"classes": json.dumps({"3": {"since": "today", "later": 1}, "4": {"accuracy": "x"}})}
    assert read_facts(noted, [3]) == {3: ClassFacts(since="today")}
    for labels, text in (([4], noted["classes"]), ([3], '{"3": 1}'), ([3], "[]"), ([3], "{")):
        with pytest.raises(InputError, match="Expected notes of a learner that ictrl wrote but its 'classes' has"):
            read_facts({"classes": text}, labels)


def test_measured_numbers_of_a_checkpoint_fit_its_tasks() -> None:
    whole = {"test_images": [4, 4], "memory": [[1.0]], "seconds": {"learn": 1, "evaluate": 0.5, "floor": 0}}
    assert Measured.from_notes(whole, 1).memory == [[1.0]]
    wrong: list[dict[str, Any]] = [{"memory": []}, {"memory": [[1, 1]]}, {"memory": "x"}, {"test_images": []}]
    for changes in (*wrong, {"seconds": {}}, {"x": 1}):
        with pytest.raises(InputError, match="Expected notes of a checkpoint that ictrl wrote but measured"):
            Measured.from_notes({**whole, **changes}, 1)
