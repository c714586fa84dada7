"""Images and labels that are given as arrays."""

import numpy as np
import pytest
import torch
from torch import Tensor

from ictrl.data.arrays import labelled_images
from ictrl.errors import InputError

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 3, 8, 8), dtype=np.uint8)
LABELS = np.array([7, 7, 2, 2])


def convert(images: object = IMAGES, labels: object = LABELS) -> tuple[Tensor, Tensor]:
    return labelled_images(("images", images), ("labels", labels), " of task 2")


@pytest.mark.parametrize(
    "labels", [LABELS.astype(np.uint8), LABELS.astype(">i4"), torch.from_numpy(LABELS).short(), LABELS.tolist()]
)
def test_labels_of_any_whole_type(labels: object) -> None:
    converted = convert(labels=labels)[1]
    assert converted.dtype == torch.int64
    assert converted.tolist() == LABELS.tolist()


def test_arrays_that_are_read_only_or_strided() -> None:
    frozen = IMAGES.copy()
    frozen.flags.writeable = False
    assert np.array_equal(convert(frozen)[0], IMAGES)
    assert np.array_equal(convert(IMAGES[::-1])[0], IMAGES[::-1])


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (
            IMAGES / 255,
            LABELS,
            "Expected uint8 images (0 to 255) as images of task 2 but got float64: scale and convert them.",
        ),
        (torch.full((4, 3, 8, 8), torch.nan), LABELS, "but got float32 with NaN in it: scale and convert them."),
        (IMAGES[0], LABELS, "Expected images of task 2 of shape (n, channels, height, width) but got (3, 8, 8)."),
        (IMAGES[:0], LABELS, "Expected images as images of task 2 but got none: its shape is (0, 3, 8, 8)."),
        (IMAGES, LABELS[:3], "Expected a label in labels for each of the 4 images in images of task 2 but got 3."),
        (
            IMAGES,
            LABELS * 1.0,
            "Expected labels of task 2 as one whole number per image but got float64 of shape (4,).",
        ),
        (IMAGES, torch.from_numpy(LABELS)[:, None], "per image but got int64 of shape (4, 1)."),
        (IMAGES, "7722", "Expected labels of task 2 as a NumPy array or a tensor but got str."),
    ],
)
def test_what_is_wrong_is_named(images: object, labels: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        convert(images, labels)
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_labels_too_large_for_64_bits_are_refused_and_not_turned_negative(kind: str) -> None:
    labels = np.array([2**63 + 1, 0], np.uint64)
    given = labels if kind == "array" else torch.from_numpy(labels)
    with pytest.raises(InputError, match=r"Expected labels below 2\*\*63 as y of x\.npz but got 9223372036854775809"):
        labelled_images(("X", np.zeros((2, 1, 8, 8), np.uint8)), ("y", given), " of x.npz")
    small = np.array([2**63 - 1, 0], np.uint64)
    _, y = labelled_images(("X", np.zeros((2, 1, 8, 8), np.uint8)), ("y", small), "")
    assert y.tolist() == [2**63 - 1, 0]
