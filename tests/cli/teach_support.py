"""Digits as picture files, and a small learner of three of them."""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
WIDE = [
    *("pictures", "--network.image-size", "8", "--network.channels", "1", "--network.width", "8"),
    *("--network.feature-dim", "16", "--trunk.epochs", "6", "--stream.task-sizes", "2", "1", "--device", "cpu"),
]  # fmt: skip
"""A run of three classes that takes a second."""


def draw_digits(folder: Path, digit: int, first: int = 0, last: int = 60) -> Path:
    """Some pictures of a digit as files."""
    data = load_digits()
    folder.mkdir(parents=True)
    for i, image in enumerate(data.images[data.target == digit][first:last]):
        Image.fromarray((image * 255 / 16).clip(0, 255).astype(np.uint8)).save(folder / f"{first + i:03d}.png")
    return folder
