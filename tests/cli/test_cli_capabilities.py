"""Commands ask for what a method can do: one that cannot is named in a line, and nothing is written."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_support import Ran
from PIL import Image
from support import call

DRAWING = {
    "sample": ["--label", "3", "-o", "sheet.png"],
    "walk": ["--label", "3", "-o", "sheet.png"],
    "nearest": ["--label", "3", "-o", "sheet.png"],
    "reconstruct": ["-o", "sheet.png"],
    "interpolate": ["a.png", "a.png", "-o", "sheet.png"],
    "fidelity": ["--images", "20"],
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder one stands in, with a picture."""
    Image.new("L", (8, 8), 100).save(tmp_path / "a.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ictrl.cli.fidelity.EfficientNetLite0.installed", lambda: None)  # it is not needed to refuse
    return tmp_path


@pytest.mark.parametrize("recipe", ["finetune-digits", "joint-digits"])
@pytest.mark.parametrize("command", DRAWING)
def test_a_method_without_a_decoder_draws_nothing(
    command: str, recipe: str, ran: Callable[[str], Ran], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ran(recipe).folder
    capsys.readouterr()
    assert call(command, run, *DRAWING[command], "--device", "cpu") == 2
    captured = capsys.readouterr()
    name = recipe.removesuffix("-digits")
    assert captured.err.startswith("error: Expected a method that can draw")
    assert name in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert [path.name for path in here.iterdir()] == ["a.png"]


@pytest.mark.parametrize("recipe", ["frozen-digits", "finetune-digits", "joint-digits"])
def test_a_method_that_cannot_review_says_so(
    recipe: str, ran: Callable[[str], Ran], capsys: pytest.CaptureFixture[str]
) -> None:
    run = ran(recipe).folder
    before = sorted(run.rglob("*"))
    capsys.readouterr()
    assert call("review", run, "--cycles", "1") == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: Expected a method that can review")
    assert recipe.removesuffix("-digits") in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert sorted(run.rglob("*")) == before


def test_a_frozen_encoder_draws(ran: Callable[[str], Ran], capsys: pytest.CaptureFixture[str]) -> None:
    run = ran("frozen-digits").folder
    capsys.readouterr()
    for command in ("sample", "walk", "nearest", "reconstruct", "interpolate"):
        assert call(command, run, *DRAWING[command], "--device", "cpu") == 0
        assert capsys.readouterr().out.endswith(": sheet.png\n")
