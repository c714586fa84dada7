"""Statistics of classes: counts, means, covariances, second moments and spectra. One home for all of it.

One convention: a covariance is Σ (z − μ)(z − μ)ᵀ / (n − 1), the unbiased one, wherever it comes from. One place for
every eigendecomposition: `spectrum`, the largest value first, on the CPU, where matrices of this size are done sooner.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ictrl.errors import InputError
from ictrl.shapes import Float, Int

# Means and covariances


@dataclass(frozen=True)
class ClassStatistics:
    """Count, mean and covariance of a class's features."""

    count: Int[Tensor, ""]
    mean: Float[Tensor, " d"]
    covariance: Float[Tensor, "d d"]

    @classmethod
    def of(cls, Z: Float[Tensor, "n d"]) -> "ClassStatistics":
        """Those of features, at least two: the mean of one would be that feature itself.

        >>> found = ClassStatistics.of(torch.tensor([[0.0, 1.0], [2.0, 1.0]]))
        >>> found.mean.tolist(), found.covariance.tolist()
        ([1.0, 1.0], [[2.0, 0.0], [0.0, 0.0]])
        """
        n, d = Z.shape
        if n < 2:
            raise InputError(
                f"Expected at least 2 features of a class but got {n}: the mean of one is that feature itself."
            )
        return cls(torch.tensor(n, device=Z.device), Z.mean(0), torch.cov(Z.T).reshape(d, d))

    @cached_property
    def spectrum(self) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
        """The variances along the principal components, largest first, and these as columns."""
        values, vectors = spectrum(self.covariance)
        return values.clamp(min=0), vectors

    @property
    def second_moment(self) -> Float[Tensor, "d d"]:
        """The mean of zzᵀ over the class, up to the n − 1 of its covariance: Σ + μμᵀ."""
        return self.covariance + torch.outer(self.mean, self.mean)

    def joined(self, other: "ClassStatistics") -> "ClassStatistics":
        """Exactly the statistics of both sets of features together."""
        n, m = self.count, other.count
        share = (m / (n + m)).to(other.mean.dtype)
        apart = other.mean - self.mean
        return ClassStatistics(
            count=n + m,
            mean=self.mean + share * apart,
            covariance=((n - 1) * self.covariance + (m - 1) * other.covariance + n * share * apart.outer(apart))
            / (n + m - 1),
        )


@dataclass(frozen=True)
class Moments:
    """The statistics of several classes, labels ascending: what a classifier is made of."""

    classes: dict[int, ClassStatistics]

    @classmethod
    def of_classes(cls, classes: Mapping[int, ClassStatistics]) -> "Moments":
        """Those that were stored: the *memory* protocol."""
        if not classes:
            raise InputError("Expected a memory of at least one class but got an empty one: learn a task first.")
        return cls({label: classes[label] for label in sorted(classes)})

    @classmethod
    def of_features(cls, Z: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> "Moments":
        """Those of the features of images of every class, old ones included: the *reencoded* protocol."""
        return cls({label: ClassStatistics.of(Z[y == label]) for label in y.unique().tolist()})

    def among(self, labels: Collection[int]) -> "Moments":
        """Those of these classes alone."""
        return Moments({label: found for label, found in self.classes.items() if label in labels})

    @property
    def labels(self) -> Int[Tensor, " k"]:
        return torch.tensor(list(self.classes), device=self.means.device)

    @property
    def means(self) -> Float[Tensor, "k d"]:
        return torch.stack([found.mean for found in self.classes.values()])

    @property
    def covariances(self) -> Float[Tensor, "k d d"]:
        return torch.stack([found.covariance for found in self.classes.values()])

    def leading_bases(self, components: int) -> Float[Tensor, "k d components"]:
        """The leading principal components of each class as columns; zeros for those that a class does not have."""
        values, vectors = map(torch.stack, zip(*(found.spectrum for found in self.classes.values())))
        return (vectors * present(values)[:, None, :])[..., :components]


# Spectra


def spectrum(S: Float[Tensor, "d d"]) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"]]:
    """Eigenvalues of a symmetric matrix, the largest first, and its eigenvectors as columns.

    An eigenvector's sign is arbitrary; here its largest entry is positive, so that it is the same on every machine.
    """
    values, vectors = torch.linalg.eigh(S.cpu())
    vectors = vectors.flip(1)
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return values.flip(0).to(S.device), (vectors * largest.sign()).to(S.device)


def present(values: Float[Tensor, "*k d"]) -> Tensor:
    """Which eigenvalues, the largest first, are more than rounding: a class has no more components than these."""
    d = values.shape[-1]
    return values > d * torch.finfo(values.dtype).eps * values[..., :1]


def covariance_factors(centred: Float[Tensor, "r k d"]) -> Float[Tensor, "r q d"]:
    """F with FᵀF the covariance of each set of k centred features, with as many rows as the largest rank among them.

    Rows are principal components: a rotation of the features that no longer holds any one of them as such.
    """
    k, d = centred.shape[1:]
    _, singular, vectors = torch.linalg.svd(centred.cpu(), full_matrices=False)  # (r, min(k, d)), (r, min(k, d), d)
    scale = singular.amax(dim=1, keepdim=True)
    kept = singular > max(k, d) * torch.finfo(singular.dtype).eps * scale
    rank = int(kept.sum(1).max())
    factors = vectors * (singular * kept / max(k - 1, 1) ** 0.5)[..., None]
    return factors[:, :rank].contiguous().to(centred.device)


# Second moments of every class at once, for the rates


@dataclass(frozen=True)
class ClassLayout:
    """Rows of features put into equal blocks of one class each, so that one batched product serves all classes.

    It depends on the labels alone: features that share their labels share it.
    """

    counts: Float[Tensor, " k"]
    """n_j, rows of each class"""
    slot: Int[Tensor, " n"]
    """where each row goes among the rows of all blocks"""
    block_class: Int[Tensor, " blocks"]
    """which class each block counts for; blocks that stay empty hold zeros and may count for any"""
    size: int
    """rows of a block"""


def class_layout(y: Int[Tensor, " n"], classes: int, d: int, dtype: torch.dtype = torch.float32) -> ClassLayout:
    """The layout of rows with labels 0 … classes−1, in any order, for features of dimension d.

    With blocks of fewer rows than d, padding costs at most k·d rows and the moments n·d² + k·d³ operations; larger ones
    are taken only where they waste less. How many there are follows from shapes: on a GPU nothing has to be read back.
    """
    n, device = len(y), y.device
    size = max(1, d // 2)
    blocks = n // size + classes  # Σ ceil(n_j / size) is at most this
    ascending, order = y.sort(stable=True)
    names = torch.arange(classes, dtype=y.dtype, device=device)
    after = torch.searchsorted(ascending, names, right=True)  # rows up to a class's last
    before = torch.nn.functional.pad(after[:-1], (1, 0))
    counts = after - before
    if device.type == "cpu":  # looking at numbers is free here
        if n and not (int(ascending[0]) >= 0 and int(ascending[-1]) < classes):
            raise InputError(
                f"Expected labels from 0 to {classes - 1} but got {int(y.min())} to {int(y.max())}: "
                "number the classes from 0, or raise `classes`."
            )
        largest = int(counts.max())
        if largest * classes <= blocks * size:  # classes of nearly one size: a block each wastes less
            size, blocks = max(1, largest), classes
    of_class = (counts + size - 1) // size  # blocks of each class
    blocks_after = of_class.cumsum(0)
    # a row's slot: where its class's blocks begin, and its rank within the class
    offset = (blocks_after - of_class) * size - before
    slot = torch.empty_like(order).index_copy_(0, order, torch.arange(n, device=device) + offset[ascending.long()])
    block_class = torch.searchsorted(blocks_after, torch.arange(blocks, device=device), right=True)
    return ClassLayout(counts.to(dtype), slot, block_class.clamp_(max=classes - 1), size)


def class_moments(Z: Float[Tensor, "*sets n d"], layout: ClassLayout) -> Float[Tensor, "*sets k d d"]:
    """Second moments Sⱼ = ZⱼᵀZⱼ of every class in one pass over the rows; zeros for an empty class.

    Several sets of features of the same classes, row by row, are done at once.

    >>> Z = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    >>> layout = class_layout(torch.tensor([0, 1, 0]), classes=2, d=2)
    >>> class_moments(Z, layout)[0].tolist(), layout.counts.tolist()
    ([[10.0, 0.0], [0.0, 0.0]], [2.0, 1.0])
    """
    if Z.shape[-2] != len(layout.slot):
        raise InputError(f"Expected one label a row but got {len(layout.slot)} labels for {Z.shape[-2]} rows.")
    if Z.dtype in (torch.bfloat16, torch.float16):
        Z = Z.float()  # half precision has too few digits for a log-determinant
    return _ClassMoments.apply(Z, layout)


class _ClassMoments(torch.autograd.Function):
    """ZⱼᵀZⱼ by blocks; the gradient for a row z of class j is (Gⱼ + Gⱼᵀ)z."""

    @staticmethod
    def forward(ctx: Any, Z: Tensor, layout: ClassLayout) -> Tensor:
        *sets, _, d = Z.shape
        k, blocks = len(layout.counts), len(layout.block_class)
        padded = Z.new_zeros(*sets, blocks * layout.size, d).index_copy_(-2, layout.slot, Z)
        padded = padded.view(*sets, blocks, layout.size, d)
        ctx.save_for_backward(padded, layout.block_class, layout.slot)
        return Z.new_zeros(*sets, k, d, d).index_add_(-3, layout.block_class, padded.transpose(-1, -2) @ padded)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        padded, block_class, slot = ctx.saved_tensors
        symmetric = (grad + grad.transpose(-1, -2)).index_select(-3, block_class)
        return (padded @ symmetric).flatten(-3, -2).index_select(-2, slot), None
