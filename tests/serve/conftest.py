"""Small learners, made once, and clients of their services."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from serve_support import Client, client_of, save_drawing, save_wide

Serve = Callable[..., Client]


@pytest.fixture(scope="session")
def wide_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_wide(tmp_path_factory.mktemp("wide") / "wide.safetensors")


@pytest.fixture(scope="session")
def drawing_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_drawing(tmp_path_factory.mktemp("drawing") / "drawing.safetensors")


@pytest.fixture
def wide(wide_file: Path, tmp_path: Path) -> Path:
    """A file of one's own, to change."""
    return Path(shutil.copy(wide_file, tmp_path / "learner.safetensors"))


@pytest.fixture
def drawing(drawing_file: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(drawing_file, tmp_path / "drawing.safetensors"))


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A function that serves a learner, until the test ends, and gives a client."""
    with ExitStack() as stack:

        def make(path: Path, *arguments: Any, **how: Any) -> Client:
            return stack.enter_context(contextmanager(client_of)(path, *arguments, **how))

        yield make
