"""What is said of a run: whether learning paid against both floors, and what to beware of."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

from ictrl import load_recipe
from ictrl.experiment.findings import PLACE, filled, margin, of_left_out, of_replay, of_review, remarks, verdict
from ictrl.experiment.results import CalibrationScores, Results
from ictrl.recipes.tables import recipe_with
from ictrl.theory.metrics import Scores

STORED = Results.read(Path(__file__).parents[1] / "cifar10-run" / "results.json")  # 10,000 test images in five tasks


def ending(**last: float | None) -> Results:
    """The stored results with other accuracies in the end; None for what was not measured."""
    changes: dict[str, Any] = {}
    for name, value in last.items():
        found: Scores | None = getattr(STORED, name)
        assert found is not None
        changes[name] = None if value is None else replace(found, last=value)
    return replace(STORED, replay=None, **changes)


def said(results: Results) -> str:
    """The verdict, which is two sentences."""
    text = filled(verdict(results), results)
    assert len(re.findall(r"\.(?= [A-Z`]|$)", text)) == 2, text
    return text


@pytest.mark.parametrize(
    ("memory", "untrained", "frozen", "head", "against"),
    [
        (0.8, 0.5, 0.7, "Learning paid", "above both floors, untrained networks (0.500) and networks frozen"),
        (0.7, 0.5, 0.7, "The first task paid, and the later ones show no gain", "(0.500) but level with networks froz"),
        (0.6, 0.5, 0.7, "The first task paid, and learning on after it cost accuracy", "(0.500) but below networks fr"),
        (0.5, 0.5, 0.7, "Learning shows no gain", "level with untrained networks (0.500) and below networks frozen"),
        (0.5, 0.5, 0.4, "Learning shows no gain", "level with untrained networks (0.500) but above networks frozen"),
        (0.3, 0.5, 0.7, "Learning did not pay", "below both floors, untrained networks (0.500) and networks frozen"),
    ],
)
def test_memory_is_held_against_both_floors(
    memory: float, untrained: float, frozen: float, head: str, against: str
) -> None:
    text = said(ending(memory=memory, reencoded=0.9, untrained=untrained, frozen=frozen))
    assert text.startswith(f"{head}: from memory it ends at {memory:.3f}, ")
    assert against in text
    assert f"after the first task ({frozen:.3f})" in text
    assert "Reencoded, which needs all old images" in text
    assert "it ends at 0.900, above both floors" in text


def test_reencoded_has_a_standing_of_its_own() -> None:
    text = said(ending(memory=0.8, reencoded=0.6, untrained=0.5, frozen=0.7))
    assert text.startswith("Learning paid: ")
    assert text.endswith("it ends at 0.600, above the untrained floor but below the frozen floor.")


def test_what_the_test_images_do_not_tell_apart_is_level() -> None:
    chance = margin(0.7, 0.7, 10_000)
    assert chance == pytest.approx(2 * (2 * 0.7 * 0.3 / 10_000) ** 0.5)
    ahead, level = (ending(memory=0.7 + gap, untrained=0.5, frozen=0.7) for gap in (chance * 1.01, chance * 0.98))
    assert said(ahead).startswith("Learning paid: ")
    assert said(level).startswith("The first task paid, and the later ones show no gain: ")
    assert said(level).endswith("10,000 test images do not tell apart what differs by less than 0.013.")
    few = replace(level, test_images=[20] * 5)
    assert said(few).endswith("100 test images do not tell apart what differs by less than 0.132.")


def test_a_method_without_floors_says_that_nobody_knows() -> None:
    text = said(replace(STORED, reencoded=None, untrained=None, frozen=None))
    assert text.startswith("Whether learning paid was not measured: ictrl has no floors")
    assert f"From memory it ends at {STORED.memory.last:.3f}" in text
    assert f"having lost {STORED.memory.forgetting:.3f} of accuracy on each earlier task" in text


@pytest.mark.parametrize("recipe", ["digits", "frozen-digits"])
def test_an_encoder_that_stands_still_adds_nothing_by_design(recipe: str) -> None:
    results = replace(ending(memory=0.7, untrained=0.5, frozen=0.7), recipe=load_recipe(recipe))
    text = said(replace(results, reencoded=None) if recipe == "digits" else results)
    assert text.startswith("The first task paid: from memory it ends at 0.700, above untrained networks (0.500).")
    assert "Later tasks add nothing to the frozen floor (0.700), by design" in text


def test_wide_that_learns_on_is_held_against_both_floors() -> None:
    learning_on = recipe_with(load_recipe("digits"), {"method": {"learning_on": {"epochs": 2}}})
    text = said(replace(ending(memory=0.7, untrained=0.5, frozen=0.6), recipe=learning_on))
    assert "by design" not in text
    assert text.startswith("Learning paid: from memory it ends at 0.700, above both floors")


def test_a_run_of_before_the_frozen_floor_says_so() -> None:
    text = said(ending(memory=0.7, untrained=0.5, frozen=None))
    assert text.endswith(
        "Whether the later tasks paid is not known: the run was made before the frozen floor was measured."
    )


@pytest.mark.parametrize("done", [1, 2])
def test_a_run_that_is_not_complete_says_how_far_it_is(done: int) -> None:
    parts = {}
    for name, scores in STORED.scores.items():
        parts[name] = replace(scores, seen=scores.seen[:done], last=0.8 if name in ("memory", "reencoded") else 0.5)
    text = said(replace(STORED, complete=False, **parts))
    head = "the first task" if done == 1 else "learning"
    assert text.startswith(f"So far {head} paid: from memory after task {done} of 5 it stands at 0.800, above ")
    assert ("there was no other" in text) == (done == 1)
    assert ("it stands at 0.800, above both floors" in text) == (done == 2)


def test_every_number_names_its_place() -> None:
    results = ending(memory=0.8, untrained=0.5, frozen=0.7)
    assert [place[1] for place in PLACE.finditer(verdict(results))] == [
        "memory.last",
        "untrained.last",
        "frozen.last",
        "reencoded.last",
    ]


def test_remarks_are_made_where_there_is_something_to_beware_of() -> None:
    assert remarks(ending(memory=0.8, untrained=0.5)) == []
    assert [line[:30] for line in remarks(ending(memory=0.4, untrained=0.5))] == ["From memory the learner does w"]
    assert "on such easy data" in remarks(ending(memory=0.98, untrained=0.97))[0]
    assert "Few test images: 50 do not" in remarks(replace(ending(memory=0.8, untrained=0.5), test_images=[10] * 5))[0]
    results = replace(ending(memory=0.8, untrained=0.5), replay=[0.9, 0.2])
    assert remarks(results) == [of_replay(0.2)]
    for temperature, number in ((1.0, 1), (1.5, 0)):
        calibration = CalibrationScores(0.1, temperature, [])
        assert len(remarks(replace(results, replay=None, calibration=calibration))) == number


def test_a_learning_rate_that_never_rises_is_told() -> None:
    def told(epochs: int) -> list[str]:
        recipe = recipe_with(load_recipe("digits"), {"method": {"trunk": {"epochs": epochs, "warmup": 3}}})
        return [line for line in remarks(replace(STORED, recipe=recipe)) if "warmup" in line]

    assert told(4) == []
    assert told(3) == [
        "In trunk the learning rate rises for 3 epochs (warmup) and there were 3: it never came to 0.0005. A warmup of "
        "0 would do."
    ]


def test_words_that_commands_and_report_share() -> None:
    assert of_left_out(0) is of_replay(0.8) is of_review(0.8, 0.7951) is None
    assert of_left_out(1) == "1 file could not be read and was left out"
    assert of_left_out(2) == "2 files could not be read and were left out"
    assert "fell from 0.800 to 0.790" in str(of_review(0.8, 0.79))
    assert "Only 79%" in str(of_replay(0.79))


def test_the_docs_quote_a_verdict_that_was_given() -> None:
    text = (ROOT / "docs" / "reading-results.md").read_text(encoding="utf-8")
    quoted = " ".join(line.removeprefix(">").strip() for line in text.splitlines() if line.startswith(">"))
    assert quoted.replace("**", "") == filled(verdict(STORED), STORED)
