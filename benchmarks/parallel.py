"""What several processes gain, and what their sums over processes cost.

    python benchmarks/parallel.py --out docs/results/parallel/cpu.json                  on a CPU: some minutes
    python benchmarks/parallel.py --device cuda --out docs/results/parallel/h200.json   on one GPU: under a minute
    python benchmarks/parallel.py --device cuda --processes 8 --out …                   on several GPUs

The table goes into a file of the same name that ends in .txt.

Generated pictures of 32×32 are learned by the recipes best-cifar10-5 (`wide`: the trunk, in the first task) and
ictrl-cifar10-5 (the game, in the first task and in a later one).

On a CPU, one process with one thread, two processes with one thread each, and one process with two threads take turns,
each begun anew in every round. On one GPU, a process that is in no group takes turns with the same process as a group
of one: every sum and every gradient then goes through NCCL, within the recorded step, and nothing else differs. With
`--processes`, as many GPUs take turns with one.

Seconds are those of an epoch by its steps, the best epoch of each round after the first two; the table has the least of
all rounds, since whatever else a machine has to do only makes them more, and the file has all. Losses are compared over
the first ten steps, in float32.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ictrl import EpochReport, Recipe, create_learner, load_recipe
from ictrl.experiment.evaluation import device_name, versions
from ictrl.files import make_folder, write_atomically
from ictrl.parallel.joining import joined
from ictrl.parallel.sharing import Group, alone, sharing
from ictrl.recipes.tables import recipe_with

WORK = ("wide, first task", "ictrl, first task", "ictrl, later task")
COMPARED = 10  # steps


@dataclass(frozen=True)
class Scale:
    """How much is learned."""

    images: int
    """of a task"""
    batch: int
    width: int | None
    """channels next to the image; None: as the recipe has it"""
    epochs: int
    rounds: int
    precision: str = "auto"


SCALES = {"cpu": Scale(240, 120, 32, 6, 5), "cuda": Scale(10_000, 1000, None, 12, 5)}


def recipe_of(work: str, scale: Scale, device: str) -> Recipe:
    method, task = work.split(", ")
    stage = {"batch": scale.batch, "ema": 0.0, "warmup": 0, "learning_rate": 1e-4}
    first = {**stage, "epochs": 1 if task == "later task" else scale.epochs}
    precision = {"precision": scale.precision}
    changes: dict[str, Any] = {"trunk": first, **precision} if method == "wide" else {"first": first}
    if method == "ictrl":
        changes |= {"later": {**stage, "epochs": scale.epochs}, "game": precision}
        changes["memory"] = {"directions": 4, "neighbours": 10, "samples": 10}
    if scale.width is not None:
        changes["network"] = {"kind": "dcgan", "width": scale.width}
    recipe = load_recipe("best-cifar10-5" if method == "wide" else "ictrl-cifar10-5")
    return recipe_with(recipe, {"method": changes, "run": {"device": device}})


def pictures(labels: tuple[int, int], n: int, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Soft patches of colour, other ones for each class, and noise."""
    generator, network = torch.Generator().manual_seed(labels[0]), recipe.method.network
    side, y = network.image_size, torch.tensor(labels)[torch.arange(n) % 2]
    patches = torch.randn(2, network.channels, 4, 4, generator=generator)
    means = functional.interpolate(patches, size=(side, side), mode="bilinear")
    noise = torch.randn(n, network.channels, side // 4, side // 4, generator=generator)
    X = means[torch.arange(n) % 2] + 0.7 * functional.interpolate(noise, size=(side, side), mode="bilinear")
    return (127 + 50 * X).clamp(0, 255).to(torch.uint8), y


def learned(work: str, scale: Scale, device: str) -> dict[str, Any]:
    """Seconds of a step, and the terms of the first epochs, as this process finds them."""
    recipe = recipe_of(work, scale, device)
    learner, times, terms = create_learner(recipe), list[float](), list[dict[str, float]]()

    def note(report: EpochReport) -> None:
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter())
        terms.append(report.terms)

    tasks = [(0, 1), (2, 3)][: 2 if work.endswith("later task") else 1]
    for labels in tasks:
        times.clear()
        terms.clear()
        learner.learn(*pictures(labels, scale.images, recipe), note)
    steps = scale.images // scale.batch
    seconds = [(after - before) / steps for before, after in pairwise(times)][1:]
    return {"seconds": min(seconds), "terms": terms[: max(1, COMPARED // steps)]}


def worker(work: str, scale: Scale, device: str) -> None:
    """One of the processes, told by the environment which."""
    with joined(device, minutes=5) as group, sharing():
        found = learned(work, scale, device)
        if group is None or group.rank == 0:
            print(json.dumps(found))


def in_processes(work: str, scale: Scale, device: str, processes: int, threads: int) -> dict[str, Any]:
    """What so many processes with so many threads each find, begun anew."""
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    command = [sys.executable, __file__, "--worker", work, "--device", device, "--scale", json.dumps(asdict(scale))]
    begun = []
    for rank in range(processes):
        told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "MASTER_ADDR": "localhost"}
        told |= {"MASTER_PORT": port, "OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "passive"}
        environment = {**os.environ, **{name: str(value) for name, value in told.items()}}
        begun.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    said = [process.communicate()[0] for process in begun]
    if any(process.returncode for process in begun):
        raise SystemExit(f"{processes} processes failed at {work}")
    return json.loads(said[0])


def turns(
    ways: dict[str, Callable[[str, Scale], dict[str, Any]]], scale: Scale, chosen: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Each way of learning each piece of work, in turns."""
    rows, exactly = [], replace(scale, precision="float32", epochs=max(3, COMPARED * scale.batch // scale.images))
    for work in chosen:
        terms = {way: learn(work, exactly)["terms"] for way, learn in ways.items()}
        found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
        for _ in range(scale.rounds):
            for way, learn in ways.items():
                found[way].append(learn(work, scale))
        first, *others = ways
        row: dict[str, Any] = {"work": work}
        for way, each in found.items():
            seconds = [one["seconds"] for one in each]
            row[way] = {"step_seconds": min(seconds), "median": statistics.median(seconds), "rounds": seconds}
        for way in others:
            row[way]["speed"] = row[first]["step_seconds"] / row[way]["step_seconds"]
            row[way]["apart"] = apart(terms[first], terms[way])
        rows.append(row)
        said = [f"{way} {row[way]['step_seconds']:.4f} s" for way in ways]
        said += [f"{way}: {row[way]['speed']:.2f} times the speed, apart {row[way]['apart']:.1e}" for way in others]
        print(f"{work}: " + ", ".join(said), flush=True)
    return rows


def apart(one: list[dict[str, float]], other: list[dict[str, float]]) -> float:
    """The largest difference between two logs, as a share of the number where that is above 1."""
    return max(abs(a[name] - b[name]) / max(1.0, abs(a[name])) for a, b in zip(one, other) for name in a)


def on_cpu(scale: Scale, chosen: tuple[str, ...]) -> list[dict[str, Any]]:
    ways = {"one process": (1, 1), "two processes": (2, 1), "two threads": (1, 2)}
    return turns(
        {name: lambda work, size, many=many: in_processes(work, size, "cpu", *many) for name, many in ways.items()},
        scale,
        chosen,
    )


def on_gpus(scale: Scale, processes: int, chosen: tuple[str, ...]) -> list[dict[str, Any]]:
    ways = {"one process": 1, f"{processes} processes": processes}
    return turns(
        {name: lambda work, size, many=many: in_processes(work, size, "cuda", many, 4) for name, many in ways.items()},
        scale,
        chosen,
    )


def on_one_gpu(scale: Scale, chosen: tuple[str, ...]) -> list[dict[str, Any]]:
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29591")

    def without(work: str, scale: Scale) -> dict[str, Any]:
        with alone():
            return learned(work, scale, "cuda")

    def within(work: str, scale: Scale) -> dict[str, Any]:
        with sharing():
            return learned(work, scale, "cuda")

    with joined("cuda", whole=Group(0, 1)):
        for work in chosen:  # kernels are compiled, and NCCL begins, before anything counts
            within(work, scale)
            without(work, scale)
        return turns({"no group": without, "a group of one": within}, scale, chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--processes", type=int, default=1, help="GPUs that take turns with one")
    parser.add_argument("--rounds", type=int, help="how often all take their turn")
    parser.add_argument("--work", nargs="+", choices=WORK, default=WORK, help="what is learned; all by default")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--worker", choices=WORK, help=argparse.SUPPRESS)
    parser.add_argument("--scale", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    scale = Scale(**{**asdict(SCALES[options.device]), **(options.scale or {})})
    if options.rounds is not None:
        scale = Scale(**{**asdict(scale), "rounds": options.rounds})
    if options.worker is not None:
        worker(options.worker, scale, options.device)
        return
    begun = time.perf_counter()
    if options.device == "cpu":
        rows = on_cpu(scale, tuple(options.work))
    else:
        work = tuple(options.work)
        rows = on_one_gpu(scale, work) if options.processes == 1 else on_gpus(scale, options.processes, work)
    found = {
        "command": f"python benchmarks/parallel.py --device {options.device} --processes {options.processes}",
        "device": device_name(torch.device(options.device)),
        "cores": os.cpu_count(),
        "versions": {**versions(), **({"nccl": nccl()} if options.device == "cuda" else {})},
        "scale": asdict(scale),
        "rows": rows,
        "seconds": round(time.perf_counter() - begun, 1),
    }
    if options.out is not None:
        make_folder(options.out.parent)
        write_atomically(options.out, (json.dumps(found, indent=1) + "\n").encode())
        write_atomically(options.out.with_suffix(".txt"), table(rows).encode())


def table(rows: list[dict[str, Any]]) -> str:
    """For the documentation: seconds of a step and, of each way, how many times the speed of the first it has."""
    first, *others = [way for way in rows[0] if way != "work"]
    head = [f"{first}, step", *(title for way in others for title in (f"{way}, step", "speed", "losses apart"))]
    lines = ["| | " + " | ".join(head) + " |", "|---|" + "---:|" * len(head)]
    for row in rows:
        cells = [_milliseconds(row[first])]
        for way in others:
            cells += [_milliseconds(row[way]), f"× {row[way]['speed']:.2f}", f"{row[way]['apart']:.0e}"]
        lines.append(f"| {row['work']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _milliseconds(found: dict[str, Any]) -> str:
    return f"{1000 * found['step_seconds']:.3g} ms"


def nccl() -> str:
    return ".".join(map(str, torch.cuda.nccl.version()))


if __name__ == "__main__":
    main()
