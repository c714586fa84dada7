"""Runs of a second: a fraction of the digits through every part of a method, and what a run leaves behind."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictrl import EpochReport, Recipe, Results, StreamConfig, load_dataset, load_recipe
from ictrl.config import METHODS
from ictrl.experiment.run import Listener, Stopped, run
from ictrl.methods.storage import LEARNER, read_stored
from ictrl.recipes.tables import recipe_with

STAGE = {"epochs": 4, "batch": 12, "learning_rate": 1e-3, "ema": 0.0}
QUICK: dict[str, Any] = {
    "method": {
        "network": {"image_size": 8, "channels": 1, "width": 4, "feature_dim": 16},
        "game": {"resample": "step"},
        "memory": {"directions": 3, "neighbours": 5, "disjoint": False, "samples": 4},
        "first": STAGE,
        "later": STAGE,
    },
    "stream": {"task_sizes": [4, 3, 3], "limit": 12},
    "run": {"device": "cpu", "keep_pictures": 4, "checkpoint": {"every_epochs": 2}},
}
EPOCHS = 3 * 4
"""of a quick run, whose three tasks have four each"""


def quick(kind: str = "ictrl", /, **changes: Any) -> Recipe:
    """The whole method on a fraction of the digits, in tasks of four, three and three classes: a run of half a second.

    Another method takes over what it knows of that. Keywords are nested tables: `quick("frozen", run={"seed": 3})`.
    """
    recipe = recipe_with(load_recipe("ictrl-digits"), QUICK)
    if kind != "ictrl":
        own: dict[str, Any] = {"anti_collapse": 0.0} if kind == "adagauss" else {}  # which wants larger batches
        own |= {name: STAGE for name in ("stage", "drawing", "coding") if name in METHODS[kind].__dataclass_fields__}
        recipe = recipe_with(recipe, {"method": {"name": kind, **own}})
    if kind in ("wide", "wide-ictrl", "wide-gan"):
        recipe = recipe_with(recipe, {"method": {"trunk": STAGE}})
    if "tasks" in changes.get("stream", {}):
        changes["stream"] = {"task_sizes": [], **changes["stream"]}
    return recipe_with(recipe, changes)


def npz_digits(path: Path, classes: int = 10) -> Path:
    """Some of the digits as a file of their own, which other processes read sooner than they import scikit-learn."""
    digits = load_dataset(StreamConfig(), 8, 1)
    few, tested = digits.labels < classes, digits.test_labels < classes
    np.savez(
        path,
        images=digits.images[few][:, 0].numpy(),
        labels=digits.labels[few].numpy(),
        test_images=digits.test_images[tested][:, 0].numpy(),
        test_labels=digits.test_labels[tested].numpy(),
    )
    return path


class StopAfter(Listener):
    """Asks a run to stop after so many epochs in all."""

    def __init__(self, epochs: int) -> None:
        self.left = epochs

    def on_epoch(self, index: int, report: EpochReport) -> None:
        self.left -= 1

    def __call__(self) -> bool:
        return self.left <= 0


def stopped_run(recipe: Recipe, out: Path, epochs: int, **given: Any) -> Path:
    """A run that was asked to stop after so many epochs in all."""
    stop = StopAfter(epochs)
    with pytest.raises(Stopped):
        run(recipe, out, listener=stop, stop=stop, **given)
    return out


def timeless(results: Results) -> Results:
    """Without what no two runs have in common."""
    return replace(results, seconds={})


def tensors(path: Path) -> dict[str, bytes]:
    """Every number that a saved learner holds."""
    return {name: tensor.numpy().tobytes() for name, tensor in read_stored(path, LEARNER).tensors.items()}


def newest(out: Path) -> Path:
    """The learner after the last task that was learned."""
    return sorted((out / "checkpoint").glob("after-task-*"))[-1]


def outcome(out: Path) -> dict[str, Any]:
    """Everything a run leaves that must not depend on how often it was stopped."""
    return {
        "results": timeless(Results.read(out / "results.json")),
        "metrics": (out / "metrics.jsonl").read_text(),
        "tensors": tensors(newest(out)),
        "files": sorted(path.name for path in (out / "checkpoint").iterdir()),
        "pictures": {path.name: path.read_bytes() for path in out.glob("pictures/*")},
    }
