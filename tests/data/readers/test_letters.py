"""Letters drawn with the fonts that matplotlib carries."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from ictrl.config import StreamConfig
from ictrl.data import Dataset, list_datasets, load_dataset
from ictrl.data.readers import letters
from ictrl.errors import InputError


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load_dataset("letters", 32, 3)


def test_letters_are_as_listed(dataset: Dataset) -> None:
    listing = next(listing for listing in list_datasets() if listing.name == "letters")
    assert (len(dataset.images), len(dataset.test_images)) == (listing.images, listing.test_images)
    assert "".join(dataset.class_names.values()) == letters.LETTERS
    assert dataset.images.shape[1:] == (listing.channels, listing.side, listing.side)
    for labels in (dataset.labels, dataset.test_labels):
        assert len(labels.unique(return_counts=True)[1].unique()) == 1  # of every letter as many
    grey = load_dataset("letters", 16, 1)
    assert grey.images.shape == (len(dataset.images), 1, 16, 16)


def test_they_are_the_same_every_time(dataset: Dataset) -> None:
    torch.manual_seed(3)
    np.random.seed(3)
    again = load_dataset("letters", 32, 3)
    assert torch.equal(again.images, dataset.images)
    assert torch.equal(again.test_images, dataset.test_images)


def test_every_font_has_every_letter_and_none_is_in_both_parts() -> None:
    assert not set(letters.FONTS) & set(letters.TEST_FONTS)
    drawn = letters._canvases((*letters.FONTS, *letters.TEST_FONTS))
    drawn = drawn.flatten(2)
    assert float(drawn.amax(2).min()) == 1
    assert float(drawn.mean(2).min()) > 0.03
    for font in drawn:
        apart = torch.cdist(font, font) + 1e6 * torch.eye(len(font))
        assert float(apart.min()) > 5  # a font without letters draws the same box for all


def test_a_letter_stands_out_from_its_background_light_or_dark() -> None:
    letter, near, far = letters._colours(2000, np.random.default_rng(1)) @ letters.LUMA
    lighter, darker = letter - np.maximum(near, far), np.minimum(near, far) - letter
    assert float(np.maximum(lighter, darker).min()) >= letters.CONTRAST
    assert 0.4 < float((lighter > 0).mean()) < 0.6


def test_pixels_alone_do_not_tell_them(dataset: Dataset) -> None:
    """A demo needs something to learn: here a linear classifier of pixels is right in less than a third."""
    small = load_dataset("letters", 16, 3)
    images, test_images = (part.flatten(1).numpy() / 255 for part in (small.images, small.test_images))
    classifier = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(images, small.labels)
    assert 0.05 < classifier.score(test_images, small.test_labels) < 0.33


def test_a_root_for_the_embedded_letters_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Expected no stream.root for the embedded letters .* the recipe pictures"):
        load_dataset(StreamConfig(dataset="letters", root=str(tmp_path)), image_size=8, channels=1)


def test_a_font_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matplotlib.get_data_path", lambda: str(tmp_path))
    with pytest.raises(InputError, match=r"Expected the font .*DejaVuSans\.ttf, which matplotlib carries, but"):
        load_dataset("letters", 32, 3)
