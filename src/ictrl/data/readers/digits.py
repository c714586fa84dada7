"""The digits that come with scikit-learn: a dataset without a download."""

import numpy as np
import torch

from ictrl.data.dataset import Dataset
from ictrl.data.resize import to_channels


def read_digits(image_size: int, channels: int) -> Dataset:
    """scikit-learn's 1797 handwritten digits of 8×8 pixels, enlarged; every fifth image of a class is held out."""
    from sklearn.datasets import load_digits  # a second of import time that only this needs

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
