"""Three numbers from an accuracy matrix, and affinity of subspaces against SciPy's angles."""

import numpy as np
import pytest
import torch
from scipy.linalg import orth, subspace_angles

from ictrl.metrics import subspace_affinity, summarise

ROWS = [[0.9], [0.8, 1.0], [0.85, 0.6, 0.7]]


def test_equal_tasks() -> None:
    scores = summarise(ROWS, [10, 10, 10])
    assert scores.seen == pytest.approx([0.9, 0.9, (0.85 + 0.6 + 0.7) / 3])
    assert scores.last == scores.seen[-1]
    assert scores.average == pytest.approx(sum(scores.seen) / 3)
    assert scores.forgetting == pytest.approx(((0.9 - 0.85) + (1.0 - 0.6)) / 2)
    assert scores.matrix == [[0.9, None, None], [0.8, 1.0, None], [0.85, 0.6, 0.7]]


def test_every_image_counts_once() -> None:
    assert summarise(ROWS, [10, 30, 60]).seen == pytest.approx([0.9, (8 + 30) / 40, (8.5 + 18 + 42) / 100])


def test_getting_better_is_negative_forgetting() -> None:
    assert summarise([[0.5], [0.7, 1.0]], [1, 1]).forgetting == pytest.approx(-0.2)


def test_one_task_forgets_nothing() -> None:
    scores = summarise([[0.4]], [5])
    assert (scores.last, scores.average, scores.forgetting) == (0.4, 0.4, 0.0)


@pytest.mark.parametrize("rows", [[], [[0.5, 0.5]], [[0.5], [0.5]]])
def test_a_matrix_that_is_not_triangular_is_refused(rows: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="Expected a row of t accuracies after task t"):
        summarise(rows, [1, 1])


@pytest.mark.parametrize(("q", "p"), [(1, 1), (3, 3), (2, 5), (6, 4)])
def test_affinity_is_the_mean_squared_cosine_of_the_principal_angles(q: int, p: int) -> None:
    random = np.random.default_rng(q + 10 * p)
    U, V = (orth(random.normal(size=(12, n))) for n in (q, p))
    expected = float(np.square(np.cos(subspace_angles(U, V))).mean())
    assert float(subspace_affinity(torch.from_numpy(U), torch.from_numpy(V))) == pytest.approx(expected)


def test_affinity_knows_the_ends_and_ignores_columns_of_zeros() -> None:
    eye = torch.eye(6, dtype=torch.float64)
    assert float(subspace_affinity(eye[:, :2], eye[:, :4])) == 1.0
    assert float(subspace_affinity(eye[:, :2], eye[:, 2:4])) == 0.0
    padded = torch.cat([eye[:, :1], torch.zeros(6, 2, dtype=torch.float64)], dim=1)
    assert float(subspace_affinity(padded, eye[:, :3])) == 1.0
    assert float(subspace_affinity(torch.zeros(6, 2), torch.zeros(6, 2))) == 0.0


def test_affinity_does_not_depend_on_the_basis(generator: torch.Generator) -> None:
    U, V = (torch.linalg.qr(torch.randn(5, 8, 3, dtype=torch.float64, generator=generator))[0] for _ in range(2))
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=generator))[0]
    assert torch.allclose(subspace_affinity(U @ turn, V), subspace_affinity(U, V))
    assert torch.allclose(subspace_affinity(V, U), subspace_affinity(U, V))
