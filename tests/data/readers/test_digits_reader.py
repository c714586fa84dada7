"""The digits that come with scikit-learn."""

from pathlib import Path

import pytest
import torch

from ictrl.config import StreamConfig
from ictrl.data import list_datasets, load_dataset
from ictrl.errors import InputError


def test_digits_are_as_listed_and_need_nothing() -> None:
    listing = list_datasets()[0]
    dataset = load_dataset(StreamConfig(), 16, 1)
    assert (len(dataset.images), len(dataset.test_images)) == (listing.images, listing.test_images)
    assert len(dataset.class_names) == listing.classes
    assert dataset.images.shape[1:] == (1, 16, 16)
    assert int(dataset.images.max()) == 255
    colour = load_dataset(StreamConfig(), 16, 3)
    assert torch.equal(colour.images[:, 1:2], dataset.images)


def test_a_root_for_the_embedded_digits_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Expected no stream.root for the embedded digits .* the recipe pictures"):
        load_dataset(StreamConfig(dataset="digits", root=str(tmp_path)), image_size=8, channels=1)
