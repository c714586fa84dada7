"""What it costs that images stay in a file: speed beside images on the GPU, and memory by the number of pictures.

    python benchmarks/streaming.py speed --out docs/results/scale/streaming.json    on a GPU: half a minute
    python benchmarks/streaming.py memory --out docs/results/scale/memory.json      on a CPU: some minutes

Speed: the first task of two recipes on generated images of 64 px. The same epochs are learned from images on the GPU
and from a file that is mapped into memory, in turns; an epoch's time is the median of those after the step was
recorded. In the first epoch from the file no page of it lies in memory (`cold`).

Memory: whole runs by the command line on folders of generated pictures, which are decoded into a file first. What is in
use is what the process has allocated (`RssAnon` of its status) at the most; pages of the file that the system keeps as
long as nobody else wants the room (`RssFile`) are counted apart.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ictrl import create_learner, load_recipe
from ictrl.data.image_file import HEADER, FileImages, header, open_arrays, sums_of
from ictrl.experiment.evaluation import device_name, versions
from ictrl.files import make_folder, write_atomically
from ictrl.recipes.tables import recipe_with
from ictrl.training import loader
from ictrl.training.loop import EpochReport

SIDE = 64
SPEED = {  # recipe and settings: a first task as it is, but for its epochs
    "best-imagenet50": {"trunk": {"warmup": 1, "ema": 0.0}},
    "paper-imagenet50": {"first": {"ema": 0.0}},
}
STAGE = {"best-imagenet50": "trunk", "paper-imagenet50": "first"}
UNSETTLED = 2  # epochs in which steps are recorded
CLASSES, TESTED = 20, 0.1
SMALL = {  # settings of the runs whose memory is measured: one pass by a small encoder
    "method.network.image_size": SIDE,
    "method.network.width": 16,
    "method.trunk.epochs": 1,
    "method.trunk.warmup": 0,
    "method.trunk.batch": 250,
    "method.reading.pool": 2,
    "stream.tasks": 5,
    "stream.cache": "always",
}


# speed


def write_images(path: Path, n: int) -> None:
    """A file of noise, as decoded pictures are kept."""
    random = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(header({"images": ("uint8", (n, 3, SIDE, SIDE))}))
        for start in range(0, n, 1000):
            file.write(random.bytes(min(1000, n - start) * 3 * SIDE**2))
        file.flush()
        os.fsync(file.fileno())
    assert path.stat().st_size == HEADER + n * 3 * SIDE**2


@contextmanager
def cold(path: Path) -> Iterator[None]:
    """No page of the file lies in memory."""
    with path.open("rb") as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        yield


def epoch_seconds(name: str, images: Tensor, labels: Tensor, epochs: int, device: str, streamed: bool) -> list[float]:
    """Of each epoch of a first task."""
    recipe = recipe_with(load_recipe(name), {"method": {**SPEED[name]}, "run": {"device": device}})
    recipe = recipe_with(recipe, {"method": {STAGE[name]: {"epochs": epochs}}})
    learner, ends = create_learner(recipe), []

    def ended(report: EpochReport) -> None:  # its numbers have been read: the device is done
        ends.append(time.perf_counter())

    with patch.object(loader, "fits", lambda *_, **__: not streamed):
        begun = time.perf_counter()
        learner.learn(images, labels, ended)
    return [end - start for start, end in zip([begun, *ends], ends)]


def speed(n: int, epochs: int, device: str, recipes: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images"
        write_images(path, n)
        pixels = open_arrays(path)["images"]
        in_file = FileImages(pixels, None, path, sums_of(pixels))  # each picture that is read is checked
        labels = torch.arange(n) % 10
        held = in_file.read().to(device)
        for name in recipes:
            times: dict[str, list[list[float]]] = {"held": [], "streamed": []}
            for turn in range(2):
                with cold(path) if not turn else open(os.devnull):
                    times["streamed"].append(epoch_seconds(name, in_file, labels, epochs, device, streamed=True))
                times["held"].append(epoch_seconds(name, held, labels, epochs, device, streamed=False))
            settled = {
                how: statistics.median(t for run in runs for t in run[UNSETTLED:]) for how, runs in times.items()
            }
            found[name] = {
                "images": n,
                "cold_first_epoch_seconds": times["streamed"][0][0],
                "warm_first_epoch_seconds": times["streamed"][1][0],
                **{f"{how}_images_per_second": round(n / seconds) for how, seconds in settled.items()},
                "ratio": round(settled["held"] / settled["streamed"], 4),
            }
            print(f"{name} {found[name]}", flush=True)
    return found


# memory


def draw_pictures(folder: Path, n: int) -> None:
    """n pictures in class folders, a tenth of them for testing: a colour and a grating of each class, and noise."""
    random = np.random.default_rng(0)
    rows, columns = np.mgrid[:SIDE, :SIDE] / SIDE
    for label in range(CLASSES):
        colour, angle = random.uniform(60, 200, 3), np.pi * label / CLASSES
        grating = 40 * np.sin(40 * (rows * np.cos(angle) + columns * np.sin(angle)))
        for part, count in (("train", n - int(TESTED * n)), ("test", int(TESTED * n))):
            place = folder / part / f"class {label:02d}"
            place.mkdir(parents=True)
            for number in range(count // CLASSES):
                noise = random.normal(0, 20, (SIDE, SIDE, 1))
                pixels = (colour + grating[..., None] + noise).clip(0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(place / f"{number}.jpg", quality=80)


def watched(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """A command's seconds, and the most memory that its process had in use."""
    begun, peaks = time.perf_counter(), {"RssAnon": 0, "RssFile": 0}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                break
            for line in status.splitlines():
                name, _, value = line.partition(":")
                if name in peaks:
                    peaks[name] = max(peaks[name], int(value.split()[0]))
            time.sleep(0.02)
        code = process.wait()
    assert code == 0, f"{' '.join(command)} ended with {code}"
    return {
        "seconds": round(time.perf_counter() - begun, 1),
        "in_use_gigabytes": round(peaks["RssAnon"] / 1e6, 3),
        "pages_of_files_gigabytes": round(peaks["RssFile"] / 1e6, 3),
    }


def memory(counts: list[int], cached: str, recipe: str, settings: dict[str, object]) -> list[dict[str, Any]]:
    """A row for each number of pictures."""
    rows = []
    for n in counts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            draw_pictures(folder / "pictures", n)
            given = {**settings, "stream.cache": cached, "stream.root": folder / "pictures"}
            options = [
                text for key, value in given.items() for text in (f"--{key.removeprefix('method.')}", str(value))
            ]
            command = [sys.executable, "-m", "ictrl", "run", recipe, "--out", str(folder / "run"), *options]
            environment = {**os.environ, "ICTRL_DATA": str(folder / "cache")}
            rows.append({"pictures": n, "cache": cached, **watched(command, environment)})
            rows[-1]["last"] = json.loads((folder / "run" / "results.json").read_text())["memory"]["last"]
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "memory"])
    parser.add_argument("--device", default="cuda", help="of speed")
    parser.add_argument("--images", type=int, default=50_000, help="of speed")
    parser.add_argument("--epochs", type=int, default=6, help="of speed, each time")
    parser.add_argument("--recipes", nargs="+", default=list(SPEED), choices=list(SPEED), help="of speed")
    parser.add_argument("--pictures", type=int, nargs="+", default=[10_000, 30_000, 100_000], help="of memory")
    parser.add_argument("--cache", nargs="+", default=["always"], help="of memory: settings of stream.cache")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    device = torch.device(options.device if options.what == "speed" else "cpu")
    found: dict[str, Any] = {"device": device_name(device), "cores": os.cpu_count(), "versions": versions()}
    if options.what == "speed":
        if options.epochs <= UNSETTLED:
            parser.error(f"expected --epochs above {UNSETTLED}")
        found["speed"] = speed(options.images, options.epochs, options.device, options.recipes)
    else:
        found["settings"] = {"recipe": "pictures", **SMALL}
        found["memory"] = [
            row for cached in options.cache for row in memory(options.pictures, cached, "pictures", SMALL)
        ]
    if options.out is not None:
        make_folder(options.out.parent)
        write_atomically(options.out, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
