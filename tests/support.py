"""Small things that many tests share: a tiny recipe, striped pictures, the command line as a function."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ictrl import Recipe
from ictrl.cli import main
from ictrl.config import (
    AnchorsConfig,
    ClassifierConfig,
    GameConfig,
    MemoryConfig,
    NetworkConfig,
    ObjectiveConfig,
)

NO_ANCHORS = AnchorsConfig(new=0.0, replayed=0.0)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def tiny_recipe(**sections: object) -> Recipe:
    """The paper's method, two layers on 8×8 grey images: a task takes a fraction of a second."""
    recipe = Recipe(
        name="tiny",
        device="cpu",
        network=NetworkConfig(image_size=8, channels=1, width=8, feature_dim=16),
        objective=ObjectiveConfig(lambda_new=10.0),
        anchors=NO_ANCHORS,
        memory=MemoryConfig(directions=3, neighbours=5, samples=4, transport=False),
        classifier=ClassifierConfig(kind="subspace", components=3),
        game=GameConfig(epochs=2, first_epochs=4, first_batch=16, learning_rate=1e-3, averaged=0.0),
    )
    return replace(recipe, **sections)  # type: ignore[arg-type]


def pictures(labels: list[int], each: int = 20, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Noisy stripes, a pattern of its own for each label, in shuffled order."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:8, 0:8]
    images, targets = [], []
    for label in labels:
        angle = 0.7 * label
        pattern = 127 + 100 * np.sin(rows * np.cos(angle) * 1.5 + columns * np.sin(angle) * 1.5 + label)
        noisy = pattern + random.normal(0, 15, size=(each, 1, 8, 8))
        images.append(np.clip(noisy, 0, 255).astype(np.uint8))
        targets += [label] * each
    order = random.permutation(len(targets))
    return torch.from_numpy(np.concatenate(images)[order]), torch.tensor(targets)[order]


SHORT = """
base = "digits"
device = "cpu"
[network]
image_size = 8
width = 8
feature_dim = 16
[memory]
directions = 3
neighbours = 5
samples = 4
[game]
first_epochs = 3
epochs = 2
first_batch = 50
[data]
tasks = 2
limit = 12
"""


def call(*arguments: str | Path) -> int:
    """The exit code, whether the command returns it or the parser raises it."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as error:
        return int(error.code or 0)


# folders may have any name but those with a slash
CLASS_NAMES = ["<script>alert(1)<", "R&D \"quoted\" 'too'", "a class with a rather long name", "plain"]
