"""The digits that come with scikit-learn: a dataset without a download."""

import numpy as np
import torch

from ictrl.config import StreamConfig
from ictrl.data.dataset import Dataset
from ictrl.data.registry import register_dataset
from ictrl.data.resize import to_channels
from ictrl.errors import InputError


@register_dataset(
    "digits",
    "handwritten digits that scikit-learn carries",
    classes=10,
    images=1433,
    test_images=364,
    side=8,
    channels=1,
)
def read_digits(stream: StreamConfig, image_size: int, channels: int) -> Dataset:
    """scikit-learn's 1797 handwritten digits of 8×8 pixels, enlarged; every fifth image of each class is held out."""
    if stream.root:
        raise InputError(
            f"Expected no stream.root for the embedded digits but got {stream.root}: for pictures of your own take the "
            "recipe pictures, or give --stream.dataset folder as well."
        )
    from sklearn.datasets import load_digits  # takes a second to import, and only this function needs it

    bunch = load_digits()
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    pixels = torch.from_numpy(bunch.images).float()[:, None] * (255 / 16)  # ink from 0 to 16
    resized = torch.nn.functional.interpolate(pixels, size=(image_size, image_size), mode="bilinear")
    images = to_channels(resized.round().to(torch.uint8), channels)
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
