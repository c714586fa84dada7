"""Studies do each run once, share what is the same, go on where they were, and tell it in one table."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from ictrl import ConfigError, InputError, load_recipe
from ictrl.cli import main
from ictrl.experiment.run import Listener, Stopped, begin_alike, run
from ictrl.training.game import EpochReport
from ictrl.recipes.reader import recipe_with
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.study import (
    Planned,
    Study,
    chosen,
    load_study,
    plan,
    publish,
    read_published,
    study_names,
    table,
)
from ictrl.experiment.scheduler import carry_out

TOML = """
description = "What λ does to the digits"
seeds = [0, 1]
recipe = "quick.toml"
settings.game.epochs = 1

[[lines]]
label = "λ = 3"
paper = { last = 0.9, average = 0.95 }

[[lines]]
label = "λ = 10"
seeds = [0]
settings.objective.lambda_new = 10.0
settings.anchors.replayed = 0.0
"""
QUICK = """
base = "digits"
device = "cpu"

[network]
width = 4
feature_dim = 16

[memory]
directions = 3
neighbours = 5
samples = 4

[classifier]
components = 3

[game]
first_epochs = 2
epochs = 7

[data]
tasks = 5
limit = 12
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    (tmp_path / "quick.toml").write_text(QUICK)
    (tmp_path / "lambda.toml").write_text(TOML)
    return load_study(tmp_path / "lambda.toml")


class Counting(Listener):
    """Which tasks were learned in each run."""

    learned: dict[str, list[int]]

    def __init__(self, learned: list[int]) -> None:
        self.tasks = learned

    def on_task(self, index: int, total: int, task: Any) -> None:
        self.tasks.append(index)


def test_a_study_is_planned_line_by_line_and_seed_by_seed(study: Study, tmp_path: Path) -> None:
    planned = plan(study, tmp_path / "out", root="here", device="cpu")
    assert [item.folder.name for item in planned] == ["lambda-3-seed0", "lambda-3-seed1", "lambda-10-seed0"]
    assert [item.recipe.objective.lambda_new for item in planned] == [3.0, 3.0, 10.0]
    assert [item.recipe.seed for item in planned] == [0, 1, 0]
    assert planned[2].recipe.anchors == replace(planned[0].recipe.anchors, replayed=0.0)
    assert planned[0].recipe.data.root is None  # the digits are embedded
    mnist = replace(study, lines=[replace(study.lines[0], recipe=load_recipe("paper-mnist-5"))])
    assert plan(mnist, tmp_path, root="here")[0].recipe.data.root == str(Path("here").resolve())
    assert [item.recipe.game.epochs for item in planned] == [1, 1, 1]
    assert [item.seed for item in plan(study, tmp_path, seeds=[7])] == [7, 7]


def test_a_shared_first_task_changes_nothing(study: Study, tmp_path: Path) -> None:
    learned: dict[str, list[int]] = {}

    def listener(item: Planned) -> Listener:
        return Counting(learned.setdefault(item.folder.name, []))

    out = tmp_path / "out"
    planned = plan(study, out)
    carry_out(study, planned, out, listener=listener)
    assert learned == {
        "lambda-3-seed0": [0, 1, 2, 3, 4],
        "lambda-3-seed1": [0, 1, 2, 3, 4],
        "lambda-10-seed0": [1, 2, 3, 4],
    }
    alone, _ = run(planned[2].recipe, tmp_path / "alone")
    shared = planned[2].results
    assert shared is not None
    without_times = [{key: value for key, value in found.items() if key != "seconds"} for found in (alone, shared)]
    assert without_times[0] == without_times[1]
    last = "checkpoint/after-task-005.safetensors"
    tensors = [load_file(folder / last) for folder in (tmp_path / "alone", planned[2].folder)]
    assert all((tensors[0][name] == tensors[1][name]).all() for name in tensors[0])
    logs = [(folder / "metrics.jsonl").read_text() for folder in (tmp_path / "alone", planned[2].folder)]
    assert logs[0] == logs[1]


def test_a_finished_study_does_nothing_and_a_stopped_one_goes_on(study: Study, tmp_path: Path) -> None:
    out, epochs = tmp_path / "out", 0

    class Stops(Listener):
        def on_epoch(self, index: int, report: EpochReport) -> None:
            nonlocal epochs
            epochs += 1

    planned = plan(study, out)
    with pytest.raises(Stopped):
        carry_out(study, planned, out, listener=lambda item: Stops(), stop=lambda: epochs == 9)
    assert [item.finished for item in planned] == [True, False, False]
    finished: list[str] = []
    carry_out(
        study, planned, out, listener=lambda item: Stops(), finished=lambda item: finished.append(item.folder.name)
    )
    assert finished == ["lambda-3-seed1", "lambda-10-seed0"]
    assert epochs == 6 + 6 + 4  # no epoch was played twice
    carry_out(study, planned, out, listener=lambda item: Stops())
    assert epochs == 16


def test_several_runs_at_once_give_the_same(study: Study, tmp_path: Path) -> None:
    found = []
    for jobs in (1, 2):
        out = tmp_path / f"jobs{jobs}"
        planned = plan(study, out, seeds=[0])
        carry_out(study, planned, out, jobs=jobs)
        found.append([item.results["memory"] for item in planned if item.results])  # type: ignore[index]
    assert len(found[0]) == 2
    assert found[0] == found[1]


def test_several_at_once_wait_for_a_first_task_alone_and_stop_in_the_midst_of_theirs(
    study: Study, tmp_path: Path
) -> None:
    endless = replace(
        study, lines=tuple(replace(x, recipe=recipe_with(x.recipe, {"game": {"epochs": 10**6}})) for x in study.lines)
    )
    planned = plan(endless, tmp_path / "out", seeds=[0])

    def both_in_their_second_task() -> bool:
        logs = [item.folder / "metrics.jsonl" for item in planned]
        return all(log.exists() and '"task": 2' in log.read_text() for log in logs)

    with pytest.raises(KeyboardInterrupt):
        carry_out(endless, planned, tmp_path / "out", jobs=2, stop=both_in_their_second_task)
    for item in planned:
        with RunFolder.reopen(item.folder) as folder:  # no process holds it any more
            position = folder.position()
        assert (position.done, position.epoch) == (1, len((item.folder / "metrics.jsonl").read_text().splitlines()) - 2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_fails_is_named_and_holds_up_no_other(study: Study, tmp_path: Path, jobs: int) -> None:
    one, other = study.lines
    out = tmp_path / "out"
    planned = plan(
        replace(study, lines=(replace(one, recipe=recipe_with(one.recipe, {"data": {"tasks": 11}})), other)),
        out,
        seeds=[0],
    )
    failed: list[str] = []
    with pytest.raises(InputError, match=r"1 of 2 did not\. lambda-3-seed0: Expected a number of tasks that divides"):
        carry_out(study, planned, out, jobs=jobs, failed=lambda item, error: failed.append(item.folder.name))
    assert failed == ["lambda-3-seed0"]
    assert [item.finished for item in planned] == [False, True]
    assert "λ = 10" in (out / "table.md").read_text()


def test_a_study_that_is_killed_leaves_no_process_behind(study: Study, tmp_path: Path) -> None:
    (tmp_path / "quick.toml").write_text(QUICK.replace("epochs = 7", "epochs = 1000000"))
    (tmp_path / "lambda.toml").write_text(TOML.replace("settings.game.epochs = 1", ""))
    begun = [sys.executable, "-m", "ictrl", "study", "lambda.toml", "--jobs", "2", "--out", "out"]
    with subprocess.Popen(begun, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        runs = [tmp_path / "out" / "lambda" / name for name in ("lambda-3-seed0", "lambda-3-seed1")]
        until(lambda: all('"task": 2' in _text(folder / "metrics.jsonl") for folder in runs))
        killed.kill()
    until(lambda: all(_free(folder) for folder in runs))


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _free(folder: Path) -> bool:
    """Whether no process holds the run."""
    try:
        with RunFolder.reopen(folder):
            return True
    except InputError:
        return False


def test_the_table_has_every_figure(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    planned = plan(study, out)
    carry_out(study, planned, out)
    publish(study, planned, tmp_path / "published")
    published = read_published(tmp_path / "published")
    assert {label: [r["seed"] for r in runs] for label, runs in published.items()} == {"λ = 3": [0, 1], "λ = 10": [0]}
    assert all(r["recipe"]["data"]["root"] is None for runs in published.values() for r in runs)
    text = table(study, published)
    assert text + "\n" == (out / "table.md").read_text()
    head, rule, first, second = text.splitlines()
    assert head.split(" | ")[1:5] == ["paper, reencoded", "reencoded", "memory", "untrained"]
    assert rule == "|" + " --- |" * 9
    runs = published["λ = 3"]
    mean = sum(r["memory"]["last"] for r in runs) / 2
    spread = abs(runs[0]["memory"]["last"] - runs[1]["memory"]["last"]) / 2**0.5
    average = sum(r["memory"]["average"] for r in runs) / 2
    cells = first.strip("| ").split(" | ")
    assert cells[:2] == ["λ = 3", "0.900 / 0.950"]
    assert cells[3] == f"{mean:.3f} ± {spread:.3f} / {average:.3f}"
    assert cells[-1] == "0, 1"
    frozen = published["λ = 10"][0]["frozen"]
    assert f"{frozen['last']:.3f} / {frozen['average']:.3f}" in second


def test_what_begins_alike() -> None:
    recipe = load_recipe("best-cifar10-5")
    for settings in (
        {"objective": {"lambda_new": 7.0, "gamma_old": 0.0}},
        {"anchors": {"new": 0.0, "replayed": 0.0}},
        {"game": {"epochs": 3, "batch": 10, "replay": "frozen", "resample": "step"}},
        {"memory": {"samples": 3, "transport": False}},
        {"name": "other", "checkpoint": {"every_epochs": 1}},
    ):
        assert begin_alike(recipe, recipe_with(recipe, settings)), settings
    for settings in (
        {"seed": 1},
        {"game": {"first_epochs": 3}},
        {"game": {"flips": False}},
        {"memory": {"directions": 3}},
        {"memory": {"neighbours": 3}},
        {"objective": {"eps_sq": 0.5}},
        {"data": {"tasks": 10}},
        {"network": {"width": 32}},
        {"classifier": {"components": 3}},
    ):
        assert not begin_alike(recipe, recipe_with(recipe, settings)), settings


def test_another_first_task_is_refused(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    planned = plan(study, out, seeds=[0])
    carry_out(study, planned, out)
    (kept,) = (out / "first-tasks").rglob("learner.safetensors")
    with pytest.raises(InputError, match="begins differently"):
        run(replace(planned[0].recipe, seed=5), tmp_path / "other", first_task=kept)
    assert not (tmp_path / "other").exists()


def test_a_folder_of_another_recipe_is_refused(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    planned = plan(study, out, seeds=[0])
    carry_out(study, planned, out)
    other = replace(planned[0], recipe=recipe_with(planned[0].recipe, {"game": {"epochs": 2}}))
    with pytest.raises(InputError, match=r"another recipe \(game.epochs: 1 → 2\): remove it"):
        carry_out(study, [other], out)


@pytest.mark.parametrize("name", study_names())
def test_every_study_can_be_planned(name: str, tmp_path: Path) -> None:
    study = load_study(name)
    planned = plan(study, tmp_path)
    assert study.description
    assert len({item.folder for item in planned}) == len(planned)
    if name.startswith("choosing-"):  # never by the test images, nor with the seeds or orders that are reported
        for item in planned:
            assert item.recipe.data.validation > 0
            assert item.recipe.data.class_order_seed is not None
            assert item.seed > 10
    elif name != "precision":  # a question of our own
        papers = [line.recipe for line in study.lines if line.paper and line.recipe.name.startswith("paper-")]
        assert papers, "what the paper reports stands beside the paper's recipe"
        assert all(item.recipe.data.validation == 0 for item in planned)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lines = 3", "at least one"),
        ("seeds = [0]", "at least one"),
        ("[[lines]]\nrecipe = 'digits'", "label"),
        ("[[lines]]\nlabel = 'a'\nrecipe = 'digist'", "did you mean 'digits'"),
        ("[[lines]]\nlabel = 'a'\nrecipe = 'digits'\nseeds = 0", "list of whole numbers"),
        ("[[lines]]\nlabel = 'a'\nrecipe = 'digits'\nsettings.game.epoch = 3", "game.epoch.*did you mean 'epochs'"),
        ("[[lines]]\nlabel = 'a'\nrecipe = 'digits'\npapers = 3", "got 'papers'"),
        ("[[lines]]\nlabel = 'a'\nrecipe = 'digits'\npaper = { best = 1 }", "got 'best'"),
        ("[[lines]]\nlabel = 'a b'\nrecipe = 'digits'\n[[lines]]\nlabel = 'A-b'\nrecipe = 'digits'", "a-b comes twice"),
        (
            "recipe = 'digits'\n[[lines]]\nlabel = 'a'\n[[lines]]\nlabel = 'b'\nsettings.objective.lambda_new = 3.0",
            "'a' and 'b' are the same",
        ),
        ("settings = 3\n[[lines]]\nlabel = 'a'\nrecipe = 'digits'", "settings to be a table"),
        ("[[lines", "Expected TOML"),
    ],
)
def test_a_wrong_study_is_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_study(path)


def test_an_unknown_study_names_those_there_are() -> None:
    with pytest.raises(ConfigError, match="Known studies: .*cifar100, constraint, "):
        load_study("tabel1")


def test_only_some_lines(study: Study) -> None:
    assert [line.label for line in chosen(study, ["= 10"]).lines] == ["λ = 10"]
    assert chosen(study, []) is study
    with pytest.raises(InputError, match="none has seven"):
        chosen(study, ["seven"])


def test_the_command(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where users are, with paths from there
    out = Path("out")
    arguments = ["study", "lambda.toml", "--out", str(out), "--seeds", "3"]
    assert main([*arguments, "--publish", "published"]) == 0
    shown = capsys.readouterr().out
    assert "What λ does to the digits\nRuns: 2, still to be done: 2; written to out/lambda." in shown
    assert (out / "lambda" / "table.md").read_text().strip() in shown
    names = sorted(path.name for path in (tmp_path / "published" / "lambda").iterdir())
    assert names == ["lambda-10-seed3.json", "lambda-3-seed3.json"]
    assert json.loads((tmp_path / "published" / "lambda" / names[0]).read_text())["line"] == "λ = 10"
    assert main(arguments) == 0
    assert "still to be done: 0" in capsys.readouterr().out
    assert main(["study"]) == 0
    assert "The paper's main table" in capsys.readouterr().out
    assert main([*arguments, "--jobs", "0"]) == 2
    assert main(["study", "nothing"]) == 2


def test_the_command_refuses_before_it_does_or_shows_anything(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["study", str(tmp_path / "lambda.toml"), "--out", str(tmp_path / "out"), "--only", "λ = 10"]
    (tmp_path / "taken").touch()
    assert main([*arguments, "--publish", str(tmp_path / "taken")]) == 1
    assert not (tmp_path / "out").exists()  # no run was begun whose results have no place
    assert main(arguments) == 0
    text = (tmp_path / "lambda.toml").read_text(encoding="utf-8")
    (tmp_path / "lambda.toml").write_text(text.replace("lambda_new = 10.0", "lambda_new = 11.0"), encoding="utf-8")
    capsys.readouterr()
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert "another recipe (objective.lambda_new: 10.0 → 11.0)" in said.err
    assert said.out == ""  # no table of what the file no longer says
