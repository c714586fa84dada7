"""From an accuracy matrix to the three numbers that class-incremental learning is judged by."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Scores:
    """`matrix[t][j]` is the accuracy on the test images of task j after task t, None where j is still to come."""

    seen: list[float]
    """accuracy over all classes seen so far, after each task"""
    last: float
    """the last of these"""
    average: float
    """their mean"""
    forgetting: float
    """mean over the earlier tasks of how far their accuracy has fallen from its best"""
    matrix: list[list[float | None]]


def summarise(rows: Sequence[Sequence[float]], test_images: Sequence[int]) -> Scores:
    """Scores from the rows of a lower triangular accuracy matrix and the number of test images of each task.

    >>> scores = summarise([[1.0], [0.5, 0.9]], test_images=[10, 30])
    >>> round(scores.last, 3), round(scores.average, 3), scores.forgetting
    (0.8, 0.9, 0.5)
    """
    tasks = len(rows)
    if not tasks or any(len(row) != t + 1 for t, row in enumerate(rows)) or len(test_images) < tasks:
        raise ValueError(f"Expected a row of t accuracies after task t but got rows of {[len(row) for row in rows]}.")
    # each image counts once, whatever the sizes of the tasks
    seen = [sum(a * n for a, n in zip(row, test_images)) / sum(test_images[: len(row)]) for row in rows]
    drops = [max(rows[t][j] for t in range(j, tasks - 1)) - rows[-1][j] for j in range(tasks - 1)]
    return Scores(
        seen=seen,
        last=seen[-1],
        average=sum(seen) / tasks,
        forgetting=sum(drops) / len(drops) if drops else 0.0,
        matrix=[[*row, *[None] * (tasks - len(row))] for row in rows],
    )


def confusion(true: Sequence[int], predicted: Sequence[int], classes: Sequence[int]) -> list[list[int]]:
    """How often each class (row) was taken for each class (column), in the order of `classes`.

    >>> confusion([7, 7, 9], [7, 9, 9], classes=[7, 9])
    [[1, 1], [0, 1]]
    """
    place = {label: i for i, label in enumerate(classes)}
    counts = [[0] * len(classes) for _ in classes]
    for row, column in zip(true, predicted):
        counts[place[row]][place[column]] += 1
    return counts
