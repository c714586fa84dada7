"""The explorer under test: small learners, the service in a thread, and a page that is watched."""

import io
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import uvicorn
from method_support import recipe_of
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Request, expect
from support import pictures

from ictrl import create_learner
from ictrl.serve.app import Service
from ictrl.serve.bounds import Limits
from ictrl.serve.host import LearnerHost
from ictrl.serve.protocol import patient
from ictrl.serve.running import bound

CHROMIUM = os.environ.get("ICTRL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
NO_CHROMIUM = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium: apt-get install chromium, or name one in the environment variable ICTRL_CHROMIUM",
)
NAMES = ["<b>dog</b> & co/2", "cat", "نمر 🐅"]
"""In the order of their labels: text whatever is in it, percent-encoded in paths, written from right to left."""
PATIENCE = 10_000  # milliseconds until something that should happen has failed to
expect.set_options(timeout=PATIENCE)
Watched = Callable[..., "Explorer"]


def save_learner(path: Path, method: str = "wide-ictrl", names: list[str] = NAMES, **settings: Any) -> Path:
    """A learner of striped pictures, each class with its own stripes; it learned by name, in one task."""
    learner = create_learner(recipe_of(method, **settings))
    images, labels = pictures(list(range(len(names))), each=80)
    learner.learn(images, [names[label] for label in labels.tolist()])
    learner.save(path)
    return path


def png(label: int, seed: int = 1, side: int = 8) -> bytes:
    """A picture file of stripes; labels from 3 on were never learned."""
    image = pictures([label], each=1, seed=seed)[0][0, 0].numpy()
    content = io.BytesIO()
    Image.fromarray(image).resize((side, side), Image.Resampling.NEAREST).save(content, "PNG")
    return content.getvalue()


def upload(name: str, content: bytes, kind: str = "image/png") -> dict[str, Any]:
    """A file as playwright gives it to a page."""
    return {"name": name, "mimeType": kind, "buffer": content}


def noise(side: int, kind: str = "JPEG") -> bytes:
    """A picture that no compression makes small."""
    content = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)).save(content, kind)
    return content.getvalue()


def folder(path: Path, label: int, n: int = 14) -> Path:
    """A folder of pictures of one class, which is named after it."""
    path.mkdir(parents=True)
    for i, image in enumerate(pictures([label], each=n, seed=5)[0]):
        Image.fromarray(image[0].numpy()).save(path / f"{i:02}.png")
    return path


class Running:
    """The service in a thread, at a port of its own; it can be stopped, and started again at the same one."""

    def __init__(self, learner: Path, token: str | None = None, limits: Limits | None = None) -> None:
        self.learner, self.token, self.limits = learner, token, limits or Limits()
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        self._socket = bound("127.0.0.1", self.port)
        self.port = self._socket.getsockname()[1]
        self.host = LearnerHost(self.learner, "cpu")
        self.service = Service(self.host, self.limits, self.token)
        config = uvicorn.Config(
            self.service, http=patient(10, 1024), ws="none", lifespan="on", log_config=None, access_log=False,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        self._socket.close()
        assert not self._thread.is_alive()


class Explorer:
    """A page that shows a learner; all that it says and asks for is noted."""

    def __init__(self, context: BrowserContext, running: Running) -> None:
        self.running, self.page = running, context.new_page()
        self.errors: list[str] = []
        """of the console and of scripts"""
        self.requests: list[Request] = []
        self.page.on("console", lambda said: said.type in ("error", "warning") and self.errors.append(said.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request))

    def open(self, view: str = "", anchor: str | None = None) -> "Explorer":
        """Look at a view, such as "classes"."""
        self.page.goto(f"{self.running.url}#{anchor if anchor is not None else '/' + view}")
        return self

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def asked(self, path: str, method: str = "GET") -> list[Request]:
        """The requests to a path of the service, in their order."""
        return [one for one in self.requests if urlsplit(one.url).path == path and one.method == method]

    def show(self, *files: dict[str, Any]) -> None:
        """Choose pictures in the view Try."""
        self.page.locator("input[type=file]").first.set_input_files(list(files))

    def choose_folder(self, path: Path) -> None:
        """Choose a folder in the view Teach."""
        self.page.locator("input[webkitdirectory]").set_input_files(path)

    def learn(self) -> Locator:
        """Press Learn; returns the place of what comes of it."""
        self.button("Learn").click()
        return self.page.locator(".outcome")

    def look(self) -> None:
        """Come back to the tab, which asks the service how it is."""
        self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    def sideways(self) -> int:
        """By how many pixels the page can be moved sideways."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def check(self, allowed: tuple[str, ...] = ()) -> None:
        """Nothing went wrong but what was asked for, and nobody else was asked for anything."""
        wrong = [error for error in self.errors if not any(words in error for words in allowed)]
        assert wrong == [], wrong
        strangers = {urlsplit(one.url).netloc for one in self.requests if urlsplit(one.url).scheme in ("http", "https")}
        assert strangers <= {f"127.0.0.1:{self.running.port}"}


@contextmanager
def watched(browser: Browser, running: Running, allowed: tuple[str, ...] = (), **context: Any) -> Iterator[Explorer]:
    """A fresh tab at a service, without a cookie or a memory."""
    settings = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **context}
    tab = browser.new_context(**settings)
    tab.set_default_timeout(PATIENCE)
    explorer = Explorer(tab, running)
    try:
        yield explorer
        explorer.check(allowed)
    finally:
        tab.close()


def wait_for(page: Page, happened: Callable[[], bool]) -> None:
    """Let the browser go on until something has happened on this side of it."""
    end = time.monotonic() + PATIENCE / 1000
    while not happened():
        assert time.monotonic() < end
        page.evaluate("new Promise(requestAnimationFrame)")
