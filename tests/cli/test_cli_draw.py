"""Sheets from the command line: walks, reconstructions, images near a direction, ways between two pictures."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support import call
from torch import Tensor

from ictrl import ICTRL
from ictrl.data import load_dataset, split_tasks
from ictrl.recipes.reader import load_recipe
from ictrl.visualize.walks import interpolate, nearest, walk

NEWEST = Path("checkpoint") / "after-task-002.safetensors"


@pytest.fixture
def learner(short_run: Path) -> ICTRL:
    return ICTRL.load(short_run / NEWEST, device="cpu")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_run: Path) -> Path:
    """The folder one stands in, with two test images as files and one that is no picture."""
    recipe = load_recipe(short_run / "config.toml")
    images = load_dataset(recipe.stream, image_size=8, channels=1).test_images
    for name, image in zip(("a", "b"), images):
        Image.fromarray(image[0].numpy()).save(tmp_path / f"{name}.png")
    (tmp_path / "notes.png").write_text("buy milk")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pictures_of(sheet: str | Path, down: int, across: int) -> Tensor:
    """The pictures of a sheet of 8×8 ones, enlarged eight times, as (down, across, 8, 8)."""
    with Image.open(sheet) as opened:
        assert (opened.format, opened.mode) == ("PNG", "L")
        assert opened.size == (8 * (10 * across + 2), 8 * (10 * down + 2))
        pixels = torch.from_numpy(np.array(opened)[::8, ::8])
    inner = pixels[2:, 2:].unfold(0, 8, 10).unfold(1, 8, 10)
    return inner[:down, :across]


def test_a_walk_has_a_row_per_direction(
    short_run: Path, learner: ICTRL, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("walk", short_run, "--label", "3", "--steps", "5", "-o", "new/walk.png", "--device", "cpu") == 0
    expected = "Class 3 along its 6 widest directions, from -3σ to 3σ around the mean, from memory: new/walk.png\n"
    assert capsys.readouterr().out == expected
    shown = pictures_of("new/walk.png", down=6, across=5)
    for direction, row in enumerate(shown):
        assert torch.equal(row, walk(learner, 3, direction, steps=5)[:, 0])


@pytest.mark.parametrize("command", ["walk", "sample"])
def test_what_memory_draws_badly_is_warned_of(
    command: str, short_run: Path, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for share, words in ((0.79, "warning: Only 79% of what memory replays of all classes is recognised"), (0.8, "")):
        monkeypatch.setattr(ICTRL, "replay_recognised", lambda learner, share=share: share)
        assert call(command, short_run, "--label", "3", "-o", "drawn.png", "--device", "cpu") == 0
        assert (words in said) if (said := capsys.readouterr().err) else not words


def test_a_walk_along_one_direction_from_a_learner_file(
    short_run: Path, learner: ICTRL, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(short_run / NEWEST, "mine.safetensors")
    options = ["--label", "0", "--direction", "2", "--sigmas", "1.5", "-o", "walk.png", "--device", "cpu"]
    assert call("walk", "mine.safetensors", *options) == 0
    expected = "Class 0 along direction 2, from -1.5σ to 1.5σ around the mean, from memory: walk.png\n"
    assert capsys.readouterr().out == expected
    assert torch.equal(pictures_of("walk.png", 1, 9)[0], walk(learner, 0, 2, steps=9, sigmas=1.5)[:, 0])


def test_reconstructions_stand_below_the_pictures(
    short_run: Path, learner: ICTRL, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("reconstruct", short_run, "a.png", "b.png", "-o", "sheet.png", "--device", "cpu") == 0
    assert capsys.readouterr().out == "2 pictures, their reconstructions below: sheet.png\n"
    originals, below = pictures_of("sheet.png", down=2, across=2)
    files = [torch.from_numpy(np.array(Image.open(f"{name}.png"))) for name in ("a", "b")]
    assert torch.equal(originals, torch.stack(files))
    assert torch.equal(below, learner.reconstruct(originals[:, None])[:, 0])


def test_without_pictures_test_images_are_reconstructed(
    short_run: Path, learner: ICTRL, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("reconstruct", short_run, "-o", "sheet.png", "--n", "3", "--device", "cpu") == 0
    assert capsys.readouterr().out == "30 pictures, their reconstructions below: sheet.png\n"
    rows = pictures_of("sheet.png", down=20, across=3)
    recipe = load_recipe(short_run / "config.toml")
    tasks = split_tasks(load_dataset(recipe.stream, image_size=8, channels=1), recipe.stream)
    assert torch.equal(rows[0], tasks[0].test_images[tasks[0].test_labels == 0][:3, 0])
    assert torch.equal(rows[18], tasks[1].test_images[tasks[1].test_labels == 9][:3, 0])
    assert torch.equal(rows[19], learner.reconstruct(rows[18][:, None])[:, 0])


def test_what_cannot_be_read_is_named_after_the_sheet_is_written(
    short_run: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("reconstruct", short_run, "a.png", "notes.png", "gone.png", "-o", "sheet.png", "--device", "cpu") == 2
    captured = capsys.readouterr()
    assert captured.out == "1 picture, its reconstruction below: sheet.png\n"
    assert captured.err == (
        "error: Expected pictures but could not read 2 of 3: notes.png (it is in no known picture format), gone.png "
        "(there is no such file).\n"
    )
    pictures_of("sheet.png", down=2, across=1)


def test_the_nearest_training_images(
    short_run: Path, learner: ICTRL, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--label", "6", "--directions", "2", "--n", "4", "-o", "six.png", "--device", "cpu"]
    assert call("nearest", short_run, *options) == 0
    assert capsys.readouterr().out == (
        "4 of 12 training images of class 6 nearest to each of 2 directions, their reconstructions below: six.png\n"
    )
    rows = pictures_of("six.png", down=4, across=4)
    recipe = load_recipe(short_run / "config.toml")
    task = split_tasks(load_dataset(recipe.stream, image_size=8, channels=1), recipe.stream)[1]
    images = task.images[task.labels == 6]
    assert torch.equal(rows[2], images[nearest(learner, images, 6, 1, 4)][:, 0])
    assert torch.equal(rows[3], learner.reconstruct(rows[2][:, None])[:, 0])


def test_a_way_between_two_pictures(
    short_run: Path, learner: ICTRL, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("interpolate", short_run, "a.png", "b.png", "--steps", "4", "--out", "way.png", "--device", "cpu") == 0
    assert capsys.readouterr().out == "4 pictures from a.png to b.png: way.png\n"
    (row,) = pictures_of("way.png", down=1, across=6)
    assert torch.equal(row[1:-1], interpolate(learner, row[0][None], row[-1][None], steps=4)[:, 0])
    assert call("interpolate", short_run, "a.png", "a.png", "--steps", "2", "--out", "same.png", "--device", "cpu") == 0
    (row,) = pictures_of("same.png", down=1, across=4)
    assert torch.equal(row[1], row[2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["walk", "RUN", "--label", "12"], "Expected --label to be a class that was learned but got '12'; learned"),
        (["walk", "RUN", "--label", "1", "--direction", "11"], "Expected direction from 0 to 10 for label 1 but got 1"),
        (["walk", "RUN", "--label", "1", "--steps", "1"], "Expected steps to be at least 2 but got 1."),
        (["walk", "RUN", "--label", "1", "--sigmas", "-1"], "Expected sigmas to be above 0 but got -1.0."),
        (["walk", "none", "--label", "1"], "Expected a run folder but none is not there: `ictrl run` makes one."),
        (["reconstruct", "RUN", "notes.png"], "Expected pictures but could not read 1 of 1: notes.png (it is in no"),
        (["reconstruct", "RUN", "--n", "0"], "Expected n to be at least 1 but got 0."),
        (["nearest", "RUN", "--label", "12"], "Expected --label to be a class that was learned but got '12'"),
        (["nearest", "RUN", "--label", "1", "--directions", "4"], "Expected --directions from 1 to 3 but got 4."),
        (["nearest", "RUN", "--label", "1", "--n", "0"], "Expected n to be at least 1 but got 0."),
        (["interpolate", "RUN", "a.png", "b.png", "--steps", "1"], "Expected steps to be at least 2 but got 1."),
        (["interpolate", "RUN", "a.png", "gone.png"], "Expected pictures but could not read 1 of 2: gone.png (there"),
    ],
)
def test_a_users_mistake_exits_with_2_and_one_line(
    arguments: list[str], message: str, short_run: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [short_run if argument == "RUN" else argument for argument in arguments]
    before = sorted(here.iterdir())
    assert call(*given, "-o", "sheet.png", "--device", "cpu") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1
    assert call(*given, "-o", "sheet.jpg") == 2
    assert capsys.readouterr().err == "error: Expected --out to be a file that ends in .png but got sheet.jpg.\n"
    assert sorted(here.iterdir()) == before  # nothing was written


@pytest.mark.parametrize("command", ["reconstruct", "nearest"])
def test_data_from_a_learner_file_alone_is_refused(
    command: str, short_run: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(short_run / NEWEST, "mine.safetensors")
    label = ["--label", "1"] if command == "nearest" else []
    assert call(command, "mine.safetensors", *label, "-o", "sheet.png", "--device", "cpu") == 2
    assert capsys.readouterr().err.startswith("error: Expected a run folder but mine.safetensors has no config.toml")


def test_changed_data_is_refused(short_run: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(short_run, "changed")
    noted = here / "changed" / "data.json"
    noted.write_text(noted.read_text().replace('"sha256": "', '"sha256": "0'))
    assert call("nearest", "changed", "--label", "1", "-o", "sheet.png", "--device", "cpu") == 2
    assert capsys.readouterr().err.startswith("error: Expected the data that changed was begun with but it has changed")


@pytest.mark.parametrize("command", ["walk", "reconstruct", "nearest", "interpolate"])
def test_help_teaches(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    assert command in capsys.readouterr().out
    assert call(command, "--help") == 0
    output = capsys.readouterr().out
    for part in ("Examples:", f"ictrl {command} runs/mine", "-o PATH, --out PATH"):
        assert part in output
