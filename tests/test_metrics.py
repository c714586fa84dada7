"""Three numbers from an accuracy matrix."""

import pytest

from ictrl.metrics import summarise

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
