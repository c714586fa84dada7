"""Precision and recall against the slow definition, and what must hold of them."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ictrl.errors import InputError
from ictrl.theory import neighbours
from ictrl.theory.manifolds import Manifold, precision_recall


def slow_share(centres: NDArray[np.float64], points: NDArray[np.float64], k: int) -> float:
    """The share of points p with ‖p − c‖ ≤ ‖c − k-th nearest other centre‖ for some centre c."""
    inside = 0
    for point in points:
        for i, centre in enumerate(centres):
            others = np.delete(centres, i, axis=0)
            radius = np.sort(np.linalg.norm(others - centre, axis=1))[k - 1]
            if np.linalg.norm(point - centre) <= radius:
                inside += 1
                break
    return inside / len(points)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_shares_are_those_of_the_definition(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "BLOCK", 7)
    random = np.random.default_rng(k)
    real, drawn = random.normal(0, 1, (30, 4)), random.normal(1.3, 1.2, (25, 4))
    found = precision_recall(*(Manifold.of(torch.from_numpy(Z).float(), k) for Z in (real, drawn)))
    real, drawn = real.astype(np.float32).astype(float), drawn.astype(np.float32).astype(float)
    expected = slow_share(real, drawn, k), slow_share(drawn, real, k)
    assert found == pytest.approx(expected)
    assert all(0.1 < share < 0.99 for share in expected)  # a test that could not fail would have 0 or 1


def test_equal_sets_agree_and_far_ones_have_nothing_in_common(generator: torch.Generator) -> None:
    Z = torch.randn(200, 64, generator=generator)
    assert precision_recall(Manifold.of(Z), Manifold.of(Z[torch.randperm(200)])) == (1.0, 1.0)
    assert precision_recall(Manifold.of(Z), Manifold.of(Z + 1000)) == (0.0, 0.0)


def test_few_modes_have_precision_and_no_recall(generator: torch.Generator) -> None:
    centres = 50.0 * torch.eye(10)
    real = (centres[:, None] + torch.randn(10, 40, 10, generator=generator)).flatten(0, 1)
    one = centres[0] + 0.5 * torch.randn(400, 10, generator=generator)
    precision, recall = precision_recall(Manifold.of(real), Manifold.of(one))
    assert precision > 0.99
    assert recall < 0.1


def test_repeated_features_are_in_the_manifold_of_themselves() -> None:
    Z = torch.tensor([[1.5, 2.25], [7.125, -3.0]]).repeat_interleave(5, 0)  # every radius is 0
    assert precision_recall(Manifold.of(Z), Manifold.of(Z)) == (1.0, 1.0)
    assert not Manifold.of(Z).holds(Z + 1e-3).any()


def test_scale_and_origin_do_not_matter(generator: torch.Generator) -> None:
    real, drawn = torch.randn(60, 5, generator=generator), 1.3 * torch.randn(60, 5, generator=generator)
    as_it_is = precision_recall(Manifold.of(real), Manifold.of(drawn))
    assert precision_recall(Manifold.of(8 * real + 32), Manifold.of(8 * drawn + 32)) == pytest.approx(
        as_it_is, abs=0.02
    )


def test_too_few_features_are_refused() -> None:
    with pytest.raises(InputError, match="Expected more than 3 images for a manifold of 3 neighbours but got 3."):
        Manifold.of(torch.zeros(3, 2))
