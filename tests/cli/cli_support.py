"""What tests of commands share: small runs of every method, and coloured pictures as files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

SMALL = [
    *("--network.image-size", "8", "--network.width", "8", "--network.feature-dim", "16"),
    *("--stream.tasks", "2", "--stream.limit", "12", "--device", "cpu"),
]  # fmt: skip
EPOCHS = {
    "ictrl-digits": ["--first.epochs", "2", "--later.epochs", "2"],
    "frozen-digits": ["--first.epochs", "2"],
    "finetune-digits": ["--first.epochs", "2", "--later.epochs", "2"],
    "joint-digits": ["--stage.epochs", "2"],
}
"""Options that make a run of each recipe short, besides SMALL."""

COLOURS = {"blue": (30, 60, 220), "green": (40, 190, 60), "red": (220, 40, 30)}
NEWEST = Path("checkpoint") / "after-task-002.safetensors"
RECIPE = """
base = "ictrl-digits"
[method.network]
image_size = 8
channels = 3
width = 8
feature_dim = 16
[method.memory]
directions = 3
neighbours = 5
samples = 8
[method.classifier]
components = 2
[method.first]
epochs = 15
batch = 16
[method.later]
epochs = 15
[stream]
dataset = "folder"
task_sizes = [2, 1]
[run]
device = "cpu"
"""
"""Three classes of pictures in files, in two tasks."""


@dataclass(frozen=True)
class Ran:
    """What became of `ictrl run`."""

    folder: Path
    code: int
    output: str


def draw(path: Path, colour: tuple[int, int, int], size: tuple[int, int], seed: int) -> None:
    """A noisy picture of one colour as a file."""
    noise = np.random.default_rng(seed).normal(0, 20, (size[1], size[0], 3))
    Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)).save(path)
