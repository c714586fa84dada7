"""Concepts: codes that are kept, and what many of them become."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ictrl.memory.concepts import Concepts, concepts_from


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def three_classes() -> Concepts:
    """Of 30, 20 and 4 codes of 5 numbers."""
    found = Concepts.none(5, torch.device("cpu"))
    for row, n in enumerate((30, 20, 4)):
        found = found.with_class(torch.randn(n, 5, generator=seeded(row)) * (row + 1) + 10 * row, row)
    return found._replace(born=torch.tensor([0, 0, 1]))


def moments(concepts: Concepts) -> tuple[int, Any, Any]:
    """Of all encodings that concepts stand for, in NumPy."""
    n = concepts.counts.numpy()[:, None].astype(float)
    means, variances = concepts.means.double().numpy(), concepts.variances.double().numpy()
    mean = (n * means).sum(0) / n.sum()
    return int(n.sum()), mean, (n * (variances + means**2)).sum(0) / n.sum() - mean**2


@pytest.mark.parametrize("clusters", [1, 3, 7])
def test_whatever_is_condensed_the_moments_of_a_class_stay(clusters: int) -> None:
    whole = three_classes().of(0)
    once = whole.condensed(clusters, seeded())
    twice = once.condensed(max(1, clusters - 2), seeded(1))
    assert len(once.counts) <= clusters
    for found in (once, twice):
        count, mean, variance = moments(found)
        assert count == 30
        np.testing.assert_allclose(mean, whole.means.double().numpy().mean(0), atol=1e-5)
        np.testing.assert_allclose(variance, whole.means.double().numpy().var(0), atol=1e-4)


def test_a_cluster_is_what_belongs_to_it() -> None:
    """Three heaps far apart: each becomes a concept, with its own mean and variances."""
    heaps = [torch.randn(n, 4, generator=seeded(n)) + 100 * i for i, n in enumerate((7, 9, 11))]
    whole = Concepts.none(4, torch.device("cpu")).with_class(torch.cat(heaps), 0)
    best = min((whole.condensed(3, seeded(s)) for s in range(8)), key=lambda found: float(found.variances.sum()))
    order = best.means[:, 0].argsort()
    assert best.counts[order].tolist() == [7, 9, 11]
    for place, heap in zip(order, heaps):
        torch.testing.assert_close(best.means[place], heap.mean(0), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(best.variances[place], heap.var(0, correction=0), rtol=1e-3, atol=1e-3)


def test_room_is_shared_equally() -> None:
    found = three_classes().within(30, seeded())
    assert [found.of(row).vectors() for row in range(3)][2] == 4  # has less than its share
    assert all(found.of(row).vectors() <= 10 for row in range(3))
    assert found.vectors() <= 30
    assert [int(found.of(row).counts.sum()) for row in range(3)] == [30, 20, 4]
    assert found.born.tolist() == [0, 0, 1]
    assert three_classes().within(1000, seeded()).vectors() == 54


def test_all_are_given_back_as_often_as_they_were() -> None:
    whole = three_classes()
    assert torch.equal(whole.of(1).every(seeded()), whole.of(1).means)  # as they are
    condensed = whole.of(0).condensed(4, seeded())
    assert len(condensed.every(seeded())) == 30
    drawn = condensed.sample(40_000, seeded()).double().numpy()
    _, mean, variance = moments(condensed)
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.03)
    np.testing.assert_allclose(drawn.var(0), variance, rtol=0.05)


def test_what_is_kept_is_read_again() -> None:
    whole = three_classes().within(30, seeded())
    kept = whole.tensors()
    assert len(kept["variances"]) == int(whole.many.sum()) < len(whole.counts)
    for one, other in zip(concepts_from(kept, 3, 5), whole):
        assert torch.equal(one, other)


def test_a_class_is_taken_out() -> None:
    found = three_classes().without(1)
    assert found.rows.unique(return_counts=True)[1].tolist() == [30, 4]
    assert found.rows.unique().tolist() == [0, 1]
    assert found.born.tolist() == [0, 1]


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: kept.pop("born"),
        lambda kept: kept.update(means=kept["means"][:, :4]),
        lambda kept: kept.update(variances=kept["variances"][:-1]),
        lambda kept: kept.update(variances=-kept["variances"] - 1),
        lambda kept: kept.update(rows=kept["rows"] + 1),
        lambda kept: kept.update(counts=kept["counts"] * 0),
        lambda kept: kept.update(more=kept["means"]),
    ],
)
def test_other_tensors_are_refused(change: Any) -> None:
    kept: dict[str, Tensor] = three_classes().within(30, seeded()).tensors()
    change(kept)
    with pytest.raises((KeyError, ValueError)):
        concepts_from(kept, 3, 5)
