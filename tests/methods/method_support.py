"""A tiny recipe for every method, and all that a learner knows as tensors that can be compared."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from support import pictures, tiny_recipe
from torch import Tensor, nn

from ictrl import ICTRL, EpochReport, Learner, Recipe, StageConfig, create_learner
from ictrl.methods.base import LEARNERS
from ictrl.recipes.tables import recipe_with

METHODS = sorted(LEARNERS)
SEVERAL = ["ictrl", "wide", "wide-ictrl", "finetune", "icarl", "analytic", "joint"]
"""some of every kind, for what all have from the base class"""
TASKS = [pictures([5, -4]), pictures([2, 30])]
TESTS, TEST_LABELS = pictures([5, -4, 2, 30], each=8, seed=1)

SGD = {
    "optimiser": {"momentum": 0.9},
    "stage": {"epochs": 3, "batch": 10, "learning_rate": 0.1, "augmentation": {"mirror": False, "shifts": 0}},
}
FIRST = {
    "optimiser": {"weight_decay": 0.0},
    "first": {"learning_rate": 0.05, "augmentation": {"mirror": False, "shifts": 0}},
}
ADVERSARIAL = {
    "adversary": {"critic_steps": 2},
    "drawing": {"epochs": 3, "batch": 20, "learning_rate": 1e-3},
    "stage": {"epochs": 3, "batch": 10, "learning_rate": 3e-3, "augmentation": {"mirror": False, "shifts": 0}},
}
AUTOENCODER = {**SGD, "coding": {"epochs": 3, "batch": 10, "learning_rate": 3e-3}, "vectors": 30}
REHEARSAL = {**SGD, "buffer": {"images": 12, "batch": 6}}

# what a method needs besides the settings that it shares with i-CTRL
OWN_SETTINGS: dict[str, dict[str, Any]] = {
    "adagauss": {
        **FIRST,
        "later": {"batch": 20, "learning_rate": 0.02, "augmentation": {"mirror": False, "shifts": 0}},
        "hidden": 2,
        "adapter": {"epochs": 20, "batch": 20, "samples": 200},
    },
    "slda": FIRST,
    "fecam": FIRST,
    "analytic": {**FIRST, "expansion": 48},
    "lwf": {**SGD, "distillation": 1.0},
    "er": REHEARSAL,
    "derpp": REHEARSAL,
    "agem": REHEARSAL,
    "cls_er": {**REHEARSAL, "plastic": {"decay": 0.5}, "stable": {"chance": 0.8, "decay": 0.6}},
    "gdumb": {**SGD, "cutmix": 0.3, "buffer": {"images": 36}},
    "rainbow": {**REHEARSAL, "cutmix": 0.3, "views": 3},
    "ewc": SGD,
    "si": SGD,
    "icarl": {**SGD, "buffer": {"images": 12}},
    "eeil": {
        "optimiser": SGD["optimiser"],
        "buffer": {"images": 12},
        "first": SGD["stage"],
        "later": {**SGD["stage"], "epochs": 2},
        "balanced": {**SGD["stage"], "epochs": 1},
    },
    "joint_dcgan": {**ADVERSARIAL, "adversary": {"critic_steps": 1}},
    "dgr": ADVERSARIAL,
    "mergan": ADVERSARIAL,
    "dgmw": ADVERSARIAL,
    "eec": AUTOENCODER,
    "eecs": AUTOENCODER,
    "fearnet": {
        **FIRST,
        "sleep": 3,
        "hidden": 24,
        "code": 6,
        "cortex": {"epochs": 30, "batch": 20},
        "amygdala": {"epochs": 20, "batch": 20},
    },
    "redunet": {"layers": 3, "components": 3},
    "finetune": {"later": {"batch": 15}},
    "wide": {"reading": {"pool": 2}, "trunk": {"epochs": 3, "batch": 15, "warmup": 1}},
    "wide-ictrl": {
        "reading": {"pool": 2},
        "trunk": {"epochs": 3, "batch": 15, "warmup": 1},
        "first": {"weights": {"match_new": 10.0}},
        "later": {"batch": 15, "weights": {"match_new": 10.0, "match_replayed": 10.0}},
    },
    "wide-gan": {
        "reading": {"pool": 2},
        "trunk": {"epochs": 3, "batch": 15, "warmup": 1},
        "code": 6,
        "first": {"learning_rate": 2e-3},
        "later": {"batch": 15, "learning_rate": 2e-3, "recognised": 0.1},
    },
    "joint": {"stage": {"epochs": 3, "batch": 30, "learning_rate": 1e-3, "ema": 0.0}},
}


def recipe_of(method: str, **settings: Any) -> Recipe:
    """A recipe by which that method learns two tasks in a fraction of a second, with everything that it has."""
    whole = tiny_recipe(
        memory={"drift_compensation": True, "compensation_replayed": 0.5},
        first={"epochs": 3, "batch": 15},
        later={"epochs": 3, "weights": {"distill_new": 1.0, "distill_replayed": 2.0}},
    )
    whole = recipe_with(whole, {"method": {"name": method, **OWN_SETTINGS.get(method, {})}})
    return recipe_with(whole, {"method": settings})


def learner_of(method: str, tasks: int = 2, **settings: Any) -> Learner[Any]:
    """A learner of that method after so many tasks."""
    learner = create_learner(recipe_of(method, **settings))
    for task in TASKS[:tasks]:
        learner.learn(*task)
    return learner


def everything(learner: Learner[Any]) -> dict[str, Tensor]:
    """Copies of networks, optimisers, random state and what is kept, by name."""
    kept = {f"kept.{name}": tensor for name, tensor in learner.kept_tensors().items()}
    labels = {"labels": torch.tensor(learner.labels)}
    return {name: tensor.clone() for name, tensor in {**learner._state.tensors(), **kept, **labels}.items()}


def part_of(learner: Learner[Any], *names: str) -> dict[str, Tensor]:
    """What a learner knows under names that begin so."""
    return {name: tensor for name, tensor in everything(learner).items() if name.startswith(names)}


@cache
def undisturbed(method: str, tasks: int = 2, ema: float = 0.0) -> dict[str, Tensor]:
    """Everything that a learner of that method knows after so many tasks, if nothing happens to it."""
    return everything(learner_of(method, tasks, **ema_of(method, ema)))


def ema_of(method: str, ema: float) -> dict[str, Any]:
    """Settings by which every stage of that method has this EMA."""
    stages = (name for name, part in vars(recipe_of(method).method).items() if isinstance(part, StageConfig))
    return {name: {"ema": ema} for name in stages}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether two learners know the same, to the last bit."""
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def stop_after(
    learner: Learner[Any], task: tuple[Tensor, Tensor], epoch: int, path: Path | None = None, error: type = RuntimeError
) -> None:
    """Let a task fail after an epoch, which is written down first where there is a path for it."""

    def progress(report: EpochReport) -> None:
        if report.epoch == epoch:
            if path is not None:
                learner.save_task(path, report)
            raise error("as asked for")

    with pytest.raises(error, match="as asked for"):
        learner.learn(*task, progress=progress)


class Mine(nn.Module):
    """An encoder of one's own whose last stage is not 4×4."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 6, 3, 1, 1), nn.Conv2d(6, 8, 3, 2, 1)
        self.last = nn.Linear(8, 16)

    def stages(self, X: Tensor) -> list[Tensor]:
        first = self.one(X).relu()
        return [first, self.two(first).relu()[..., :3, :3]]

    def forward(self, X: Tensor) -> Tensor:
        return self.last(self.stages(X)[-1].mean((2, 3)))


Learned = Callable[..., ICTRL]
"""of the fixture `learned`"""
