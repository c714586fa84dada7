"""Results: one typed record, the same after a file, whatever version wrote it and whatever its classes are called."""

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_support import quick, timeless

from ictrl import InputError, Results, load_recipe, run
from ictrl.experiment.results import CalibrationScores, Drift, to_lines
from ictrl.theory.metrics import Scores, confusion, confusion_table, summarise

OLD = Path(__file__).parents[1] / "cifar10-run" / "results.json"


def results(**changes: Any) -> Results:
    """A record of two tasks by hand, every entry of it in use."""
    memory = replace(summarise([[1.0], [0.5, 0.9]], [10, 30]), confusion=[{0: 3, 1: 1}, {1: 36}])
    whole = Results(
        complete=True,
        memory=memory,
        reencoded=replace(memory, last=0.95),
        untrained=summarise([[0.5], [0.25, 0.5]], [10, 30]),
        frozen=summarise([[1.0], [0.75, 0.5]], [10, 30]),
        drift=Drift([7, 2], [[0.0, None], [0.125, 0.0]], [[1.0, None], [0.5, 1.0]]),
        replay=[1.0, 0.75],
        tasks=[[7], [2]],
        class_names={7: "seven", 2: "two"},
        test_images=[10, 30],
        kept_bytes=1234,
        image_bytes=99999,
        parameters=2184,
        seconds={"learn": 1.5, "evaluate": 0.25, "floors": 0.125},
        seed=3,
        device="cpu, x86_64, 1 thread",
        versions={"ictrl": "0.2.0"},
        recipe=quick(stream={"root": "/home/someone/data"}),
        measured_on="validation images",
        line="λ = 3",
        calibration=CalibrationScores(0.05, 1.5, [[0, 0.0, 0.0], [40, 0.85, 0.8]]),
    )
    return replace(whole, **changes)


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(results().to_json(), encoding="utf-8")
    again = Results.read(tmp_path / "results.json")
    assert again == results()
    assert isinstance(again.memory, Scores)
    assert isinstance(again.drift, Drift)
    assert isinstance(again.calibration, CalibrationScores)
    assert list(again.class_names) == [7, 2]
    assert again.to_json() == results().to_json()


@pytest.mark.parametrize("entry", ["reencoded", "untrained", "frozen", "drift", "replay", "line", "calibration"])
def test_what_was_not_measured_stays_so(entry: str) -> None:
    without = results(**{entry: None})
    assert Results.from_json(without.to_json()) == without
    assert entry not in without.scores
    assert entry not in without.protocols


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        results().seed = 4  # type: ignore[misc]


def test_what_is_read_off_a_record() -> None:
    record = results()
    assert list(record.scores) == ["memory", "reencoded", "untrained", "frozen"]
    assert list(record.protocols) == ["memory", "reencoded"]
    assert record.done == 2
    assert record.memory.last == pytest.approx((0.5 * 10 + 0.9 * 30) / 40)


def test_published_it_does_not_say_where_the_data_lay() -> None:
    assert "someone" in results().to_json()
    assert "someone" not in results().anywhere().to_json()
    assert results().anywhere().recipe.stream.root is None


@pytest.mark.parametrize(
    "name", ["cat [ old ]", "cat, [\n  dog\n]", 'a "quoted" one', "λ → ½ 猫", "", "null", "[1, 2]", "\\u0041 \\n"]
)
def test_class_names_survive_whatever_they_are(name: str, tmp_path: Path) -> None:
    named = results(class_names={7: name, 2: f"{name} too"})
    (tmp_path / "results.json").write_text(named.to_json(), encoding="utf-8")
    assert Results.read(tmp_path / "results.json").class_names == {7: name, 2: f"{name} too"}


@given(st.dictionaries(st.integers(0, 10**9), st.text()))
@settings(max_examples=100, deadline=None)
def test_any_class_names_survive(names: dict[int, str]) -> None:
    named = results(class_names=names)
    assert Results.from_json(named.to_json().encode().decode()) == named


def test_every_row_of_a_matrix_has_a_line_of_its_own() -> None:
    lines = results().to_json().splitlines()
    start = lines.index('    "matrix": [')
    assert lines[start + 1 : start + 4] == ["      [1.0, null],", "      [0.5, 0.9]", "    ],"]
    assert '  "class_names": {' in lines
    assert '    "7": "seven",' in lines
    start = lines.index('    "confusion": [')
    assert lines[start + 1 : start + 4] == ['      {"0": 3, "1": 1},', '      {"1": 36}', "    ]"]


def test_a_whole_confusion_matrix_is_read_as_it_was_written_before() -> None:
    table = results().to_table()
    table["memory"]["confusion"] = [[3, 1], [0, 36]]
    assert Results.from_table(table) == results()


def test_confusion_takes_no_more_room_than_there_are_images() -> None:
    k = 1000
    memory = replace(results().memory, confusion=confusion(range(k), range(k), range(k)))
    named = results(memory=memory, reencoded=None, tasks=[list(range(k // 2)), list(range(k // 2, k))])
    assert len(named.to_json()) < 30 * k
    assert Results.from_json(named.to_json()) == named


@pytest.mark.parametrize("value", [{}, [], [[]], [{}], {"a": []}, [1, [2, None]], {"a": {"b": [True, "x", 0.1]}}, "x"])
def test_lines_are_json(value: Any) -> None:
    assert json.loads(to_lines(value)) == value


# version 0.1


def test_a_file_of_version_0_1_is_read_and_no_figure_of_it_changed() -> None:
    written, record = json.loads(OLD.read_text()), Results.read(OLD)
    assert written["versions"]["ictrl"] == record.versions["ictrl"] == "0.1.0"
    table = record.to_table()
    for old, new in {"memory": "memory", "reencoded": "reencoded", "floor": "untrained", "frozen": "frozen"}.items():
        counts = getattr(record, new).confusion
        matrix = None if counts is None else confusion_table(counts).tolist()
        assert {"confusion": None, **written[old]} == table[new] | {"confusion": matrix}
    for entry in ("complete", "drift", "replay", "tasks", "class_names", "test_images", "image_bytes", "parameters"):
        assert table[entry] == written[entry]
    assert record.kept_bytes == written["memory_bytes"] == 3_118_240
    assert record.seconds == {"learn": 102.592, "evaluate": 0.829, "floors": 4.364}
    assert (record.memory.last, record.done) == (0.6244, 5)


def test_the_recipe_of_version_0_1_is_read_under_todays_names() -> None:
    record = Results.read(OLD)
    method: Any = record.recipe.method
    assert method.name == "ictrl"
    assert (method.first.epochs, method.later.epochs, method.later.batch) == (1000, 120, "rule")
    assert (method.later.weights.distill_new, method.later.weights.distill_replayed) == (5.0, 20.0)
    assert method.first.ema == method.later.ema == 10.0
    assert method.first.augmentation.rotations
    assert not method.later.augmentation.rotations
    assert method.memory.drift_compensation
    assert method.memory.compensation_replayed == 1.0  # what was done before there was such a setting
    assert record.recipe.stream.dataset == "cifar10"


def test_written_again_it_is_a_file_of_today() -> None:
    record = Results.read(OLD)
    assert Results.from_json(record.to_json()) == record
    assert "memory_bytes" not in record.to_json()


# damage


def without(*names: str) -> Callable[[dict[str, Any]], Any]:
    return lambda table: {key: value for key, value in table.items() if key not in names}


def with_(**entries: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda table: {**table, **entries}


DAMAGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a list": lambda table: [table],
    "a number": lambda table: 3,
    "nothing": lambda table: None,
    "an empty table": lambda table: {},
    "no memory": without("memory"),
    "memory of nothing": with_(memory=None),
    "memory that is a number": with_(memory=0.5),
    "memory without its last": lambda table: {**table, "memory": without("last")(table["memory"])},
    "no recipe": without("recipe"),
    "a recipe with an unknown setting": with_(recipe={"method": {"epoch": 3}}),
    "a recipe of an unknown method": with_(recipe={"method": {"name": "magic"}}),
    "class names in a list": with_(class_names=["cat"]),
    "a class name for no number": with_(class_names={"cat": "cat"}),
    "an unknown entry": with_(surprise=1),
    "no seed": without("seed"),
    "a matrix with a hole": lambda table: {
        **table,
        "memory": {**table["memory"], "matrix": [[1.0, None], [None, 0.9]]},
    },
    "more tasks measured than there are": with_(tasks=[[7]], test_images=[10]),
    "a class in two tasks": with_(tasks=[[7], [7]]),
    "shares beyond 1": lambda table: {**table, "memory": {**table["memory"], "last": 1e300}},
    "a number that is huge": with_(seed=2**70),
    "a label that is a share": with_(tasks=[[7], [2.5]]),
    "no seconds": with_(seconds={}),
    "confusion with classes that are not there": lambda table: {
        **table,
        "memory": {**table["memory"], "confusion": [{"0": 3, "2": 1}, {"1": 36}]},
    },
    "confusion of fewer classes": lambda table: {**table, "memory": {**table["memory"], "confusion": [{"0": 3}]}},
    "a confusion matrix that is not square": lambda table: {
        **table,
        "memory": {**table["memory"], "confusion": [[3, 1], [0]]},
    },
    "less than no confusion": lambda table: {
        **table,
        "memory": {**table["memory"], "confusion": [{"0": 3, "1": -1}, {"1": 36}]},
    },
    "drift of other classes": lambda table: {**table, "drift": {**table["drift"], "classes": [7]}},
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_is_no_record_is_refused_in_a_line(case: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(DAMAGE[case](results().to_table())))
    with pytest.raises(InputError, match=f"^Expected what ictrl wrote in {path} but could not read it: ") as error:
        Results.read(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_file_cut_short_is_refused(share: float, tmp_path: Path) -> None:
    path, text = tmp_path / "results.json", results().to_json()
    path.write_text(text[: int(share * len(text))])
    with pytest.raises(InputError, match="could not read it: (Expecting|Unterminated|Invalid)"):
        Results.read(path)


def test_a_file_that_is_no_text_or_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with pytest.raises(InputError, match="could not read it: No such file"):
        Results.read(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="could not read it: no UTF-8"):
        Results.read(path)


# runs


@pytest.mark.parametrize("method", ["finetune", "joint"])
def test_a_method_without_class_moments_has_one_protocol_and_no_floors(method: str, tmp_path: Path) -> None:
    stages = {name: {"epochs": 1} for name in (("first", "later") if method == "finetune" else ("stage",))}
    finished = run(quick(method, stream={"tasks": 2}, method=stages), tmp_path / "run")
    record = Results.read(tmp_path / "run" / "results.json")
    assert record == finished.results
    assert (record.reencoded, record.untrained, record.frozen) == (None, None, None)
    assert (record.drift, record.replay) == (None, None)
    assert list(record.scores) == list(record.protocols) == ["memory"]
    assert record.memory.confusion is not None
    counts = confusion_table(record.memory.confusion)
    assert counts.sum() == sum(record.test_images) == 120
    assert record.kept_bytes == finished.learner.kept_bytes
    assert record.parameters == finished.learner.parameter_count
    assert record.recipe.method.name == method
    assert timeless(record).seconds == {}


def test_the_results_of_a_run_are_those_of_its_file(undisturbed: Path) -> None:
    record = Results.read(undisturbed / "results.json")
    assert Results.from_json(record.to_json()) == record
    assert record.to_json() == (undisturbed / "results.json").read_text(encoding="utf-8")
    assert record.recipe == load_recipe(undisturbed / "config.toml")
    assert set(record.seconds) == {"learn", "evaluate", "floors"}
