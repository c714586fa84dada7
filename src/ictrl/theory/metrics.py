"""The numbers that a learner is judged by: accuracy, forgetting, true probabilities, drawings that look real."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ictrl.errors import InputError
from ictrl.shapes import Float, Int


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
    confusion: list[dict[int, int]] | None = None
    """after the newest task: of each class, how often it was taken for which, by their places among labels ascending"""


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


def confusion(true: Sequence[int], predicted: Sequence[int], classes: Sequence[int]) -> list[dict[int, int]]:
    """Of each class, how often it was taken for which: by place in `classes`, no more entries than images.

    >>> confusion([7, 7, 9], [7, 9, 9], classes=[7, 9])
    [{0: 1, 1: 1}, {1: 1}]
    """
    place = {label: i for i, label in enumerate(classes)}
    counts: list[dict[int, int]] = [{} for _ in classes]
    for (row, column), count in sorted(Counter(zip(true, predicted)).items(), key=lambda item: place[item[0][1]]):
        counts[place[row]][place[column]] = count
    return counts


def confusion_table(counts: Sequence[Mapping[int, int]]) -> NDArray[np.int64]:
    """The same as a matrix: a row per class, a column per class that it was taken for.

    >>> confusion_table([{0: 1, 1: 1}, {1: 1}]).tolist()
    [[1, 1], [0, 1]]
    """
    table = np.zeros((len(counts), len(counts)), np.int64)
    for row, taken in enumerate(counts):
        table[row, list(taken)] = list(taken.values())
    return table


@dataclass(frozen=True)
class Reliability:
    """How true probabilities are: images by how sure they were classified, in bins of equal width from 0 to 1."""

    images: list[int]
    """in each bin"""
    confidence: list[float]
    """mean probability of the class predicted, in each bin; 0 in an empty one"""
    accuracy: list[float]
    """share that is right, in each bin; 0 in an empty one"""

    @property
    def ece(self) -> float:
        """The expected calibration error: |accuracy − confidence|, averaged over all images."""
        gaps = (n * abs(a - c) for n, c, a in zip(self.images, self.confidence, self.accuracy))
        return sum(gaps) / sum(self.images)


def reliability(probabilities: Float[Tensor, "n k"], rows: Int[Tensor, " n"], bins: int = 15) -> Reliability:
    """Of the probabilities of classes for images whose own classes are these columns.

    >>> found = reliability(torch.tensor([[0.9, 0.1], [0.7, 0.3]]), torch.tensor([0, 1]), bins=2)
    >>> found.images, found.accuracy, round(found.ece, 3)
    ([0, 2], [0.0, 0.5], 0.3)
    """
    if not len(probabilities):
        raise ValueError("Expected at least one image but got none.")
    sure, predicted = probabilities.double().max(1)
    right = (predicted == rows.to(predicted.device)).double()
    places = (sure * bins).ceil().long().clamp(
        1, bins
    ) - 1  # a bin holds its upper end, so that certainty is in the last
    images = places.bincount(minlength=bins)
    means = [places.bincount(values, minlength=bins) / images.clamp(min=1) for values in (sure, right)]
    return Reliability(images.tolist(), *(mean.tolist() for mean in means))


def auroc(known: Float[Tensor, " n"], strange: Float[Tensor, " m"]) -> float:
    """The chance that a stranger has a larger value than a known image; a tie counts half.

    >>> auroc(torch.tensor([0.1, 0.4]), torch.tensor([0.3, 0.9]))
    0.75
    """
    ordered = known.double().sort().values
    values = strange.double()
    below = torch.searchsorted(ordered, values) + torch.searchsorted(ordered, values, right=True)
    return float(below.double().mean()) / (2 * len(known))


def frechet_distance(one: Float[Tensor, "n d"], other: Float[Tensor, "m d"]) -> float:
    """‖μ₁ − μ₂‖² + tr(Σ₁ + Σ₂ − 2(Σ₁Σ₂)^½), between the Gaussians that have the moments of two sets of features.

    With Σ = FᵀF, tr (Σ₁Σ₂)^½ is the sum of the singular values of F₁F₂ᵀ. So no root of a matrix is taken, and
    covariances may be singular, as those of fewer features than dimensions are. A distance from few features is too
    large: compare only distances from equally many.

    >>> frechet_distance(torch.tensor([[0.0], [2.0]]), torch.tensor([[3.0], [5.0]]))
    9.0
    """
    if min(len(one), len(other)) < 2:
        raise InputError(f"Expected at least 2 images in each set but got {len(one)} and {len(other)}.")
    mean_1, F_1 = _moments(one)
    mean_2, F_2 = _moments(other)
    common = torch.linalg.svdvals(F_1 @ F_2.T).sum()
    distance = (mean_1 - mean_2).square().sum() + F_1.square().sum() + F_2.square().sum() - 2 * common
    return max(float(distance), 0.0)  # of equal sets, rounding can leave a little less than nothing


def _moments(features: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " d"], Float[Tensor, "q d"]]:
    """The mean, and F with FᵀF the covariance, in float64; q ≤ d."""
    Z = features.double()
    n, d = Z.shape
    centred = (Z - Z.mean(0)) / (n - 1) ** 0.5
    return Z.mean(0), torch.linalg.qr(centred).R if n > d else centred


def inception_score(probabilities: Float[Tensor, "n k"], splits: int = 10) -> tuple[float, float]:
    """exp E KL(p(y|x) ‖ p(y)) from the class probabilities of images: mean and deviation over equal splits.

    From 1, where all images look the same or like nothing in particular, to k. Images must come in random order.

    >>> inception_score(torch.eye(4).repeat(3, 1), splits=1)
    (4.0, 0.0)
    """
    if not 1 <= splits <= len(probabilities):
        raise ValueError(f"Expected from 1 to {len(probabilities)} splits but got {splits}.")
    scores = []
    for part in probabilities.double().tensor_split(splits):
        marginal = part.mean(0)
        divergence = (torch.xlogy(part, part) - torch.xlogy(part, marginal)).sum(1)  # (n,), 0 log 0 = 0
        scores.append(divergence.mean().exp())
    every = torch.stack(scores)
    return float(every.mean()), float(every.std(correction=0))


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
