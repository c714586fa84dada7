"""`ictrl data`: what there is, how it comes, and what a stream would be."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from official import Official
from PIL import Image
from support import call

from ictrl.cli.data import recipe_or_dataset
from ictrl.data.registry import ENTRIES
from ictrl.recipes.reader import load_recipe


def lines(text: str) -> list[str]:
    """Without the padding of tables."""
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where datasets are looked for: a folder that holds nothing yet; and an empty one to stand in."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_list(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Official(cache).mnist()
    assert call("data", "list") == 0
    header, *rows = lines(capsys.readouterr().out)
    assert header == "name classes training test images at hand what it is"
    assert rows[:8] == [
        "digits 10 1,433 364 8×8 grey yes handwritten digits that scikit-learn carries",
        "mnist 10 60,000 10,000 28×28 grey yes handwritten digits",
        "fashion-mnist 10 60,000 10,000 28×28 grey no articles of clothing",
        "cifar10 10 50,000 10,000 32×32 colour no small photographs of animals and vehicles",
        "letters 20 4,000 1,000 32×32 colour yes capital letters in many fonts and colours, drawn here",
        "cifar100 100 50,000 10,000 32×32 colour no small photographs of a hundred things",
        "folder your own pictures, one folder per class: ictrl run pictures --stream.root FOLDER",
        "npz your own arrays: ictrl run pictures --stream.dataset npz --stream.root FILE.npz",
    ]
    assert rows[-1] == f"Looked for in {cache}. `ictrl data download NAME` fetches what is not there."


def test_list_looks_where_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Official(tmp_path / "disk").cifar("cifar100", "python")
    assert call("data", "list", "--root", tmp_path / "disk") == 0
    output = lines(capsys.readouterr().out)
    assert [line.split()[0] for line in output if " yes " in line] == ["digits", "letters", "cifar100"]
    assert f"Looked for in {tmp_path / 'disk'}." in output[-1]


def test_download_says_where_it_is(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is there already is not fetched; the tests have no network."""
    Official(cache).mnist()
    assert call("data", "download", "mnist") == 0
    assert capsys.readouterr().out == f"mnist is in {cache / 'MNIST' / 'raw'}.\n"
    disk = tmp_path / "disk"
    Official(disk).cifar("cifar10", "binary")
    assert call("data", "download", "cifar10", "--root", disk) == 0
    expected = f"cifar10 is in {disk / 'cifar-10-batches-bin'}; use it with --stream.root {disk}.\n"
    assert capsys.readouterr().out == expected


def test_show_a_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    expected = [
        "task training test classes (training + test images)",
        "1 287 73 0 (142 + 36), 1 (145 + 37)",
        "2 287 73 2 (141 + 36), 3 (146 + 37)",
        "3 289 74 4 (144 + 37), 5 (145 + 37)",
        "4 287 73 6 (144 + 37), 7 (143 + 36)",
        "5 283 71 8 (139 + 35), 9 (144 + 36)",
        "",
        "digits as 16×16 grey: 10 classes in 5 tasks, 1,433 training and 364 test images.",
    ]
    for arguments in (["digits"], ["ictrl-digits"], ["paper-digits"]):
        assert call("data", "show", *arguments) == 0
        assert lines(capsys.readouterr().out) == expected


def test_show_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("data", "show") == 0
    shown = lines(capsys.readouterr().out)
    assert shown[1] == "1 800 200 0 A (200 + 50), 1 B (200 + 50), 2 C (200 + 50), 3 D (200 + 50)"
    assert shown[-1] == "letters as 32×32 colour: 20 classes in 5 tasks, 4,000 training and 1,000 test images."


@pytest.mark.parametrize("before", [True, False])
def test_show_takes_options_before_and_after_the_name(
    before: bool, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Official(cache).cifar("cifar10", "binary")
    options = ["--stream.class-order", *"9876543210", "--stream.halved-tasks", "2", "--stream.halved-share", "0.9"]
    first, last = (["--stream.limit", "2", "paper-cifar10-5"], options) if before else (["paper-cifar10-5"], options)
    assert call("data", "show", *first, *last) == 0
    output = lines(capsys.readouterr().out)
    assert output[1:3] == ["1 4 2 9 truck (2 + 1), 8 ship (2 + 1)", "2 4 2 7 horse (2 + 1), 6 frog (2 + 1)"]
    assert output[-1] == "cifar10 as 32×32 colour: 10 classes in 5 tasks, 20 training and 10 test images."


def test_show_a_dataset_is_one_task_until_it_is_cut(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Official(cache).mnist()
    assert call("data", "show", "mnist") == 0
    assert lines(capsys.readouterr().out)[1:] == [
        "1 30 20 " + ", ".join(f"{digit} (3 + 2)" for digit in range(10)),
        "",
        "mnist as 32×32 grey: 10 classes in 1 task, 30 training and 20 test images.",
    ]
    assert call("data", "show", "mnist", "--stream.tasks", "10") == 0
    assert "10 classes in 10 tasks" in capsys.readouterr().out


def test_show_a_recipe_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text(
        'base = "digits"\n[stream]\ntask_sizes = [9, 1]\n[method.network]\nchannels = 3\n'
    )
    assert call("data", "show", tmp_path / "mine.toml", "--stream.limit", "5") == 0
    output = lines(capsys.readouterr().out)
    assert output[2] == "2 5 5 9 (5 + 5)"
    assert output[-1] == "digits as 16×16 colour: 10 classes in 2 tasks, 50 training and 50 test images."


def test_the_two_broken_files_are_named(own_pictures: Path, own_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("data", "show", own_pictures.parent / "own.toml", "--stream.root", own_pictures) == 0
    *table, blank, summary, _, skipped, first, second = capsys.readouterr().out.splitlines()
    assert [" ".join(line.split()) for line in table] == [
        "task training test classes (training + test images)",
        "1 20 4 0 blue (10 + 2), 1 green (10 + 2)",
        "2 10 2 2 red (10 + 2)",
    ]
    assert blank == ""
    assert summary == "pictures as 8×8 colour: 3 classes in 2 tasks, 30 training and 6 test images."
    assert skipped == "2 files were skipped:"
    assert first.startswith("  blue/broken.jpg: ")
    assert second == "  red/notes.png: it is in no known picture format"


def test_show_writes_a_sheet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--stream.class-order-seed", "1", "--stream.tasks", "10", "--sheet"]
    assert call("data", "show", "digits", *options, tmp_path / "sheet.png") == 0
    assert capsys.readouterr().out.endswith(f"\nTraining images of each class, a row per class: {tmp_path}/sheet.png\n")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert (sheet.mode, sheet.size) == ("L", (4 * (10 * 18 + 2), 4 * (10 * 18 + 2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["show", "mnits"],
            "error: Expected a recipe or a dataset but got 'mnits' (did you mean 'mnist'?): `ictrl rec",
        ),
        (["show", "best-cifar10"], "(did you mean 'best-cifar10-"),
        (["show", "digits-paper"], "(did you mean 'paper-digits'?)"),
        (["show", "none.toml"], "error: Expected a recipe file but could not read none.toml"),
        (["show", "mnist"], "run `ictrl data download mnist`"),
        (
            ["show", "--stream.tasks", "3"],
            "error: Expected a number of tasks that divides the 20 classes of letters but",
        ),
        (["show", "--stream.limit", "1"], "error: Expected stream.limit to be at least 2"),
        (["show", "--stream.task", "2"], "--stream.tasks"),
        (
            ["show", "folder"],
            "error: Expected stream.root to be a folder of pictures for stream.dataset folder but got none",
        ),
        (["show", "digits", "--sheet", "sheet.jpg"], "error: Expected --sheet to be a file that ends in .png but got"),
        (
            ["download", "folder"],
            "error: Expected a dataset that can be downloaded (mnist, fashion-mnist, cifar10, cif",
        ),
        (["download"], "NAME"),
        (["list", "mnist"], "mnist"),
        (["upload"], "upload"),
        ([], "Expected one of {list, download, show}"),
    ],
)
def test_a_users_mistake_exits_with_2_and_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("data", *arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert list(Path().iterdir()) == []  # nothing was written
    if captured.err.startswith("error:"):
        assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--help"], ["List datasets, fetch them", "• list ", "• download ", "• show ", "ictrl data download cifar10"]),
        (["list", "--help"], ["Example:", "ictrl data list", "--root"]),
        (["download", "--help"], ["Examples:", "ictrl data download mnist", "NAME", "--root"]),
        (["show", "--help"], ["Examples:", "ictrl data show mnist --sheet mnist.png", "--stream.tasks", "--sheet"]),
    ],
)
def test_help_teaches(arguments: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call("data", *arguments) == 0
    output = capsys.readouterr().out
    for part in parts:
        assert part in output


def test_the_help_of_download_names_every_dataset_with_a_source(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("data", "download", "--help") == 0
    assert "There are mnist, fashion-mnist, cifar10 and cifar100. Each comes from" in capsys.readouterr().out
    monkeypatch.setitem(ENTRIES, "stripes", replace(ENTRIES["cifar100"], reader=lambda *_: None))  # of a script
    assert call("data", "download", "--help") == 0
    assert "There are mnist, fashion-mnist, cifar10, cifar100 and stripes." in capsys.readouterr().out


def test_help_shows_the_values_of_what_was_named(capsys: pytest.CaptureFixture[str]) -> None:
    for name, tasks in {"ictrl-cifar100-20": 20, "cifar100": 1}.items():
        assert call("data", "show", name, "--help") == 0
        help_text = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert f"equally many classes (default: {tasks})" in help_text


def test_every_dataset_is_shown_with_its_own_channels() -> None:
    assert recipe_or_dataset("digits") == load_recipe("digits")  # the recipe of that name
    channels = {
        name: recipe_or_dataset(name).method.network.channels for name in ("fashion-mnist", "cifar10", "folder")
    }
    assert channels == {"fashion-mnist": 1, "cifar10": 3, "folder": 3}


def test_a_terminal_that_knows_ascii_alone() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "ictrl", "data", "list"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert r"28\xd728 grey" in output
