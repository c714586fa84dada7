"""Sums of parts are those of the whole."""

import pytest
import torch
from torch import Tensor

from ictrl.memory.class_sums import ClassSums
from ictrl.memory.wide_features import Reduction, Spread

PHI = torch.randn(60, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 100
Y = torch.arange(60) % 4


@pytest.mark.parametrize("sizes", [(60,), (30, 30), (1, 2, 57), (20, 20, 20)])
@pytest.mark.parametrize("y", [Y, Y.sort().values], ids=["mixed", "class by class"])
def test_parts_add_up(sizes: tuple[int, ...], y: Tensor) -> None:
    whole, total = ClassSums.of(PHI, y), ClassSums.nothing(PHI.device)
    for phi, labels in zip(PHI.split(sizes), y.split(sizes)):
        total += ClassSums.of(phi, labels)
    assert total.labels.tolist() == whole.labels.tolist()
    assert total.counts.tolist() == whole.counts.tolist()
    torch.testing.assert_close(total.means.double(), whole.means, rtol=1e-12, atol=0)
    torch.testing.assert_close(total.scatter, whole.scatter, rtol=1e-10, atol=1e-10)


def test_squares_are_around_the_mean_of_each_class() -> None:
    found = ClassSums.of(PHI, Y)
    own = [PHI[torch.eq(Y, label)] for label in range(4)]
    centred = torch.cat([phi - phi.mean(0) for phi in own])
    torch.testing.assert_close(found.scatter, centred.T @ centred)


def test_one_part_is_taken_as_it_is() -> None:
    alone = ClassSums.of(PHI.float(), Y)
    assert ClassSums.nothing(PHI.device) + alone is alone
    assert alone + ClassSums.of(PHI[:0].float(), Y[:0]) is alone


def test_directions_of_parts_are_those_of_the_whole() -> None:
    spread = Spread.of(PHI[:10]) + Spread.of(PHI[10:])
    whole = Spread.of(PHI)
    torch.testing.assert_close(spread.scatter, whole.scatter)
    torch.testing.assert_close(spread.mean, whole.mean)


@pytest.mark.parametrize("kind", ["channels", "pca"])
def test_a_reduction_is_fitted_in_parts(kind: str) -> None:
    stages = [PHI[:, :6].float().view(60, 3, 1, 2), PHI[:, :4].float().view(60, 4, 1, 1)]
    whole = Reduction.fitted(kind, (2,), [stages])  # type: ignore[arg-type]
    parts = Reduction.fitted(kind, (2,), [[s[:25] for s in stages], [s[25:] for s in stages]])  # type: ignore[arg-type]
    for one, other in zip(whole.matrices, parts.matrices, strict=True):
        torch.testing.assert_close((one.T @ other).float().abs(), torch.eye(2), rtol=0, atol=5e-3)
