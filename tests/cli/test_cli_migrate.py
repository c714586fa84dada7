"""`ictrl migrate`: files of version 0.1 under today's names."""

import json
import shutil
from pathlib import Path

import pytest
from support import call

from ictrl.experiment.results import Results
from ictrl.experiment.study import load_study
from ictrl.recipes.reader import load_recipe

STORED = Path(__file__).parents[1] / "cifar10-run"
RECIPE = """# my digits
base = "digits"

[game]
# quick
first_epochs = 3
learning_rate = 0.002  # twice as fast

[memory]
transport = false

[data]
name = "digits"
"""
STUDY = """description = "Does a longer game help?"
recipe = "digits"
settings.data = { tasks = 2, limit = 40 }

[[lines]]
label = "as it is"

[[lines]]
label = "longer"
settings.game.epochs = 80
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder one stands in, with a recipe, a study and results of version 0.1."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(RECIPE)
    (tmp_path / "study.toml").write_text(STUDY)
    shutil.copy(STORED / "results.json", tmp_path / "results.json")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_old_recipe_is_refused_with_the_command_that_rewrites_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", "mine.toml") == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "error: Expected today's names of settings in mine.toml but game.first_epochs is now method.first.epochs; "
    )
    assert error.endswith(": `ictrl migrate mine.toml` rewrites the file.\n")


def test_a_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("migrate", "mine.toml") == 0
    assert capsys.readouterr().out == "changed mine.toml\n1 file changed.\n"
    method = load_recipe("mine.toml").method
    assert method.name == "ictrl"  # "digits" is a recipe of another method now
    assert (method.first.epochs, method.first.learning_rate, method.later.learning_rate) == (3, 0.002, 0.002)
    assert method.memory.drift_compensation is False
    text = Path("mine.toml").read_text()
    assert all(comment in text for comment in ("# my digits", "# quick", "# twice as fast"))


def test_a_study_and_results(capsys: pytest.CaptureFixture[str]) -> None:
    before = Results.read(Path("results.json"))
    assert call("migrate", "study.toml", "results.json") == 0
    assert capsys.readouterr().out == "changed study.toml\nchanged results.json\n2 files changed.\n"
    study = load_study("study.toml")
    assert [line.recipe.method.later.epochs for line in study.lines] == [40, 80]
    assert {line.recipe.stream.tasks for line in study.lines} == {2}
    table = json.loads(Path("results.json").read_text())
    assert {"untrained", "kept_bytes"} <= set(table)
    assert not {"floor", "memory_bytes"} & set(table)
    assert Results.read(Path("results.json")) == before  # no figure is changed


def test_check_changes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(here)
    assert call("migrate", ".", "--check") == 0
    assert capsys.readouterr().out == (
        "would change mine.toml\nwould change results.json\nwould change study.toml\n3 files would be changed.\n"
    )
    assert contents(here) == before


def test_a_second_time_there_is_nothing_to_change(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("migrate", ".") == 0
    migrated = contents(here)
    capsys.readouterr()
    assert call("migrate", ".") == 0
    assert capsys.readouterr().out == "0 files changed, 3 have today's names.\n"
    assert contents(here) == migrated


def test_run_folders_and_what_is_none_of_ours_are_left_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(STORED, here / "runs" / "old")
    (here / "runs" / "package.json").write_text('{"name": "something else"}')
    before = contents(here / "runs")
    assert call("migrate", "runs", "mine.toml") == 0
    assert capsys.readouterr().out == (
        "changed mine.toml\n1 file changed, 1 run folder is read as before, 1 is none of ictrl's.\n"
    )
    assert contents(here / "runs") == before


def test_what_cannot_be_read_is_named_after_the_others_are_done(capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.toml").write_text("epochs = ")
    Path("other.json").write_text("{}")
    Path("list.json").write_text("[1, 2]")
    Path("text.json").write_bytes(b"\xff\xfe")
    assert call("migrate", "broken.toml", "other.json", "list.json", "text.json", "mine.toml") == 2
    captured = capsys.readouterr()
    assert captured.out == "changed mine.toml\n1 file changed.\n"
    assert captured.err.startswith(
        "error: Expected recipes, studies and results but could not read 4 of 5: broken.toml (TOMLDecodeError "
    )
    for part in (
        "other.json (neither results nor a review that ictrl wrote), ",
        "list.json (neither results nor a review that ictrl wrote), ",
        "text.json (UnicodeDecodeError 'utf-8' codec can't decode byte 0xff in position 0",
    ):
        assert part in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Expected at least one file or folder but got none: name them after the command."),
        (["mine.toml", "gone.toml"], "Expected a file or a folder but gone.toml is not there."),
        (["mine.toml", "notes.txt"], "Expected a .toml or a .json file but got notes.txt."),
    ],
)
def test_a_users_mistake_exits_with_2_and_changes_nothing(
    arguments: list[str], message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("notes.txt").write_text("[game]\nepochs = 3\n")
    before = contents(here)
    assert call("migrate", *arguments) == 2
    captured = capsys.readouterr()
    assert captured.err == f"error: {message}\n"
    assert captured.out == ""
    assert contents(here) == before
