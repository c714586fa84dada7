"""What tests of the service share: small learners as files, pictures as bytes, a client in the same process."""

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image
from support import pictures, tiny_recipe
from torch import Tensor

from ictrl import ICTRL, create_learner, load_recipe, recipe_with
from ictrl.serve.app import Service
from ictrl.serve.bounds import Limits
from ictrl.serve.host import LearnerHost

NAMES = {0: "cat", 1: "dog", 2: "a/b c"}
WIDE = recipe_with(
    load_recipe("digits"),
    {
        "method": {"network": {"image_size": 8, "width": 8, "feature_dim": 16}, "trunk": {"epochs": 2}},
        "run": {"device": "cpu"},
    },
)


def save_wide(path: Path) -> Path:
    """A learner that cannot draw, of three classes, calibrated."""
    learner = create_learner(WIDE).learn(*pictures([0, 1, 2], each=100))
    learner.save(path, {"class_names": json.dumps(NAMES)})
    return path


def save_drawing(path: Path) -> Path:
    """A learner that draws, of the same classes."""
    learner = ICTRL(tiny_recipe(first={"epochs": 30}, later={"epochs": 4})).learn(*pictures([0, 1, 2], each=60))
    learner.save(path, {"class_names": json.dumps(NAMES)})
    return path


def encoded(image: Tensor, kind: str = "PNG", **how: Any) -> bytes:
    """A picture file of an image of one channel."""
    buffer = io.BytesIO()
    Image.fromarray(image[0].numpy()).save(buffer, format=kind, **how)
    return buffer.getvalue()


def of(label: int, each: int = 20, seed: int = 0) -> list[bytes]:
    """Picture files of a class."""
    return [encoded(image) for image in pictures([label], each, seed)[0]]


def large(side: int = 1500) -> bytes:
    """A picture of several megabytes."""
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (side, side), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, format="PNG", compress_level=0)
    return buffer.getvalue()


def form(**classes: list[bytes]) -> list[tuple[str, tuple[str, bytes, str]]]:
    """The files of a form: pictures by the names of their fields."""
    return [
        (name, (f"{i}.png", content, "image/png")) for name, all_ in classes.items() for i, content in enumerate(all_)
    ]


def events(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Server-sent events."""
    found = []
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


class Client:
    """Asks an application that runs in a thread of its own, without a socket between."""

    def __init__(self, service: Service) -> None:
        self.service, self.core = service, service.core
        self._loop, self._begun, self._end = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))
        self._thread.start()
        assert self._begun.wait(30)

    async def _run(self) -> None:
        transport = httpx.ASGITransport(self.service)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=30)
        async with self.core.running(), self._client:
            self._begun.set()
            await self._end.wait()

    def await_(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def request(self, method: str, url: str, **how: Any) -> httpx.Response:
        answer: httpx.Response = self.await_(self._client.request(method, url, **how))
        return answer

    def get(self, url: str, **how: Any) -> httpx.Response:
        return self.request("GET", url, **how)

    def post(self, url: str, **how: Any) -> httpx.Response:
        return self.request("POST", url, **how)

    def delete(self, url: str, **how: Any) -> httpx.Response:
        return self.request("DELETE", url, **how)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(60)
        self._loop.close()


def client_of(path: Path, limits: Limits | None = None, **how: Any) -> Iterator[Client]:
    """A client of a service of this learner."""
    host = LearnerHost(path, "cpu", how.pop("versions", 5), how.pop("read_only", False))
    client = Client(Service(host, limits, **how))
    try:
        yield client
    finally:
        client.close()


def line_of(answer: Any) -> str:
    """The error of an answer, which is one line and nothing else."""
    assert answer.headers["content-type"] == "application/json", answer.text
    line = answer.json()["error"]
    assert line, answer.text
    assert "\n" not in line
    return str(line)
