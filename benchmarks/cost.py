"""Short measurements that the cost model stands on, and longer runs that it has to predict.

    python benchmarks/cost.py --out docs/results/scale/cost.json      on a GPU, which does nothing else: two minutes
    python benchmarks/cost.py --device cpu --out docs/results/scale/cost-cpu.json    on a CPU: some minutes
    python benchmarks/cost.py --device cpu --small                    the same code in seconds; its numbers say nothing

Images are generated. Steps of the trunk and reading are timed for several sides and widths; then whole runs of other
sizes are carried out, with evaluation, records and checkpoints, and compared with what the model says of them. A CPU
has smaller networks and fewer images. The game is fitted to and compared with what `speed.py` wrote, on a GPU.
"""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from cost_model import (
    WideRun,
    cost,
    fitted,
    game_work,
    pass_of,
    reading_work,
    trunk_work,
    wide_gigabytes,
    wide_seconds,
)
from speed import PASS_FLOPS
from torch import Tensor

from ictrl import Recipe, create_learner, load_recipe, run
from ictrl.config import NetworkConfig
from ictrl.data.streams import tasks_from_arrays
from ictrl.experiment.evaluation import device_name, versions
from ictrl.files import make_folder, write_atomically
from ictrl.methods.wide import Wide
from ictrl.methods.wide_reading import ReadingConfig
from ictrl.recipes.tables import recipe_with
from ictrl.training.loop import EpochReport

DOCS = Path(__file__).parent.parent / "docs"
BASE = "best-cifar10-5"


@dataclass(frozen=True)
class Whole:
    """A whole run: images and classes are those of a task."""

    side: int
    width: int
    pool: int
    shifts: int
    tasks: int
    images: int
    test_images: int
    classes: int
    epochs: int
    batch: int


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    trunks: tuple[tuple[int, int, int], ...]
    """side, width, batch"""
    readings: tuple[tuple[int, int, int, int], ...]
    """side, width, pool, shifts"""
    read: tuple[int, int]
    """images, for each of these"""
    runs: dict[str, Whole]


ON_A_GPU = Plan(
    trunks=(
        (32, 64, 100), (32, 64, 500), (32, 128, 500), (64, 64, 100), (64, 64, 500), (128, 64, 100), (128, 64, 500),
    ),
    readings=((32, 64, 3, 2), (32, 64, 4, 0), (64, 64, 2, 2), (64, 64, 3, 0), (128, 64, 2, 0)),
    read=(1000, 5000),
    runs={
        "CIFAR-10's shape, five tasks, 40 epochs": Whole(32, 64, 3, 2, 5, 10_000, 2_000, 2, 40, 500),
        "CIFAR-100's shape, twenty tasks, 60 epochs": Whole(32, 64, 2, 0, 20, 2_500, 500, 5, 60, 500),
        "ImageNet-50's shape, five tasks, 60 epochs": Whole(64, 64, 2, 0, 5, 5_000, 1_000, 10, 60, 500),
        "128 px, ten tasks, 20 epochs": Whole(128, 64, 2, 0, 10, 2_000, 400, 5, 20, 500),
    },
)  # fmt: skip
ON_A_CPU = Plan(
    trunks=((32, 16, 40), (32, 16, 160), (32, 32, 40), (32, 32, 120), (64, 16, 40), (64, 16, 80), (64, 24, 60)),
    readings=((32, 16, 3, 1), (32, 32, 3, 0), (64, 16, 2, 1), (64, 24, 3, 0)),
    read=(200, 600),
    runs={
        "32 px, width 16, five tasks, 12 epochs": Whole(32, 16, 3, 1, 5, 800, 200, 2, 12, 100),
        "32 px, width 24, ten tasks, 8 epochs": Whole(32, 24, 2, 0, 10, 600, 100, 2, 8, 60),
        "64 px, width 16, three tasks, 8 epochs": Whole(64, 16, 2, 0, 3, 500, 100, 4, 8, 50),
    },
)
SMALL = Plan(
    trunks=((32, 4, 10), (32, 8, 30), (64, 4, 10)),
    readings=((32, 4, 1, 1), (64, 4, 1, 0)),
    read=(60, 120),
    runs={"32 px, two tasks, 2 epochs": Whole(32, 4, 1, 0, 2, 60, 20, 2, 2, 20)},
)
STEPS, EPOCHS, SETTLED = 8, 5, 2


def recipe_of(network: NetworkConfig, reading: ReadingConfig, epochs: int, batch: int, device: str) -> Recipe:
    trunk = {"epochs": epochs, "batch": batch, "warmup": 1, "ema": 0.0}
    recipe = recipe_with(load_recipe(BASE), {"method": {"trunk": trunk}, "run": {"device": device}})
    return replace(recipe, method=replace(recipe.method, network=network, reading=reading))  # type: ignore[type-var]


def noise(n: int, side: int, classes: int, first: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n + first)
    images = torch.randint(0, 256, (n, 3, side, side), dtype=torch.uint8, generator=generator)
    return images, torch.arange(n) % classes + first


def peak(device: str) -> float:
    return torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else 0.0


def settle(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()


def trunk_row(side: int, width: int, batch: int, device: str) -> dict[str, Any]:
    """Seconds of a step."""
    network = NetworkConfig(image_size=side, width=width)
    recipe = recipe_of(network, ReadingConfig(pool=1), EPOCHS, batch, device)
    images, labels = noise(STEPS * batch, side, 4)
    ends: list[float] = []

    def ended(report: EpochReport) -> None:
        ends.append(time.perf_counter())

    settle(device)
    create_learner(recipe).learn(images, labels, ended)
    seconds = statistics.median(b - a for a, b in zip(ends[SETTLED - 1 :], ends[SETTLED:])) / STEPS
    return {"side": side, "width": width, "batch": batch, "seconds": seconds, "gigabytes": peak(device)}


def reading_row(side: int, width: int, pool: int, shifts: int, n: int, device: str) -> dict[str, Any]:
    """Seconds of forming the memory of n images, by an encoder that was not trained."""
    reading = ReadingConfig(pool=pool, shifts=shifts, mirror=True)
    recipe = recipe_of(NetworkConfig(image_size=side, width=width), reading, 1, 100, device)
    learner = create_learner(recipe)
    assert isinstance(learner, Wide)
    images, labels = noise(n, side, 4)
    seconds = []
    for _ in range(3):
        again = learner.remembering()
        settle(device)
        begun = time.perf_counter()
        again.learn(images.to(device), labels)
        settle(device)
        seconds.append(time.perf_counter() - begun)
    D, views = again.wide_memory.means.shape[1], 2 * (5 if shifts else 1)
    return {"side": side, "width": width, "images": n, "views": views, "D": D, "seconds": min(seconds)}


def measured_run(name: str, asked: Whole, device: str) -> dict[str, Any]:
    """A whole run, and what the model is to know of it."""
    network = NetworkConfig(image_size=asked.side, width=asked.width)
    reading = ReadingConfig(pool=asked.pool, shifts=asked.shifts, mirror=True)
    k, given = asked.classes, list[Any]()
    for t in range(asked.tasks):
        given.append((*noise(asked.images, asked.side, k, t * k), *noise(asked.test_images, asked.side, k, t * k)))
    settle(device)
    with tempfile.TemporaryDirectory() as folder:
        recipe = recipe_of(network, reading, asked.epochs, asked.batch, device)
        begun = time.perf_counter()
        finished = run(recipe, Path(folder) / "run", stream=tasks_from_arrays(given))
        seconds = time.perf_counter() - begun
    learner = finished.learner
    assert isinstance(learner, Wide)
    D, views = learner.wide_memory.means.shape[1], 2 * (5 if asked.shifts else 1)
    sizes = asked.tasks, asked.images, asked.test_images, asked.classes, asked.epochs, asked.batch
    found = {
        "run": asdict(WideRun(network, *sizes, D, views)),
        "seconds": round(seconds, 3),
        "phases": finished.results.seconds,
    }
    return {"name": name, **found, "gigabytes": peak(device), "kept_bytes": finished.results.kept_bytes}


def constants(trunks: list[dict[str, Any]], readings: list[dict[str, Any]]) -> dict[str, Any]:
    """Seconds per unit of work, and bytes of the GPU per activation."""
    trunk = fitted(
        [trunk_work(_network(row), row["batch"] * 3) for row in trunks], [float(row["seconds"]) for row in trunks]
    )
    reading = fitted(
        [reading_work(_network(row), row["images"], row["views"], row["D"]) for row in readings],
        [float(row["seconds"]) for row in readings],
    )
    each = [
        (1e9 * row["gigabytes"] - 16 * pass_of(_network(row)).parameters)
        / (3 * row["batch"] * pass_of(_network(row)).activations)
        for row in trunks
    ]
    return {"trunk": trunk, "reading": reading, "bytes_per_activation": max(0.0, statistics.median(each))}


def _network(row: dict[str, Any]) -> NetworkConfig:
    return NetworkConfig(image_size=row["side"], width=row["width"])


def checked(row: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """What the model says of a run, beside what was measured."""
    asked = row["run"] | {"network": NetworkConfig(**row["run"]["network"])}
    parts = wide_seconds(WideRun(**asked), known["trunk"], known["reading"])
    gigabytes = wide_gigabytes(WideRun(**asked), known["bytes_per_activation"])
    phases = row["phases"]
    measured = {"learn": phases["learn"], "measure": phases["evaluate"] + phases["floors"]}
    return {
        "name": row["name"],
        "measured": {**measured, "whole": row["seconds"], "gigabytes": row["gigabytes"]},
        "predicted": {
            "learn": parts["first task"] + parts["reading"],
            "measure": parts["measuring"],
            "whole": sum(parts.values()),
            "gigabytes": gigabytes,
        },
    }


def game(speed: dict[str, Any]) -> dict[str, Any]:
    """Fitted to steps in five tasks and to longer features; compared with runs in five and ten tasks."""

    def work(row: dict[str, Any]) -> list[float]:
        new, old, d = row["new_images_a_step"], row["old_rows"], row["d"]
        return game_work(new, old, row["old_classes"] + row["new_classes"], d, PASS_FLOPS + 2 * 4096 * d)

    rows = [row for name in ("five tasks", "d", "classes", "old samples") for row in speed[name]]
    known = fitted([work(row) for row in rows], [float(row["step_seconds"]) for row in rows])
    found = []
    for name, whole in zip(("five tasks", "ten tasks"), speed["whole runs"]):
        epochs = [whole["first_epochs"], *[120] * (whole["tasks"] - 1)]
        predicted = sum(count * row["steps"] * cost(work(row), known) for count, row in zip(epochs, speed[name]))
        found.append({"name": f"the game in {name}", "measured": whole["learn"], "predicted": predicted})
    steps = [cost(work(row), known) / row["step_seconds"] for row in speed["ten tasks"]]
    return {"constants": known, "checks": found, "steps of ten tasks": [min(steps), max(steps)]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--small", action="store_true", help="small networks and few images, to try the code")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    device = options.device
    plan = SMALL if options.small else ON_A_GPU if device == "cuda" else ON_A_CPU
    trunks = [trunk_row(*row, device) for row in plan.trunks]
    readings = [reading_row(*row, n, device) for row in plan.readings for n in plan.read]
    known = constants(trunks, readings)
    runs = [measured_run(name, asked, device) for name, asked in plan.runs.items()]
    found = {
        "device": device_name(torch.device(device)),
        "versions": versions(),
        "trunks": trunks,
        "readings": readings,
        "runs": runs,
        "constants": known,
        "checks": [checked(row, known) for row in runs],
        "game": game(json.loads((DOCS / "speed.json").read_text())),
    }
    for check in [*found["checks"], *found["game"]["checks"]]:
        print(check)
    if options.out is not None:
        make_folder(options.out.parent)
        write_atomically(options.out, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
