"""What ImageNet-1k in 100 tasks would take, by the cost model: nothing of it was run.

1,281,167 training and 50,000 test images of 128 px, ten new classes in each task, with one, eight (one machine) and
sixty-four GPUs (eight machines). Speeds of networks are those of data sheets.
"""

from typing import Any

from cost_model import (
    FLOAT,
    HALF,
    Network,
    WideRun,
    collective_seconds,
    cost,
    exchanged,
    game_work,
    pass_of,
    wide_gigabytes,
    wide_kept_bytes,
    wide_seconds,
)

from ictrl import load_recipe

IMAGES, TESTED, CLASSES, TASKS = 1_281_167, 50_000, 1000, 100
SIDE, RECIPE = 128, "best-imagenet50-128"
NVLINK = Network("NVLink, 450 GB/s each way", 450e9, 20e-6)
FABRIC = Network("400 Gb/s per GPU between machines", 50e9, 40e-6)
SHAPES = {1: None, 8: NVLINK, 64: FABRIC}
COLLECTIVES = 12  # of a step: sums of BatchNorm's layers forth and back, of moments and gradients


def wide_run() -> WideRun:
    recipe = load_recipe(RECIPE)
    trunk, reading = recipe.method.trunk, recipe.method.reading  # type: ignore[attr-defined]
    network = recipe.method.network
    channels = [min(network.width * 2**i, 8 * network.width) for i in range((SIDE // 8).bit_length())]
    D = sum(channels) * reading.pool**2
    views = (2 if reading.mirror else 1) * (5 if reading.shifts else 1)
    each, tested = IMAGES // TASKS, TESTED // TASKS
    return WideRun(network, TASKS, each, tested, CLASSES // TASKS, trunk.epochs, int(trunk.batch), D, views)


def wide_rows(constants: dict[str, Any]) -> list[dict[str, float]]:
    """For each number of GPUs."""
    run, rows = wide_run(), []
    one = pass_of(run.network)
    steps = run.epochs * -(-run.images // run.batch)
    for gpus, network in SHAPES.items():
        parts = wide_seconds(run, constants["trunk"], constants["reading"], gpus)
        sent = exchanged([one.parameters], gpus)
        waiting = steps * collective_seconds(sent, COLLECTIVES, network) if network else 0.0
        rows.append(
            {
                "gpus": gpus,
                "images of a step on each": run.batch / gpus,
                "first task": parts["first task"] + waiting,
                "of it between GPUs": waiting,
                "reading": parts["reading"],
                "measuring": parts["measuring"],
                "megabytes sent in a step": sent / 1e6,
                "gigabytes": wide_gigabytes(run, constants["bytes_per_activation"], gpus),
            }
        )
    return rows


def kept() -> dict[str, float]:
    run = wide_run()
    return {"D": run.D, "bytes": wide_kept_bytes(CLASSES, run.D), "file": IMAGES * 3 * SIDE**2}


def game_rows(constants: list[float], d: int = 512, directions: int = 12, samples: int = 40) -> list[dict[str, float]]:
    """A step of the game in the last task, each class replayed as the paper has it."""
    network = wide_run().network
    old, classes = directions * samples * (CLASSES - CLASSES // TASKS), CLASSES
    new = float(min(IMAGES // TASKS, old))
    rows = []
    for gpus, connected in SHAPES.items():
        work = game_work(new / gpus, old / gpus, classes, d, pass_of(network).flops)
        seconds = [part * constant for part, constant in zip(work, constants)]
        numbers = [2 * 2 * classes * d * d, 2 * pass_of(network).parameters]  # moments for either player, gradients
        sent = exchanged(numbers, gpus)
        rows.append(
            {
                "gpus": gpus,
                "rows": new + old,
                "convolutions": seconds[1],
                "rates": seconds[2],
                "moments": seconds[3],
                "between GPUs": collective_seconds(sent, 4, connected) if connected else 0.0,
                "seconds": cost(work, constants),
                "gigabytes of moments": 3 * (3 * classes + 2) * d * d * FLOAT / 1e9,
                "gigabytes of activations": (new + old) / gpus * pass_of(network).activations * HALF / 1e9,
            }
        )
    return rows
