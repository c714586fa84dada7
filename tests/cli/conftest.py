"""Runs and pictures that many tests look at, made once; to look at, not to change."""

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_support import COLOURS, EPOCHS, RECIPE, SMALL, Ran, draw
from support import call


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ran]:
    """A function that gives a small run of a recipe: ten digits of 8×8 in two tasks, hardly learned."""
    made: dict[str, Ran] = {}

    def make(recipe: str) -> Ran:
        if recipe not in made:
            folder, printed = tmp_path_factory.mktemp(recipe) / "run", io.StringIO()
            with contextlib.redirect_stdout(printed):
                code = call("run", recipe, *EPOCHS[recipe], *SMALL, "--out", folder)
            made[recipe] = Ran(folder, code, printed.getvalue())
        return made[recipe]

    return make


@pytest.fixture(scope="session")
def own_pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of PNG and JPEG files, no two of one size, and two files that are no pictures."""
    root = tmp_path_factory.mktemp("own") / "pictures"
    for number, (name, colour) in enumerate(COLOURS.items()):
        (root / name).mkdir(parents=True)
        for i in range(12):
            draw(root / name / f"{i}{'.png' if i % 2 else '.jpg'}", colour, (9 + i, 30 - i), seed=100 * number + i)
    (root / "blue" / "broken.jpg").write_bytes((root / "blue" / "0.jpg").read_bytes()[:200])
    (root / "red" / "notes.png").write_text("buy milk")
    return root


@pytest.fixture(scope="session")
def own_run(own_pictures: Path) -> Path:
    """A run that learned them in two tasks, blue and green first."""
    recipe, out = own_pictures.parent / "own.toml", own_pictures.parent / "run"
    recipe.write_text(RECIPE)
    assert call("run", recipe, "--stream.root", own_pictures, "--out", out) == 0
    return out


@pytest.fixture
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder one stands in, with a picture of each class that the learner has not seen."""
    for number, (name, colour) in enumerate(COLOURS.items()):
        draw(tmp_path / f"{name}.png", colour, (20, 14), seed=1000 + number)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(own_run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[list[str], str], None]:
    """A function that checks that arguments, RUN among them, are refused in a line and nothing is written."""

    def check(arguments: list[str], message: str) -> None:
        before = sorted(new.iterdir())
        assert call(*(own_run if argument == "RUN" else argument for argument in arguments)) == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert captured.out == ""
        assert sorted(new.iterdir()) == before
        if captured.err.startswith("error:"):
            assert captured.err.count("\n") == 1

    return check
