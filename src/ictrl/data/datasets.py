"""Datasets as the rest of the package sees them: uint8 images, integer labels, names of classes."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ictrl.errors import InputError


@dataclass(frozen=True)
class Dataset:
    """Training and test images of one size, held once."""

    name: str
    images: UInt8[Tensor, "n c h w"]
    labels: Int[Tensor, " n"]
    test_images: UInt8[Tensor, "m c h w"]
    test_labels: Int[Tensor, " m"]
    class_names: dict[int, str]


def load_dataset(name: str, image_size: int, channels: int) -> Dataset:
    """A dataset by name, at the size and with the channels a network expects."""
    if name != "digits":
        raise InputError(f"Expected a known dataset (digits) but got {name!r}.")
    if channels != 1:
        raise InputError(f"Expected network.channels to be 1 for the digits, which are grey, but got {channels}.")
    return digits(image_size)


def digits(image_size: int) -> Dataset:
    """scikit-learn's 1797 handwritten digits of 8×8 pixels, enlarged; every fifth image of a class is held out."""
    from sklearn.datasets import load_digits  # a second of import time that only this needs

    bunch = load_digits()
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    pixels = torch.from_numpy(bunch.images).float()[:, None] * (255 / 16)  # ink from 0 to 16
    resized = torch.nn.functional.interpolate(pixels, size=(image_size, image_size), mode="bilinear")
    images = resized.round().to(torch.uint8)
    held_out = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        held_out[(labels == label).nonzero().flatten()[::5]] = True
    return Dataset(
        name="digits",
        images=images[~held_out],
        labels=labels[~held_out],
        test_images=images[held_out],
        test_labels=labels[held_out],
        class_names={label: str(label) for label in range(10)},
    )
