"""What the learner keeps of a class: moments, never an image and never the feature of one.

Two descriptions of a class, both linear, so that drift of the encoder can be undone linearly (`compensation`):

- the paper's r *direction Gaussians* (its Algorithm 1): along each of the class's top principal directions, the mean
  and covariance of the k features that reach furthest along it. They are sampled to replay the class (Algorithm 2);
- the class's own count, mean and covariance, from which the classifier is made.

A covariance of k features has rank k−1 at most, so a direction stores a factor F of that many rows, Σ = FᵀF, built
from eigenvectors: a rotation of the k features that no longer holds any one of them as such. But it spans the same
dimensions, and where two directions share a feature, what their Gaussians span meets there: with k small beside d, in
that one point. So sets are disjoint, unless the recipe asks for the paper's, and of at least ten (`few_images.py`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from ictrl.memory.few_images import LEAST
from ictrl.shapes import Float, Int
from ictrl.theory.statistics import ClassStatistics, covariance_factors, spectrum

LABEL_BYTES = 8


@dataclass(frozen=True)
class Gaussians:
    """A batch of low-rank Gaussians N(μ, FᵀF), each with the class it belongs to."""

    means: Float[Tensor, "g d"]
    factors: Float[Tensor, "g q d"]
    labels: Int[Tensor, " g"]

    def sample(self, samples: int, generator: torch.Generator) -> tuple[Float[Tensor, "n d"], Int[Tensor, " n"]]:
        """`samples` features from each Gaussian, with their classes (Algorithm 2); n = g · samples."""
        g, q, d = self.factors.shape
        noise = torch.randn(g, samples, q, dtype=self.means.dtype, device=self.means.device, generator=generator)
        Z = self.means[:, None] + noise @ self.factors  # (g, samples, d)
        return Z.reshape(g * samples, d), self.labels.repeat_interleave(samples)


@dataclass(frozen=True)
class ClassMemory(ClassStatistics):
    """All that remains of one class."""

    direction_means: Float[Tensor, "r d"]
    direction_factors: Float[Tensor, "r q d"]

    def tensors(self) -> dict[str, Tensor]:
        """All that is stored, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        r, d = self.direction_means.shape
        return f"ClassMemory({int(self.count)} images, {r} directions in {d} dimensions, {self.nbytes} bytes)"

    @property
    def nbytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors().values())

    def moved(self, W: Float[Tensor, "d d"]) -> "ClassMemory":
        """The same class after every feature z has moved to Wz."""
        return replace(
            self,
            mean=W @ self.mean,
            covariance=W @ self.covariance @ W.T,
            direction_means=self.direction_means @ W.T,
            direction_factors=self.direction_factors @ W.T,
        )


def form_class_memory(Z: Float[Tensor, "n d"], directions: int, neighbours: int, disjoint: bool = True) -> ClassMemory:
    """Algorithm 1 for one class: moments of the class, and of the top `neighbours` features on each direction.

    Directions are eigenvectors of the uncentred ZᵀZ, and a feature's reach is its absolute projection: −v is as much a
    principal direction as v. A feature that one direction took is not there for the next, if sets are disjoint. Fewer
    features than asked for give fewer directions or smaller sets.

    Sets that are nearly the whole class give away the few that they leave out: n times the class's mean less k times
    theirs is the sum of these. So they leave out ten or none.
    """
    own = ClassStatistics.of(Z)
    n, d = Z.shape
    r, k = set_sizes(n, min(directions, n, d), neighbours, disjoint)
    _, principal = spectrum(Z.T @ Z)
    reach = (Z @ principal[:, :r]).abs()
    if disjoint and k < n:
        taken = []
        for i in range(r):
            taken.append(reach[:, i].topk(k).indices)
            reach[taken[-1]] = -1.0
        nearest = torch.stack(taken)
    else:
        nearest = reach.topk(k, dim=0).indices.T
    chosen = Z[nearest]  # (r, k, d)
    means = chosen.mean(1)
    factors = covariance_factors(chosen - means[:, None])
    return ClassMemory(own.count, own.mean, own.covariance, direction_means=means, direction_factors=factors)


def set_sizes(n: int, r: int, k: int, disjoint: bool) -> tuple[int, int]:
    """How many sets there are of a class of n, and of how many features: at most r of k.

    >>> [set_sizes(n, 12, 40, disjoint=True) for n in (5000, 96, 29)]
    [(12, 40), (8, 10), (12, 29)]
    """
    if not disjoint:
        k = min(k, n)
        near = 0 < n - k < LEAST  # the class: ten are left out, or none
        return r, (n - LEAST if n >= 2 * LEAST else n) if near else k
    if n < 3 * LEAST:  # no room for two sets and ten more: all directions are the class itself
        return r, n
    k = max(LEAST, min(k, (n - LEAST) // r))
    return min(r, (n - LEAST) // k), k


def merged(stored: ClassMemory, seen: ClassMemory, generator: torch.Generator) -> ClassMemory:
    """One memory of what was stored of a class and of what was seen of it again, weighted by their counts.

    Count, mean and covariance are exactly those of both sets together. So are the direction Gaussians' in kind: each of
    the r is drawn from both with these odds, and keeps its own moments.
    """
    both = stored.joined(seen)
    share = (seen.count / both.count).to(seen.mean.dtype)
    r = min(len(stored.direction_means), len(seen.direction_means))
    from_seen = torch.rand(r, generator=generator, device=seen.mean.device) < share
    rank = max(stored.direction_factors.shape[1], seen.direction_factors.shape[1])
    seen_factors, stored_factors = (_with_rows(kept.direction_factors[:r], rank) for kept in (seen, stored))
    return ClassMemory(
        both.count,
        both.mean,
        both.covariance,
        direction_means=torch.where(from_seen[:, None], seen.direction_means[:r], stored.direction_means[:r]),
        direction_factors=torch.where(from_seen[:, None, None], seen_factors, stored_factors),
    )


class Memory(Mapping[int, ClassMemory]):
    """The classes learned so far, by label, in the order in which they were learned."""

    def __init__(self, classes: Mapping[int, ClassMemory] | None = None) -> None:
        self._classes = dict(classes or {})

    def __contains__(self, label: object) -> bool:
        return label in self._classes

    def __getitem__(self, label: int) -> ClassMemory:
        return self._classes[label]

    def __iter__(self) -> Iterator[int]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def __repr__(self) -> str:
        return f"Memory({len(self)} classes, {self.nbytes} bytes)"

    @property
    def nbytes(self) -> int:
        """Bytes of every stored number, labels included."""
        return sum(memory.nbytes + LABEL_BYTES for memory in self.values())

    def with_classes(self, classes: Mapping[int, ClassMemory]) -> "Memory":
        """This memory and new classes."""
        return Memory({**self._classes, **classes})

    def without(self, place: int) -> "Memory":
        """This memory less the class in that place."""
        return Memory({label: kept for i, (label, kept) in enumerate(self.items()) if i != place})

    def moved(self, W: Float[Tensor, "d d"]) -> "Memory":
        """This memory after every feature z has moved to Wz."""
        return Memory({label: memory.moved(W) for label, memory in self.items()})

    def gaussians(self) -> Gaussians:
        """All direction Gaussians as one batch; classes are numbered in this memory's order."""
        counts = [len(memory.direction_means) for memory in self.values()]
        device = next(iter(self.values())).mean.device
        rank = max(memory.direction_factors.shape[1] for memory in self.values())
        return Gaussians(
            means=torch.cat([memory.direction_means for memory in self.values()]),
            factors=torch.cat([_with_rows(memory.direction_factors, rank) for memory in self.values()]),
            labels=torch.arange(len(self), device=device).repeat_interleave(torch.tensor(counts, device=device)),
        )

    def state(self) -> dict[str, Tensor]:
        """Every stored tensor under the name `LABEL.field`."""
        return {
            f"{label}.{name}": tensor for label, memory in self.items() for name, tensor in memory.tensors().items()
        }

    @classmethod
    def from_state(cls, labels: list[int], state: Mapping[str, Tensor], feature_dim: int) -> "Memory":
        """The inverse of `state`; labels give the order. KeyError if a tensor is missing, ValueError if one is odd."""
        names = [field.name for field in fields(ClassMemory)]
        classes = {label: ClassMemory(**{name: state[f"{label}.{name}"] for name in names}) for label in labels}
        for label, kept in classes.items():
            r, d = len(kept.direction_means), feature_dim
            q = kept.direction_factors.shape[1] if kept.direction_factors.ndim == 3 else -1
            shapes = [tuple(tensor.shape) for tensor in kept.tensors().values()]
            if shapes != [(), (d,), (d, d), (r, d), (r, q, d)]:
                raise ValueError(f"the memory of class {label} has shapes {shapes} for features of dimension {d}")
            count, *others = (tensor.dtype for tensor in kept.tensors().values())
            if count != torch.int64 or set(others) not in ({torch.float32}, {torch.float64}):
                kinds = [str(kind).removeprefix("torch.") for kind in (count, *others)]
                raise ValueError(f"the memory of class {label} has numbers of types {', '.join(kinds)}")
        return cls(classes)


def _with_rows(factors: Float[Tensor, "r q d"], rows: int) -> Float[Tensor, "r rows d"]:
    """The factors with rows of zeros added: another class may need more of them."""
    return torch.nn.functional.pad(factors, (0, 0, 0, rows - factors.shape[1]))
