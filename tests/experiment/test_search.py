"""A search of settings: validation images only, the same trials whatever stops it, nothing done twice."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from study_support import write_study
from support import ROOT, call

from ictrl import ConfigError, load_recipe
from ictrl.experiment.search import load_search

pytest.importorskip("optuna")
SEARCH = """
description = "What λ and distillation do to the digits"
recipe = "quick.toml"
seeds = [11]
settings.stream = { validation = 0.25, class_order_seed = 7 }
settings.method.memory.samples = 5

[ranges]
method.later.weights.lambda_new = { low = 1.0, high = 20.0, log = true }
method.later.epochs = { low = 1, high = 4 }
"""
DISCRETE = SEARCH.partition("[ranges]")[0] + "[ranges]\nmethod.later.epochs = [1, 2]\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path, later_epochs=1)
    (tmp_path / "s.toml").write_text(SEARCH)
    return tmp_path


def search(*given: Any) -> int:
    return call("search", "s.toml", "--out", "out", *given)


def trials(out: str = "out") -> list[dict[str, Any]]:
    """Without what no two searches have in common."""
    found = json.loads((Path(out) / "s" / "search.json").read_text())["trials"]
    return [{key: value for key, value in trial.items() if key != "seconds"} for trial in found]


def test_a_search_finds_settings_and_writes_them_as_a_recipe(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search("--trials", "3") == 0
    printed = capsys.readouterr()
    out = place / "out" / "s"
    found = trials()
    assert [(trial["number"], trial["state"]) for trial in found] == [(0, "complete"), (1, "complete"), (2, "complete")]
    best = max(found, key=lambda trial: (trial["value"], -trial["number"]))
    for trial in found:
        results = json.loads((out / f"trial-000{trial['number']}-seed11" / "results.json").read_text())
        assert results["memory"]["last"] == trial["value"]
        assert results["measured_on"] == "validation images"
        assert results["recipe"]["method"]["later"]["epochs"] == trial["settings"]["method.later.epochs"]
        assert results["recipe"]["method"]["memory"]["samples"] == 5
        assert not (out / f"trial-000{trial['number']}-seed11" / "checkpoint").exists()
    recipe = load_recipe(out / "best.toml")
    assert recipe.method.later.epochs == best["settings"]["method.later.epochs"]  # type: ignore[attr-defined]
    assert recipe.method.memory.samples == 5  # type: ignore[attr-defined]
    assert (recipe.stream.validation, recipe.stream.class_order_seed) == (0.0, 7)
    assert (out / "best.toml").read_text().strip() in printed.out
    assert "another class order and other seeds" in printed.err
    assert f"\n| {best['number']} | {best['value']:.3f} | " in printed.out
    record = json.loads((out / "search.json").read_text())
    assert record["sampler"] == {"name": "TPESampler", "seed": 0}
    assert {"ictrl", "torch", "optuna", "python"} <= record["versions"].keys()
    (shared,) = (out / "first-tasks").iterdir()  # later settings alone vary: one first task did for all
    assert (shared / "learner.safetensors").exists()


def test_a_search_that_is_stopped_anywhere_tries_the_same_and_nothing_twice(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ictrl.cli.search import _Shown

    assert call("search", "s.toml", "--out", "whole", "--trials", "4") == 0
    seen, real = 0, _Shown.on_epoch

    def stops(self: Any, index: int, report: Any) -> None:
        nonlocal seen
        seen += 1
        real(self, index, report)
        if seen in (4, 9):
            raise KeyboardInterrupt

    monkeypatch.setattr(_Shown, "on_epoch", stops)
    assert search("--trials", "4") == 130
    assert search("--trials", "4") == 130
    before = trials()
    assert 0 < len(before) < 4
    # killed in the middle of a line
    with (place / "out" / "s" / "journal.log").open("a") as journal:
        journal.write('{"op_code": 5, "work')
    assert search("--trials", "4") == 0
    assert trials() == trials("whole")
    assert trials()[: len(before)] == before
    begun = seen
    capsys.readouterr()
    assert search("--trials", "4") == 0
    assert seen == begun
    assert "Trials: 4, still to be done: 0;" in capsys.readouterr().out


def test_trials_that_fail_are_noted_and_settings_that_come_again_are_not_learned_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ictrl.experiment import crew

    (place / "s.toml").write_text(DISCRETE)
    real, learned = crew.run, list[str]()

    def sometimes(recipe: Any, out: Path, **given: Any) -> Any:
        learned.append(out.name)
        if out.name == "trial-0001-seed11":
            raise RuntimeError("out of\nmemory")
        return real(recipe, out, **given)

    monkeypatch.setattr(crew, "run", sometimes)
    assert search("--trials", "6") == 0
    found = trials()
    assert (found[1]["state"], found[1]["error"]) == ("fail", "RuntimeError: out of memory")
    others = [trial for trial in found if trial["number"] != 1]
    assert {trial["state"] for trial in others} == {"complete"}
    again = [trial for trial in others if "same_as" in trial]
    assert len(again) >= 3  # of two settings
    assert all(trial["value"] == found[trial["same_as"]]["value"] for trial in again)
    assert len(learned) == 6 - len(again)


def test_a_search_of_which_nothing_comes_gives_up(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ictrl.experiment import crew

    def fails(recipe: Any, out: Path, **given: Any) -> Any:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(crew, "run", fails)
    assert search("--trials", "50") == 1
    assert capsys.readouterr().err == (
        "error: Expected trials that come to an end but the first 3 failed: RuntimeError: no such thing\n"
    )


def test_trials_that_fall_behind_are_left_off_and_the_others_end_as_ever(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ictrl.experiment.search_trials.FEW", 2)
    (place / "s.toml").write_text(SEARCH + "method.later.learning_rate = { low = 1e-4, high = 0.5, log = true }")
    assert call("search", "s.toml", "--out", "whole", "--trials", "5") == 0
    assert search("--trials", "5", "--prune") == 0
    whole, pruned = trials("whole"), trials()
    states = [trial["state"] for trial in pruned]
    assert states[:2] == ["complete"] * 2
    first = states.index("pruned")
    assert [trial["value"] for trial in pruned[:first]] == [trial["value"] for trial in whole[:first]]
    assert pruned[0]["after_tasks"].keys() >= {"2"}  # the last one is its value, the first may be another trial's
    at = max(map(int, pruned[first]["after_tasks"]))
    earlier = sorted(trial["after_tasks"][str(at)] for trial in pruned[:first] if str(at) in trial["after_tasks"])
    assert pruned[first]["after_tasks"][str(at)] < median(earlier)


def test_a_trial_counts_by_the_mean_over_its_seeds(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "s.toml").write_text(SEARCH.replace("seeds = [11]", "seeds = [11, 12]\nmaximise = 'average'"))
    assert search("--trials", "1", "--jobs", "2", "--prune") == 0
    assert ", each with 2 seeds, " in capsys.readouterr().out
    for trial in trials():
        assert trial["by_seed"].keys() == {"11", "12"}
        assert trial["value"] == pytest.approx(sum(trial["by_seed"].values()) / 2)
        assert trial["after_tasks"].keys() >= {"2", "3", "5"}  # first tasks may be another trial's
        for seed, value in trial["by_seed"].items():
            folder = place / "out" / "s" / f"trial-000{trial['number']}-seed{seed}"
            assert json.loads((folder / "results.json").read_text())["memory"]["average"] == value


def test_the_search_of_the_guide_is_one() -> None:
    found = load_search(ROOT / "experiments" / "search-digits.toml")
    assert not found.shares_first_task
    assert (ROOT / "experiments" / "search-digits.toml").read_text() in (ROOT / "docs" / "many-machines.md").read_text()


WRONG = {
    "stream.validation is 0": SEARCH.replace("validation = 0.25, ", ""),
    "'method.later.epoch' (did you mean 'epochs'?)": SEARCH.replace("later.epochs", "later.epoch"),
    "low of method.later.epochs to be below its high but got 4 and 1": SEARCH.replace("1, high = 4", "4, high = 1"),
    "epochs to be at least 1 but got 0": SEARCH.replace("low = 1,", "low = 0,"),
    "method.later.epochs to be a whole number but got 0.5": SEARCH.replace("low = 1,", "low = 0.5,"),
    "settings, which begin with method., but got stream.limit": SEARCH + "stream.limit = [4, 5]",
    "on a log scale to be above 0": SEARCH.replace("1.0, high", "0.0, high"),
    "at least one setting": SEARCH.partition("[ranges]")[0],
    "'last' or 'average' but got 'test'": 'maximise = "test"\n' + SEARCH,
    "the search to have nothing but": 'lines = "test"\n' + SEARCH,
    "two different choices for method.later.schedule": SEARCH + 'method.later.schedule = ["cosine"]',
    "in settings or in ranges but it is in both": SEARCH + "method.memory.samples = [4, 5]",
    "have nothing but high, log, low, step but got 'hihg'": SEARCH.replace("high = 4", "hihg = 4"),
}


@pytest.mark.parametrize("why", WRONG)
def test_wrong_searches_are_refused_by_name(why: str, place: Path) -> None:
    (place / "s.toml").write_text(WRONG[why])
    with pytest.raises(ConfigError) as error:
        load_search("s.toml")
    assert why in str(error.value)


def test_another_search_in_the_same_folder_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ictrl.experiment.locks import alone

    assert search("--trials", "1") == 0
    assert search("--trials", "1", "--seed", "3") == 2
    (place / "s.toml").write_text(SEARCH.replace("high = 4", "high = 5"))
    assert search("--trials", "1") == 2
    (place / "s.toml").write_text(SEARCH)
    with alone(place / "out" / "s" / ".lock", place / "out" / "s"):
        assert search("--trials", "1") == 2
    journal = place / "out" / "s" / "journal.log"
    content = journal.read_text()
    journal.write_text(content.replace("{", "[", 3))
    assert search("--trials", "1") == 2
    journal.unlink()
    assert search("--trials", "1") == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    for line, why in zip(
        said, ("(seed: 0 → 3)", "(its ranges)", "to be free but", "cannot be read (", "but it is gone")
    ):
        assert why in line
    assert len(said) == 5
