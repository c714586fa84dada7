"""Nearest neighbours in blocks, against NumPy on the whole matrix of distances."""

import numpy as np
import pytest
import torch

from ictrl.errors import InputError
from ictrl.theory import neighbours
from ictrl.theory.neighbours import nearest, squared_distances


@pytest.mark.parametrize(("n", "m", "k"), [(23, 40, 1), (23, 40, 5), (7, 3, 3), (1, 1, 1)])
def test_the_nearest_are_those_of_the_whole_matrix(n: int, m: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "BLOCK", 6)  # several blocks of rows and columns, the last ones smaller
    random = np.random.default_rng(0)
    Z, others = (random.normal(3, 1, (rows, 5)).astype(np.float32) for rows in (n, m))
    every = np.linalg.norm(Z[:, None].astype(float) - others, axis=2)
    rows, distances = nearest(torch.from_numpy(Z), torch.from_numpy(others), k)
    np.testing.assert_array_equal(rows, every.argsort(1)[:, :k])
    np.testing.assert_allclose(distances, np.sort(every, 1)[:, :k], rtol=1e-9)


def test_pixels_far_from_0_are_told_apart_exactly() -> None:
    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (50, 49_152), dtype=torch.uint8, generator=random)
    changed = images[:9].clone()
    changed[:, 7] ^= 1
    rows, distances = nearest(torch.cat([images[:9], changed]), images)
    assert rows[:, 0].tolist() == [*range(9)] * 2
    assert distances[:, 0].tolist() == [0.0] * 9 + [1.0] * 9


def test_equal_features_are_at_distance_0() -> None:
    Z = torch.randn(300, 97, generator=torch.Generator().manual_seed(0)) + 30
    rows, distances = nearest(Z, Z.clone())
    assert rows[:, 0].tolist() == [*range(300)]
    assert not distances.any()


def test_no_large_matrix_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "BLOCK", 8)
    for parts in squared_distances(torch.zeros(20, 3), torch.ones(30, 3)):
        for _, block in parts:
            assert max(block.shape) <= 8
            assert torch.equal(block, torch.full_like(block, 3.0))


def test_nothing_is_near_nothing() -> None:
    rows, distances = nearest(torch.zeros(0, 3), torch.zeros(2, 3), k=2)
    assert (rows.shape, distances.shape) == ((0, 2), (0, 2))
    with pytest.raises(InputError, match="Expected at least 3 images to search but got 2."):
        nearest(torch.zeros(1, 3), torch.zeros(2, 3), k=3)
