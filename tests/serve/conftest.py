"""One browser for all tests of the explorer, learners that are made once, and a service and a tab for each test."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium, with a camera that is none."""
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
