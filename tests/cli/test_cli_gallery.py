"""`ictrl gallery`: learners side by side on one sheet."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_support import EPOCHS, SMALL, Ran
from PIL import Image
from support import call

Made = Callable[[str], Ran]


@pytest.fixture(scope="module")
def three_tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has kept its learner after each of three tasks."""
    out = tmp_path_factory.mktemp("three") / "run"
    options = [*EPOCHS["ictrl-digits"], *SMALL, "--stream.tasks", "3", "--stream.task-sizes", "4", "3", "3"]
    assert call("run", "ictrl-digits", *options, "--checkpoint.every-task", "--out", out) == 0
    return out


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_two_learners_on_one_sheet_which_is_the_same_again(
    ran: Made, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = ran("ictrl-digits").folder, ran("frozen-digits").folder
    assert call("gallery", *runs, "--n", "3", "--classes", "7", "0", "-o", "new/one.png", "--device", "cpu") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("12 pictures of 2 classes by 2 learners, ")
    assert printed.out.endswith(" kB: new/one.png\n")
    assert call("gallery", *runs, "--n", "3", "--classes", "7", "0", "-o", "again.png", "--device", "cpu") == 0
    assert (here / "again.png").read_bytes() == (here / "new" / "one.png").read_bytes()
    other = ["--n", "3", "--classes", "7", "0", "--seed", "1", "-o", "other.png", "--device", "cpu"]
    assert call("gallery", *runs, *other) == 0
    assert (here / "other.png").read_bytes() != (here / "again.png").read_bytes()
    with Image.open("again.png") as sheet:
        assert (sheet.format, sheet.mode) == ("PNG", "L")


def test_after_every_task(three_tasks: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = sorted(path.name for path in (three_tasks / "checkpoint").iterdir())
    assert kept == [f"after-task-{task:03d}.safetensors" for task in (1, 2, 3)]
    assert call("gallery", three_tasks, "--by", "task", "--n", "1", "-o", "tasks.png", "--device", "cpu") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("21 pictures of 10 classes by 1 learner, ")  # 4 + 7 + 10
    assert printed.err == ""


def test_where_only_the_newest_are_kept_that_is_said_with_the_remedy(
    three_tasks: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(three_tasks, "run")
    (here / "run" / "checkpoint" / "after-task-001.safetensors").unlink()
    damaged = here / "run" / "checkpoint" / "after-task-002.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-10])
    assert call("gallery", "run", "--by", "task", "--n", "1", "-o", "tasks.png", "--device", "cpu") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("10 pictures of 10 classes")
    kept, passed_over = printed.err.splitlines()
    assert kept == (
        "warning: run has kept its learner only after tasks 2, 3: a run with --checkpoint.every-task keeps it after "
        "every task."
    )
    assert passed_over.startswith("warning: Expected ")
    assert passed_over.endswith("It is left out.")


def test_directions_and_the_nearest_training_images(ran: Made, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ran("ictrl-digits").folder
    options = ["--by", "direction", "--classes", "3", "--n", "1", "--device", "cpu"]
    assert call("gallery", run, *options, "-o", "plain.png") == 0
    assert capsys.readouterr().out.startswith("6 pictures of 1 class by 1 learner, ")
    assert call("gallery", run, *options, "--nearest", "-o", "nearest.png") == 0
    with Image.open("plain.png") as plain, Image.open("nearest.png") as nearest:
        assert nearest.height - plain.height == 32 + 2 + 5  # a row of pictures more


def test_two_runs_of_one_recipe_are_told_apart_and_titles_can_be_given(
    ran: Made, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("ictrl.cli.gallery.titled_sheet", lambda panels: seen.extend(panels) or b"sheet")
    run = ran("ictrl-digits").folder
    shutil.copytree(run, "other")
    assert call("gallery", run, "other", ran("frozen-digits").folder, "-o", "a.png", "--device", "cpu") == 0
    assert [(panel.title, panel.subtitle) for panel in seen] == [
        ("ictrl", "ictrl-digits (run)"),
        ("ictrl", "ictrl-digits (other)"),
        ("frozen", "frozen-digits"),
    ]
    assert [row.name for row in seen[2].rows] == [row.name for row in seen[0].rows] == [str(i) for i in range(10)]
    seen.clear()
    assert call("gallery", run, "--titles", "ours", "-o", "a.png", "--device", "cpu") == 0
    assert [(panel.title, panel.subtitle) for panel in seen] == [("ours", "ictrl-digits")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Expected at least one run folder but got none"),
        (["none"], "Expected a run folder but none is not there"),
        (["RUN", "--n", "0"], "Expected --n to be at least 1 but got 0."),
        (["RUN", "--n", "1000000"], "Expected fewer pictures for --n but got 10,000,000 pictures"),
        (["RUN", "--n", "2000"], "Expected a sheet of at most 20,000 × 20,000 pixels but it would have"),
        (["RUN", "--classes", "12"], "Expected --classes to be a class that was learned but got '12'; learned are 0"),
        (["RUN", "--classes", "3", "3"], "Expected each of --classes once but got '3' again."),
        (["RUN", "--titles", "a", "b"], "Expected a title for each of 1 runs but got 2."),
        (["RUN", "--seed", "-1"], "Expected --seed from 0 to 2^63 − 1 but got -1."),
        (["RUN", "FINETUNE"], "Expected a method that can draw (dgmw, dgr,"),
        (["LEARNER", "--by", "task"], "Expected a run folder but"),
        (["LEARNER", "--nearest"], "Expected a run folder but"),
        (["RUN", "--nearest", "--root", "nowhere", "-o", "folder.png"], "but folder.png is a folder."),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    arguments: list[str], message: str, ran: Made, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "folder.png").mkdir()
    run = ran("ictrl-digits").folder
    stand = {"RUN": run, "LEARNER": run / "checkpoint" / "after-task-002.safetensors"}
    if "FINETUNE" in arguments:
        stand["FINETUNE"] = ran("finetune-digits").folder
    out = [] if "-o" in arguments else ["-o", "sheet.png"]
    capsys.readouterr()
    assert call("gallery", *(stand.get(argument, argument) for argument in arguments), *out, "--device", "cpu") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert [path.name for path in here.iterdir()] == ["folder.png"]


def test_runs_of_other_classes_are_refused_by_name(
    ran: Made, own_run: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ran("ictrl-digits").folder
    capsys.readouterr()
    assert call("gallery", run, own_run, "-o", "sheet.png", "--device", "cpu") == 2
    assert "knows 0, 1, 2 … and own knows blue, green, red: make a sheet of each." in capsys.readouterr().err


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("gallery", "--help") == 0
    output = capsys.readouterr().out
    for part in ("Examples:", "ictrl gallery runs/mine -o classes.png", "--checkpoint.every-task", "-o PATH, --out"):
        assert part in output
