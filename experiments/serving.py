"""A served learner to try things on: `ictrl serve` as a process, its memory, and what results say of the machine.

What `serve_load.py`, `serve_hostile.py` and `kill_serving.py` share.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import starlette
import torch
import uvicorn

from ictrl import create_learner, load_dataset, load_recipe, recipe_with
from ictrl.experiment.evaluation import device_name, versions

PATIENCE = 120  # seconds until a server must answer


@dataclass
class Server:
    """`ictrl serve` as a process."""

    process: "subprocess.Popen[bytes]"
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def megabytes(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()


def start(learner: Path, *options: str, threads: int = 1) -> Server:
    """A server of this learner, that answers already; on any port."""
    handle, name = tempfile.mkstemp(suffix=".log")
    log = Path(name)
    command = [sys.executable, "-m", "ictrl", "serve", str(learner), "--port", "0", "--device", "cpu", *options]
    with os.fdopen(handle, "wb") as file:
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        if found := re.search(r"Open http://[^:/]+:(\d+)/", log.read_text(encoding="utf-8")):
            return Server(process, int(found[1]), log)
        time.sleep(0.05)
    process.kill()
    process.wait()
    raise SystemExit(f"The server did not start: {log.read_text(encoding='utf-8')}")


@contextmanager
def served(learner: Path, *options: str, threads: int = 1) -> Iterator[Server]:
    """The same, stopped afterwards."""
    server = start(learner, *options, threads=threads)
    try:
        yield server
    finally:
        server.stop()
        server.log.unlink(missing_ok=True)


def learned(name: str, folder: Path, classes: int, epochs: int | None = None) -> tuple[Path, Any]:
    """A learner of the first digits by a recipe, as a file, and all the data."""
    recipe = recipe_with(load_recipe(name), {"run": {"device": "cpu"}})
    if epochs is not None:
        stages = [stage for stage in ("trunk", "first", "later") if hasattr(recipe.method, stage)]
        recipe = recipe_with(recipe, {"method": {stage: {"epochs": epochs} for stage in stages}})
    network = recipe.method.network
    data = load_dataset(recipe.stream, network.image_size, network.channels)
    known = data.labels < classes
    create_learner(recipe).learn(data.images[known], data.labels[known]).save(folder / "learner.safetensors")
    return folder / "learner.safetensors", data


def machine() -> dict[str, Any]:
    """What a result depends on."""
    cores = {"cores": os.cpu_count(), "machine": device_name(torch.device("cpu"))}
    return {**cores, **versions(), "starlette": starlette.__version__, "uvicorn": uvicorn.__version__}


def write(out: Path | None, found: dict[str, Any]) -> None:
    """Print a result and, if there is a place for it, write it there."""
    text = json.dumps(found, indent=2)
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")
