"""`ictrl sample`: pictures of own classes, replayed from memory."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from cli_support import NEWEST
from PIL import Image
from support import call

from ictrl import ICTRL
from ictrl.experiment.run_data import run_data
from ictrl.experiment.run_folder import RunFolder


def test_sample_writes_a_sheet(own_run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (new / "sheet.png").write_text("an older sheet")
    assert call("sample", own_run, "--label", "green", "--n", "9", "-o", "sheet.png", "--device", "cpu") == 0
    assert capsys.readouterr().out == "9 pictures of class green replayed from memory: sheet.png\n"
    with Image.open("sheet.png") as sheet:
        assert (sheet.format, sheet.mode, sheet.size) == ("PNG", "RGB", (8 * 32, 8 * 32))  # 3 · (8 + 2) + 2, enlarged
        pixels = np.asarray(sheet)[::8, ::8]
    replayed = ICTRL.load(own_run / NEWEST, device="cpu").sample(1, 9)
    for i, picture in enumerate(replayed.permute(0, 2, 3, 1)):
        top, left = 2 + 10 * (i // 3), 2 + 10 * (i % 3)
        assert np.array_equal(pixels[top : top + 8, left : left + 8], picture)


def test_sample_along_a_direction(own_run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--label", "2", "--n", "1", "--direction", "1", "--out", "new folder/sheet.PNG", "--device", "cpu"]
    assert call("sample", own_run, *options) == 0
    expected = "1 picture of class red replayed from memory along direction 1: new folder/sheet.PNG\n"
    assert capsys.readouterr().out == expected
    with Image.open("new folder/sheet.PNG") as sheet:
        assert sheet.size == (8 * 12, 8 * 12)


def test_nearest_training_images_below(own_run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--label", "green", "--n", "4", "--nearest", "-o", "beside.png", "--device", "cpu"]
    assert call("sample", own_run, *options) == 0
    _, tasks = run_data(RunFolder(own_run))
    images = torch.cat([task.images for task in tasks])
    below = f"below each the nearest of {len(images)} training images in pixels: beside.png"
    assert capsys.readouterr().out == f"4 pictures of class green replayed from memory, {below}\n"
    with Image.open("beside.png") as sheet:
        pixels = torch.from_numpy(np.asarray(sheet)[::8, ::8].copy()).permute(2, 0, 1)
    replayed = ICTRL.load(own_run / NEWEST, device="cpu").sample(1, 4)
    for i, picture in enumerate(replayed):
        top, left = 2 + 20 * (i // 2), 2 + 10 * (i % 2)
        assert torch.equal(pixels[:, top : top + 8, left : left + 8], picture)
        shown = pixels[:, top + 10 : top + 18, left : left + 8]
        squares = (images.double() - picture.double()).square().sum((1, 2, 3))
        assert (shown.double() - picture.double()).square().sum() == squares.min()
        assert (images == shown).flatten(1).all(1).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
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
        (
            ["sample", "RUN", "--label", "0", "--nearest", "--root", "gone", "-o", "a.png"],
            "error: Expected a folder with pictures in train/CLASS and test/CLASS, or in CLASS alone but ",
        ),
    ],
)
def test_a_users_mistake_exits_with_2_and_one_line(
    arguments: list[str], message: str, refused: Callable[[list[str], str], None]
) -> None:
    refused(arguments, message)


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, parts in {
        ("--help",): ["sample", "Replay pictures of a class"],
        ("sample", "--help"): ["Examples:", "ictrl sample runs/mine --label 3 --out sheet.png", "-o PATH, --out PATH"],
    }.items():
        assert call(*arguments) == 0
        output = capsys.readouterr().out
        assert all(part in output for part in parts)
