"""Small learners, made once, clients of their services, and a browser that shows the explorer."""

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, with a camera that is none; closed with the module, for its loop is in the way of other tests' own."""
    from explorer_support import CHROMIUM
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def learners(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One that draws; one that cannot; one that tells no probabilities either; one that can only predict."""
    from explorer_support import save_learner

    from ictrl import load_learner

    folder = tmp_path_factory.mktemp("learners")
    found = {
        "draws": save_learner(folder / "draws.safetensors"),
        "blind": save_learner(folder / "blind.safetensors", "wide"),
        "silent": save_learner(folder / "silent.safetensors", "finetune"),
    }
    found["predicts"] = folder / "predicts.safetensors"
    load_learner(found["draws"]).save(found["predicts"], inference_only=True)
    return found


@pytest.fixture
def explore(browser: Any, learners: dict[str, Path], tmp_path: Path) -> Iterator[Any]:
    """Serve a learner and open a tab: `explore("draws", token=…, limits=…, allowed=(words of expected errors,))`."""
    from explorer_support import Running, watched

    with ExitStack() as stack:

        def start(which: str = "draws", allowed: tuple[str, ...] = (), **settings: Any) -> Any:
            learner = tmp_path / f"{which}.safetensors"
            shutil.copy(learners[which], learner)
            own = {key: settings.pop(key) for key in ("token", "limits") if key in settings}
            running = Running(learner, **own)
            stack.callback(running.stop)
            return stack.enter_context(watched(browser, running, allowed, **settings))

        yield start
