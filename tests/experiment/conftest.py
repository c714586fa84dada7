"""Runs that several tests look at, made once."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from run_support import quick, stopped_run

from ictrl import run


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quick run from its beginning to its end; to look at, not to change."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    run(quick(), out)
    return out


@pytest.fixture(scope="session")
def _begun(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    made: dict[int, Path] = {}

    def begin(epochs: int) -> Path:
        if epochs not in made:
            recipe = quick(run={"checkpoint": {"every_epochs": 1}})
            made[epochs] = stopped_run(recipe, tmp_path_factory.mktemp("begun") / "run", epochs)
        return made[epochs]

    return begin


@pytest.fixture
def begun(_begun: Callable[[int], Path], tmp_path: Path) -> Callable[..., Path]:
    """A function that gives a run stopped in its third task (or after so many epochs), for this test alone.

    It has learners after two tasks, and two checkpoints of the third.
    """

    def begin(epochs: int = 10) -> Path:
        return Path(shutil.copytree(_begun(epochs), tmp_path / "run"))

    return begin
