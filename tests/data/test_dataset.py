"""Datasets from tensors and from arrays."""

import numpy as np
import pytest
import torch

from ictrl.data import Dataset
from ictrl.errors import InputError

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 3, 8, 8), dtype=np.uint8)
LABELS = np.array([7, 7, 2, 2])


def test_a_class_without_test_images_is_refused() -> None:
    image = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    with pytest.raises(
        InputError, match=r"Expected test images of each of the 2 classes of toy but got none of 1 \(b\)"
    ):
        Dataset("toy", image, torch.tensor([0, 1]), image, torch.tensor([0, 0]), {0: "a", 1: "b"})


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_arrays_and_tensors_become_a_dataset(convert) -> None:
    parts = [convert(part) for part in (IMAGES, LABELS, IMAGES[1:3], LABELS[1:3])]
    dataset = Dataset.from_arrays("mine", *parts)
    assert np.array_equal(dataset.images, IMAGES)
    assert np.array_equal(dataset.labels, LABELS)
    assert np.array_equal(dataset.test_images, IMAGES[1:3])
    assert np.array_equal(dataset.test_labels, LABELS[1:3])
    assert dataset.class_names == {2: "2", 7: "7"}
    assert Dataset.from_arrays("mine", *parts, {7: "seven", 2: "two"}).class_names == {7: "seven", 2: "two"}


def test_test_images_of_another_size_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        Dataset.from_arrays("mine", IMAGES, LABELS, IMAGES[..., 1:], LABELS)
    assert str(caught.value) == (
        "Expected test images of mine of shape (3, 8, 8), like its training images, but got (3, 8, 7)."
    )
