"""From an accuracy matrix to the three numbers that class-incremental learning is judged by; affinity of subspaces."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


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


def subspace_affinity(U: Float[Tensor, "*k d q"], V: Float[Tensor, "*k d p"]) -> Float[Tensor, "*k"]:
    """How far two subspaces lie within each other: ‖UᵀV‖_F² / min(q, p), the mean squared cosine of the angles between.

    1 if one contains the other, 0 if they are orthogonal, about max(q, p) / d if they have nothing to do with each
    other. The columns of U and V are orthonormal; columns of zeros do not count, so that bases of fewer components can
    stand in a batch. A basis of nothing has affinity 0 with everything.

    >>> import torch
    >>> x, y, z = torch.eye(3).split(1, dim=1)
    >>> float(subspace_affinity(torch.cat([x, y], 1), torch.cat([y, z], 1)))
    0.5
    """
    shared = (U.mT @ V).square().sum((-2, -1))
    fewer = U.square().sum((-2, -1)).minimum(V.square().sum((-2, -1)))  # ‖U‖_F² is the number of its columns
    return (shared / fewer.clamp(min=1)).clamp(0, 1)
