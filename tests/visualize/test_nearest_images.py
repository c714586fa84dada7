"""The nearest training image of drawn ones."""

import pytest
import torch
from support import pictures

from ictrl.errors import InputError
from ictrl.visualize.nearest_images import nearest_images


def test_copies_are_found_whatever_is_around_them() -> None:
    images, _ = pictures([0, 1, 2])
    noisy = (images[[5, 40]].int() + 1).clamp(max=255).to(torch.uint8)
    positions, distances = nearest_images(torch.cat([images[[31, 7]], noisy]), images)
    assert positions.tolist() == [31, 7, 5, 40]
    assert distances[:2].tolist() == [0.0, 0.0]
    assert ((distances[2:] > 0) & (distances[2:] <= 8)).all()  # 64 pixels, each by 1 at most


def test_features_can_say_what_is_near() -> None:
    images = torch.zeros(3, 1, 4, 4, dtype=torch.uint8)
    images[0, 0, 0, 0], images[1, 0, :2] = 200, 100
    sample = torch.zeros(1, 1, 4, 4, dtype=torch.uint8)
    sample[0, 0, 3, 3] = 200  # the same brightness elsewhere
    positions, distances = nearest_images(sample, images)
    assert (positions.tolist(), distances.tolist()) == ([2], [200.0])
    positions, distances = nearest_images(sample, images, lambda X: X.float().sum((1, 2, 3))[:, None])
    assert (positions.tolist(), distances.tolist()) == ([0], [0.0])


def test_what_cannot_be_compared_is_refused() -> None:
    images, _ = pictures([0])
    with pytest.raises(InputError, match="Expected images to search for the nearest but got none."):
        nearest_images(images, images[:0])
    expected = "Expected samples and images of one size but images have 1 × 8 × 8 and samples 1 × 8 × 4."
    with pytest.raises(InputError, match=expected):
        nearest_images(images[..., :4], images)
