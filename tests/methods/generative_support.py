"""Four digits in two tasks, and a classifier of its own that looks at what methods draw of them."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from ictrl import Learner, create_learner, load_dataset, load_recipe
from ictrl.config import StreamConfig
from ictrl.recipes.tables import recipe_with

CLASSES = [0, 1, 2, 3]
FEW = {"network": {"width": 16, "feature_dim": 32}}


@cache
def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels of four digits, and test images and labels."""
    found = load_dataset(StreamConfig(), 16, 1)
    mine, tested = found.labels < len(CLASSES), found.test_labels < len(CLASSES)
    return found.images[mine], found.labels[mine], found.test_images[tested], found.test_labels[tested]


@cache
def judge() -> Learner[Any]:
    """Learned all four by cross-entropy, on real images alone, with a seed of its own."""
    recipe = recipe_with(load_recipe("joint-digits"), {"method": FEW})
    images, labels, *_ = digits()
    return create_learner(recipe, seed=77, device="cpu").learn(images, labels)


def learned(method: str, **settings: Any) -> Learner[Any]:
    """After two tasks of two digits each."""
    recipe = recipe_with(load_recipe(f"{method}-digits"), {"method": {**FEW, **settings}})
    learner = create_learner(recipe, device="cpu")
    images, labels, *_ = digits()
    for task in (CLASSES[:2], CLASSES[2:]):
        mine = torch.isin(labels, torch.tensor(task))
        learner.learn(images[mine], labels[mine])
    return learner


def recognised(learner: Any, each: int = 60) -> list[float]:
    """The share of what is drawn of each class that the judge takes for it."""
    return [float((judge().predict(learner.sample(label, each)) == label).double().mean()) for label in CLASSES]


def accuracies(learner: Learner[Any]) -> tuple[float, float]:
    """On all test images, and on those of the first task."""
    _, _, images, labels = digits()
    old = labels < 2
    return learner.score(images, labels), learner.score(images[old], labels[old])
