"""Own pictures from the command line: learned in two tasks, predicted, replayed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ictrl import ICTRL
from ictrl.cli import main
from ictrl.cli.use import find_label
from ictrl.errors import InputError

COLOURS = {"blue": (30, 60, 220), "green": (40, 190, 60), "red": (220, 40, 30)}
NEWEST = Path("checkpoint") / "after-task-002.safetensors"
RECIPE = """
base = "digits"
device = "cpu"
[network]
image_size = 8
channels = 3
width = 8
feature_dim = 16
[memory]
directions = 3
neighbours = 5
samples = 8
[classifier]
components = 2
[game]
first_epochs = 15
epochs = 15
first_batch = 16
[data]
name = "folder"
task_sizes = [2, 1]
"""


def call(*arguments: str | Path) -> int:
    """The exit code, whether the command returns it or the parser raises it."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as error:
        return int(error.code or 0)


def draw(path: Path, colour: tuple[int, int, int], size: tuple[int, int], seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 20, (size[1], size[0], 3))
    Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)).save(path)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of PNG and JPEG files, no two of one size, and two files that are no pictures."""
    root = tmp_path_factory.mktemp("own") / "pictures"
    for number, (name, colour) in enumerate(COLOURS.items()):
        (root / name).mkdir(parents=True)
        for i in range(12):
            draw(root / name / f"{i}{'.png' if i % 2 else '.jpg'}", colour, (9 + i, 30 - i), seed=100 * number + i)
    (root / "blue" / "broken.jpg").write_bytes((root / "blue" / "0.jpg").read_bytes()[:200])
    (root / "red" / "notes.png").write_text("buy milk")
    return root


@pytest.fixture(scope="module")
def run(pictures: Path) -> Path:
    recipe, out = pictures.parent / "own.toml", pictures.parent / "run"
    recipe.write_text(RECIPE)
    assert call("run", recipe, "--data.root", pictures, "--out", out) == 0
    return out


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder one stands in, with a picture of each class that the learner has not seen."""
    for number, (name, colour) in enumerate(COLOURS.items()):
        draw(tmp_path / f"{name}.png", colour, (20, 14), seed=1000 + number)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_predict_prints_a_table(run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("predict", run, "red.png", "blue.png", "green.png", "--device", "cpu") == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["picture", "class", "residual", "runner-up", "residual"]
    cells = [row.split() for row in rows]
    assert [row[:2] for row in cells] == [["red.png", "red"], ["blue.png", "blue"], ["green.png", "green"]]
    for _, nearest, residual, runner_up, further in cells:
        assert runner_up in set(COLOURS) - {nearest}
        assert 0 <= float(residual) <= float(further) <= 4


def test_predict_prints_json(run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("predict", run, "green.png", "--json", "--device", "cpu") == 0
    (prediction,) = json.loads(capsys.readouterr().out)
    assert {key: prediction[key] for key in ("file", "label", "class")} == {
        "file": "green.png",
        "label": 1,
        "class": "green",
    }
    residuals = [entry["residual"] for entry in prediction["residuals"]]
    assert residuals == sorted(residuals)
    assert prediction["residuals"][0]["class"] == "green"
    assert {entry["label"]: entry["class"] for entry in prediction["residuals"]} == dict(enumerate(COLOURS))


def test_a_learner_file_serves_too(run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(run / NEWEST, "mine.safetensors")
    ICTRL.load(run / NEWEST, device="cpu").save("nameless.safetensors")
    for file, expected in {"mine": "red", "nameless": "2"}.items():
        assert call("predict", f"{file}.safetensors", "red.png", "--device", "cpu") == 0
        assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["red.png", expected]


def test_a_damaged_checkpoint_is_passed_over(run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run, "damaged")
    newest = Path("damaged") / NEWEST
    newest.write_bytes(newest.read_bytes()[:-1] + b"!")
    assert call("predict", "damaged", "blue.png", "--device", "cpu") == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(
        "warning: Expected a saved learner but damaged/checkpoint/after-task-002.safetensors"
    )
    assert captured.out.splitlines()[1].split()[:2] == ["blue.png", "blue"]
    assert "red" not in captured.out  # which was learned in the second task


def test_what_cannot_be_read_is_named_after_the_others(
    run: Path, pictures: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(pictures / "red" / "notes.png", "[notes].png")
    (new / "folder").mkdir()
    files = ["[notes].png", "red.png", "folder", "gone.png", "blue.png"]
    assert call("predict", run, *files, "--device", "cpu") == 2
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()] == ["picture", "red.png", "blue.png"]
    assert captured.err == (
        "error: Expected pictures but could not read 3 of 5: [notes].png (it is in no known picture format), folder "
        "(a folder: name the pictures in it, such as folder/*), gone.png (there is no such file).\n"
    )
    assert call("predict", run, "gone.png", "--json", "--device", "cpu") == 2
    assert capsys.readouterr().out == "[]\n"


def test_a_cut_off_picture_is_named(run: Path, pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("predict", run, pictures / "blue" / "broken.jpg", "--device", "cpu") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: Expected pictures but could not read 1 of 1: {pictures}/blue/broken.jpg (")


def test_names_with_brackets_and_long_paths_are_printed_whole(
    run: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = new / ("long" * 30) / "[bold] red.png"
    deep.parent.mkdir()
    shutil.copy("red.png", deep)
    assert call("predict", run, deep, "--device", "cpu") == 0
    assert str(deep) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "RUN"], "error: Expected at least one picture but got none: name the files after the run."),
        (["predict", "none", "red.png"], "error: Expected a run folder but none is not there: `ictrl run` makes one"),
        (["predict", ".", "red.png"], "error: Expected a run folder but . has no config.toml"),
        (["predict", "red.png", "red.png"], "error: Expected a saved learner but red.png is cut short or of another"),
        (["predict", "RUN", "red.png", "--device", "cuda:99"], "error: Expected a device of this machine (auto, cpu"),
        (["predict"], "RUN"),
        (
            ["sample", "RUN", "--label", "pink", "-o", "a.png"],
            "error: Expected --label to be a class that was learned but got 'pink'; learned are 0 blue, 1 green, 2",
        ),
        (
            ["sample", "RUN", "--label", "7", "-o", "a.png"],
            "error: Expected --label to be a class that was learned but",
        ),
        (["sample", "RUN", "--label", "0", "-o", "a.jpg"], "error: Expected --out to be a file that ends in .png but"),
        (["sample", "RUN", "--label", "0", "-o", "a.png", "--n", "0"], "error: Expected n to be at least 1 but got 0."),
        (
            ["sample", "RUN", "--label", "0", "-o", "a.png", "--direction", "3"],
            "error: Expected direction from 0 to 2 for label 0 but got 3.",
        ),
        (["sample", "none", "--label", "0", "-o", "a.png"], "error: Expected a run folder but none is not there"),
        (["sample", "RUN", "--label", "0"], "--out"),
    ],
)
def test_a_users_mistake_exits_with_2_and_one_line(
    arguments: list[str], message: str, run: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(new.iterdir())
    assert call(*(run if argument == "RUN" else argument for argument in arguments)) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert sorted(new.iterdir()) == before  # nothing was written
    if captured.err.startswith("error:"):
        assert captured.err.count("\n") == 1


def test_sample_writes_a_sheet(run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (new / "sheet.png").write_text("an older sheet")
    assert call("sample", run, "--label", "green", "--n", "9", "-o", "sheet.png", "--device", "cpu") == 0
    assert capsys.readouterr().out == "9 pictures of class green replayed from memory: sheet.png\n"
    with Image.open("sheet.png") as sheet:
        assert (sheet.format, sheet.mode, sheet.size) == ("PNG", "RGB", (8 * 32, 8 * 32))  # 3 · (8 + 2) + 2, enlarged
        pixels = np.asarray(sheet)[::8, ::8]
    replayed = ICTRL.load(run / NEWEST, device="cpu").sample(1, 9)
    for i, picture in enumerate(replayed.permute(0, 2, 3, 1)):
        top, left = 2 + 10 * (i // 3), 2 + 10 * (i % 3)
        assert np.array_equal(pixels[top : top + 8, left : left + 8], picture)


def test_sample_along_a_direction(run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--label", "2", "--n", "1", "--direction", "1", "--out", "new folder/sheet.PNG", "--device", "cpu"]
    assert call("sample", run, *options) == 0
    expected = "1 picture of class red replayed from memory along direction 1: new folder/sheet.PNG\n"
    assert capsys.readouterr().out == expected
    with Image.open("new folder/sheet.PNG") as sheet:
        assert sheet.size == (8 * 12, 8 * 12)


def test_the_two_broken_files_are_named(pictures: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("data", "show", pictures.parent / "own.toml", "--data.root", pictures) == 0
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


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--help"], ["predict", "Say which class each picture shows", "sample", "Replay pictures of a class"]),
        (["predict", "--help"], ["Examples:", "ictrl predict runs/mine holiday/*.jpg --json", "IMAGE…", "--device"]),
        (
            ["sample", "--help"],
            ["Examples:", "ictrl sample runs/mine --label 3 --out sheet.png", "-o PATH, --out PATH"],
        ),
    ],
)
def test_help_teaches(arguments: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*arguments) == 0
    output = capsys.readouterr().out
    for part in parts:
        assert part in output


def test_a_name_goes_before_a_number() -> None:
    learned = {0: "1", 1: "cat", 5: "5"}  # folders called 1, 5 and cat would be counted so
    assert [find_label(given, learned) for given in ("1", "cat", "0", "5")] == [0, 1, 0, 5]
    with pytest.raises(InputError, match="learned are 0 1, 1 cat, 5."):
        find_label("dog", learned)
