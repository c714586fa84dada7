"""Encodings that are kept of images, and the *concepts* that many of them become where room is short.

A concept stands for `count` encodings by their mean and the variance of each number; an encoding that is kept as it is
is a concept of one, without variances. Where a class has more vectors than its share, its concepts are clustered by
k-means, each weighted by its count, and every cluster becomes one: mean and variances are exactly those of all
encodings that it stands for.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ictrl.shapes import Bool, Float, Int

ROUNDS = 10  # of k-means


class Concepts(NamedTuple):
    """Those of all classes, in the order of learning."""

    means: Float[Tensor, "v d"]
    variances: Float[Tensor, "v d"]
    """0 for a concept of one"""
    counts: Int[Tensor, " v"]
    rows: Int[Tensor, " v"]
    """the class of each, by its place in the order of learning"""
    born: Int[Tensor, " k"]
    """the task in which each class was learned, counted from 0"""

    @classmethod
    def none(cls, d: int, device: torch.device) -> "Concepts":
        nothing, whole = torch.zeros(0, d, device=device), torch.zeros(0, dtype=torch.long, device=device)
        return cls(nothing, nothing, whole, whole, whole)

    @property
    def many(self) -> Bool[Tensor, " v"]:
        """Which stand for more than one encoding."""
        return self.counts > 1

    def of(self, row: int) -> "Concepts":
        """Those of one class."""
        mine = self.rows == row
        return self._replace(**{name: getattr(self, name)[mine] for name in ("means", "variances", "counts", "rows")})

    def with_class(self, Z: Float[Tensor, "n d"], row: int) -> "Concepts":
        """And the encodings of a class, as they are; which task it is of is not said here."""
        ones = torch.ones(len(Z), dtype=torch.long, device=Z.device)
        return self.joined(Concepts(Z, torch.zeros_like(Z), ones, ones * row, self.born[:0]))

    def joined(self, other: "Concepts") -> "Concepts":
        return Concepts(*(torch.cat(pair) for pair in zip(self, other)))

    def without(self, row: int) -> "Concepts":
        """Less a class; those behind it move up."""
        others = self.rows != row
        kept = {name: getattr(self, name)[others] for name in ("means", "variances", "counts", "rows")}
        kept["rows"] = kept["rows"] - (kept["rows"] > row).long()
        return Concepts(**kept, born=torch.cat([self.born[:row], self.born[row + 1 :]]))

    def vectors(self) -> int:
        """How many are kept: a mean each, and variances of those that stand for many."""
        return len(self.counts) + int(self.many.sum())

    def every(self, generator: torch.Generator) -> Float[Tensor, "n d"]:
        """As many encodings as there were: those that are kept, and of each concept as many as it stands for."""
        means, deviations = (part.repeat_interleave(self.counts, 0) for part in (self.means, self.variances.sqrt()))
        return means + deviations * torch.randn(means.shape, generator=generator, device=means.device)

    def sample(self, n: int, generator: torch.Generator) -> Float[Tensor, "n d"]:
        """n encodings at random, from each concept by its count."""
        chosen = torch.multinomial(self.counts.float(), n, replacement=True, generator=generator)
        noise = torch.randn(n, self.means.shape[1], generator=generator, device=self.means.device)
        return self.means[chosen] + self.variances[chosen].sqrt() * noise

    def condensed(self, clusters: int, generator: torch.Generator) -> "Concepts":
        """Those of one class as at most so many: weighted k-means, from different concepts as they come at random."""
        v, w = len(self.counts), self.counts.to(self.means.dtype)
        if v <= clusters:
            return self
        centres = self.means[torch.randperm(v, generator=generator, device=w.device)[:clusters]]
        for _ in range(ROUNDS):
            belongs = self._nearest(centres)
            weights = belongs.T @ w
            centres = torch.where(
                weights[:, None] > 0, belongs.T @ (w[:, None] * self.means) / weights.clamp(min=1)[:, None], centres
            )
        belongs = self._nearest(centres)
        belongs = belongs[:, belongs.any(0)]  # a centre that is nearest to nothing goes
        counts = belongs.T @ w
        means = belongs.T @ (w[:, None] * self.means) / counts[:, None]
        apart = self.means - belongs @ means  # of the centre that each belongs to
        variances = belongs.T @ (w[:, None] * (self.variances + apart.square())) / counts[:, None]
        rows = self.rows[:1].expand(len(counts))
        return Concepts(means, variances, counts.round().long(), rows, self.born)

    def _nearest(self, centres: Float[Tensor, "m d"]) -> Float[Tensor, "v m"]:
        """1 at the centre that is nearest to each: sums by products, which are the same every time."""
        nearest = torch.cdist(self.means, centres).argmin(1)
        return (nearest[:, None] == torch.arange(len(centres), device=nearest.device)).to(self.means.dtype)

    def within(self, vectors: int, generator: torch.Generator) -> "Concepts":
        """At most so many vectors, in equal shares: a class that has more is condensed."""
        classes = len(self.born)
        found, share = self._replace(**_empty(self)), max(2, vectors // max(classes, 1))
        for row in range(classes):
            mine = self.of(row)
            if mine.vectors() > share:
                mine = mine.condensed(share // 2, generator)
            found = found.joined(mine._replace(born=self.born[:0]))
        return found

    def tensors(self) -> dict[str, Tensor]:
        """What is kept: no variances of those that have none."""
        return {**self._asdict(), "variances": self.variances[self.many]}


def _empty(concepts: Concepts) -> dict[str, Tensor]:
    return {name: getattr(concepts, name)[:0] for name in ("means", "variances", "counts", "rows")}


def concepts_from(tensors: dict[str, Tensor], classes: int, d: int) -> Concepts:
    """The inverse of `tensors`; KeyError or ValueError if they are none of so many classes."""
    means, counts, rows, born = (tensors[name] for name in ("means", "counts", "rows", "born"))
    many = counts > 1
    expected = {"means": (len(counts), d), "variances": (int(many.sum()), d), "rows": tuple(counts.shape)}
    found = {name: tuple(tensors[name].shape) for name in expected}
    if set(tensors) != {*Concepts._fields} or found != expected or tuple(born.shape) != (classes,):
        raise ValueError(f"concepts have shapes {found} and not {expected}, or are of other classes")
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < classes:
        raise ValueError(f"rows from {int(rows.min())} to {int(rows.max())} for {classes} classes")
    if int(counts.min()) < 1 or not bool((tensors["variances"] >= 0).all()):
        raise ValueError("counts or variances below what they can be")
    variances = torch.zeros_like(means)
    variances[many] = tensors["variances"].to(means.dtype)
    return Concepts(means, variances, counts, rows, born)
