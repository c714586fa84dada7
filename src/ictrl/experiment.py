"""A stream of tasks through a learner, and a folder that tells the whole story.

After every task the learner is measured under two protocols, which are never mixed:

- **memory**: the learner as its user has it; subspaces come from the moments it kept;
- **reencoded**: the paper's protocol; subspaces are refitted from the training images of every class seen so far,
  old ones included, under the current encoder. It needs the data that the method says it does not keep.

Beside them stands a floor: the same networks untrained, reencoded. What lies below it was not learned.

A run folder holds `config.toml`, `metrics.jsonl` (a line an epoch), `checkpoint/learner.safetensors`, `results.json`
and `figures/`; all but the figures are up to date after each task.
"""

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ictrl
from ictrl.classifier import NearestSubspace
from ictrl.config import Recipe, recipe_to_table, to_toml
from ictrl.data import Task, load_dataset, split_tasks
from ictrl.errors import InputError
from ictrl.files import write_atomically
from ictrl.game import EpochReport
from ictrl.learner import ICTRL
from ictrl.metrics import Scores, summarise

LEARNER = Path("checkpoint") / "learner.safetensors"
REPLAYED = 20  # features drawn from each direction to see whether memory survives the loop


class Listener:
    """What someone watching a run is told. Each method does nothing until it is overridden."""

    def on_task(self, index: int, total: int, task: Task) -> None:
        """A task, counted from 0, is about to be learned."""

    def on_epoch(self, report: EpochReport) -> None:
        """An epoch has passed."""

    def on_measured(self, results: dict[str, Any]) -> None:
        """A task was learned and measured: what `results.json` holds now."""


@dataclass
class Measured:
    """Accuracies, row by row of each matrix, and the time that went into them."""

    test_images: list[int]
    floor: list[list[float]] = field(default_factory=list)
    memory: list[list[float]] = field(default_factory=list)
    reencoded: list[list[float]] = field(default_factory=list)
    replay: list[float] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"learn": 0.0, "evaluate": 0.0, "floor": 0.0})

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # the device may still be at work
        self.seconds[phase] += time.perf_counter() - start


def run(recipe: Recipe, out: Path, listener: Listener | None = None) -> tuple[dict[str, Any], ICTRL]:
    """Learn the recipe's stream task by task, measure, and fill the run folder; returns the results and the learner."""
    listener = listener or Listener()
    dataset = load_dataset(recipe.data, recipe.network.image_size, recipe.network.channels)
    tasks = split_tasks(dataset, recipe.data)
    learner = ICTRL(recipe)
    prepare_folder(out)
    write_atomically(out / "config.toml", to_toml(recipe).encode())

    measured = Measured([len(task.test_labels) for task in tasks])
    with measured.timed("floor"):
        measured.floor = [reencoded_row(learner, tasks[: t + 1]) for t in range(len(tasks))]
    results: dict[str, Any] = {}
    with (out / "metrics.jsonl").open("w", encoding="utf-8") as log:
        for t, task in enumerate(tasks):
            listener.on_task(t, len(tasks), task)

            def progress(report: EpochReport, t: int = t) -> None:
                line = {"task": t + 1, "epoch": report.epoch, **report.terms}
                log.write(json.dumps(line) + "\n")
                log.flush()
                listener.on_epoch(report)

            with measured.timed("learn"):
                learner.learn(task.images, task.labels, progress)
            with measured.timed("evaluate"):
                measured.memory.append(memory_row(learner, tasks[: t + 1]))
                measured.reencoded.append(reencoded_row(learner, tasks[: t + 1]))
                measured.replay.append(replay_recognised(learner))
            learner.save(out / LEARNER)
            results = describe(recipe, learner, measured, tasks)
            write_atomically(out / "results.json", (json.dumps(results, indent=2) + "\n").encode())
            listener.on_measured(results)
    return results, learner


def prepare_folder(out: Path) -> None:
    """Make the folder; one that holds anything already is refused, so that no run is written over."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"Expected a new or empty folder for the run but {out} is not: choose another --out.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"Expected to write the run into {out} but could not make it: {error.strerror}.") from None


def memory_row(learner: ICTRL, tasks: list[Task]) -> list[float]:
    """Accuracy on each task from memory alone."""
    return [learner.score(task.test_images, task.test_labels) for task in tasks]


def reencoded_row(learner: ICTRL, tasks: list[Task]) -> list[float]:
    """Accuracy on each task with subspaces refitted from the training images of all of them."""
    Z = torch.cat([learner.features(task.images) for task in tasks])
    y = torch.cat([task.labels for task in tasks]).to(Z.device)
    classifier = NearestSubspace.from_features(Z, y, **vars(learner.recipe.classifier))
    predicted = [classifier.predict(learner.features(task.test_images)).cpu() for task in tasks]
    return [float((p == task.test_labels).float().mean()) for p, task in zip(predicted, tasks)]


def replay_recognised(learner: ICTRL) -> float:
    """Share of features drawn from memory that the classifier still assigns to their class after f(g(z)).

    Where it is low, the decoder has not learned to replay, and memory will not hold: train longer.
    """
    generator = torch.Generator(learner.device).manual_seed(0)
    Z, y = learner.memory.gaussians().sample(REPLAYED, generator)
    with torch.no_grad():
        Z_hat = learner.encoder(learner.decoder(Z))
    classifier = NearestSubspace.from_memory(learner.memory, **vars(learner.recipe.classifier))
    labels = torch.tensor(list(learner.memory), device=Z.device)[y]
    return float((classifier.predict(Z_hat) == labels).float().mean())


def describe(recipe: Recipe, learner: ICTRL, measured: Measured, tasks: list[Task]) -> dict[str, Any]:
    """The contents of `results.json`."""
    done = len(measured.memory)
    return {
        "complete": done == len(tasks),
        "memory": _scores(summarise(measured.memory, measured.test_images)),
        "reencoded": _scores(summarise(measured.reencoded, measured.test_images)),
        "floor": _scores(summarise(measured.floor[:done], measured.test_images)),
        "replay": measured.replay,
        "test_images": measured.test_images,
        "tasks": [list(task.classes) for task in tasks],
        "memory_bytes": learner.memory.nbytes,
        "image_bytes": sum(task.images.numel() for task in tasks[:done]),
        "parameters": learner.parameters,
        "seconds": {phase: round(seconds, 3) for phase, seconds in measured.seconds.items()},
        "seed": learner.seed,
        "device": device_name(learner.device),
        "versions": {
            "ictrl": ictrl.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "recipe": recipe_to_table(recipe),
    }


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{device}, {torch.cuda.get_device_name(device)}"
    return f"{device}, {platform.machine()}, {torch.get_num_threads()} threads"


def _scores(scores: Scores) -> dict[str, Any]:
    return {key: _rounded(value) for key, value in asdict(scores).items()}


def _rounded(value: Any) -> Any:
    """Six digits are more than a test set can tell apart."""
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value
