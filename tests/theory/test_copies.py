"""Copies among drawn images: found where there are any, not where images are only blurred."""

import numpy as np
import pytest
import torch
from torch import Tensor

from ictrl.theory.copies import NEAREST, Copies, copies
from ictrl.theory.neighbours import nearest


def noise(n: int, seed: int) -> Tensor:
    return torch.randn(n, 20, generator=torch.Generator().manual_seed(seed))


def held(drawn: Tensor) -> Copies:
    training, test = noise(400, 0), noise(200, 1)
    return copies(*(nearest(Z, training, NEAREST)[1] for Z in (drawn, test)))


def test_new_images_are_no_copies() -> None:
    found = held(noise(2000, 2))
    assert found.expected == 2 / 201
    assert found.share == pytest.approx(0.01, abs=0.012)
    assert found.nearness == pytest.approx(1.0, abs=0.05)


def test_half_of_the_training_images_with_noise_are_half_copies() -> None:
    found = held(torch.cat([noise(400, 0)[:100] + 0.1 * noise(100, 3), noise(100, 4)]))
    assert found.share == pytest.approx(0.5, abs=0.03)


def test_blurred_images_are_near_and_no_copies() -> None:
    found = held(0.1 * noise(100, 5))
    assert found.nearness < 0.9
    assert found.share == 0.0


def test_the_median_and_the_share_are_those_of_numpy() -> None:
    training, test, drawn = (noise(n, seed).numpy().astype(float) for n, seed in ((400, 0), (200, 1), (101, 2)))
    drawn[:3] = training[:3] + 1e-3

    def told(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        near = np.sort(np.linalg.norm(points[:, None] - training, axis=2), 1)[:, :NEAREST]
        return near[:, 0], near[:, 0] / near.mean(1)

    (d, stands), (test_d, test_stands) = told(drawn), told(test)
    found = held(torch.from_numpy(drawn).float())
    assert found.share == pytest.approx((stands < np.sort(test_stands)[1]).mean(), abs=1e-6)
    assert found.nearness == pytest.approx(np.median(d) / np.median(test_d), rel=1e-4)
    assert found.share >= 3 / 101
