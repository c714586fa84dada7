"""Small things that many tests share: a tiny recipe, striped pictures, the command line as a function."""

import importlib.util
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictrl import Recipe
from ictrl.config import (
    ClassifierConfig,
    GameStageConfig,
    ICTRLConfig,
    MemoryConfig,
    NetworkConfig,
    RunConfig,
    WeightsConfig,
)
from ictrl.memory.store import Gaussians, Memory, form_class_memory
from ictrl.nets.dcgan import Decoder, Encoder
from ictrl.nets.wrappers import ImageDecoder, ImageEncoder, to_float
from ictrl.training.players import Players

ROOT = Path(__file__).parent.parent
"""The repository."""

NO_DISTILLATION = WeightsConfig(lambda_new=10.0)
"""Weights of later tasks by the paper's method alone."""

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def tiny_recipe(**changes: Any) -> Recipe:
    """The paper's method, two layers on 8×8 grey images: a task takes a fraction of a second.

    A keyword that is a field of `Recipe` or of the method takes that one's place; a dict changes it setting by setting:
    `tiny_recipe(name="other", run={"seed": 3}, later={"epochs": 1, "weights": {"loop": 1.0}})`.
    """
    method = ICTRLConfig(
        network=NetworkConfig(image_size=8, channels=1, width=8, feature_dim=16),
        memory=MemoryConfig(directions=3, neighbours=5, samples=4, drift_compensation=False),
        classifier=ClassifierConfig(kind="subspace", components=3),
        first=GameStageConfig(epochs=4, batch=16, learning_rate=1e-3, ema=0.0),
        later=GameStageConfig(epochs=2, batch="rule", learning_rate=1e-3, ema=0.0, weights=NO_DISTILLATION),
    )
    recipe = Recipe(name="tiny", method=method, run=RunConfig(device="cpu"))
    own = {key: changes.pop(key) for key in [*changes] if key in {field.name for field in fields(Recipe)}}
    recipe = changed(recipe, own)
    return replace(recipe, method=changed(recipe.method, changes))


def changed(config: Any, changes: dict[str, Any]) -> Any:
    """A dataclass with other values; a dict in the place of a dataclass changes that one in the same way."""
    return replace(
        config,
        **{
            key: changed(getattr(config, key), value) if isinstance(value, dict) else value
            for key, value in changes.items()
        },
    )


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


def tiny_players(learning_rate: float = 1e-3, seed: int = 0) -> Players:
    """The networks of `tiny_recipe`, untrained, each with its optimiser."""
    generator = torch.Generator().manual_seed(seed)
    encoder, decoder = (kind(8, 1, 8, 16, generator).eval() for kind in (Encoder, Decoder))
    return Players.pair(ImageEncoder(encoder, 16), ImageDecoder(decoder), learning_rate, (0.5, 0.999))


def tiny_memory(encoder: ImageEncoder) -> Gaussians:
    """What the encoder would remember of the pictures of classes 0 and 1: three directions each."""
    images, labels = pictures([0, 1])
    with torch.no_grad():
        Z = encoder(to_float(images))
    return Memory({label: form_class_memory(Z[labels == label], 3, 5, disjoint=False) for label in (0, 1)}).gaussians()


SHORT = """
base = "ictrl-digits"
[method.network]
image_size = 8
width = 8
feature_dim = 16
[method.memory]
directions = 3
neighbours = 5
samples = 4
[method.first]
epochs = 3
batch = 50
[method.later]
epochs = 2
[stream]
tasks = 2
limit = 12
[run]
device = "cpu"
"""


def call(*arguments: str | Path) -> int:
    """The exit code, whether the command returns it or the parser raises it."""
    from ictrl.cli import main  # tests of the rooms below do without it

    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as error:
        return int(error.code or 0)


# folders may have any name but those with a slash
CLASS_NAMES = ["<script>alert(1)<", "R&D \"quoted\" 'too'", "a class with a rather long name", "plain"]


def script(name: str) -> Any:
    """A module that lies in no package: a file of `experiments`, or one of `benchmarks`."""
    folder = next(ROOT / room for room in ("benchmarks", "experiments") if (ROOT / room / f"{name}.py").exists())
    if str(folder) not in sys.path:  # they import one another
        sys.path.append(str(folder))
    spec = importlib.util.spec_from_file_location(f"script_{name}", folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
