"""Wide features: the activations of an encoder's stages, pooled, reduced and put side by side.

Thousands of numbers φ(x) where the encoder's own features are a hundred. Each stage is pooled to a few cells per side.
What is kept of classes grows with the square of their number, so that they may be reduced:

    channels   the channels of each stage to their first principal directions (a small matrix for all cells)
    pca        all numbers together to their first principal directions
    random     all numbers together by a random matrix, which a seed gives back and nobody has to keep

Principal directions are those of the first task; their matrices are kept in half precision and count as memory.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from ictrl.parallel.sharing import shared, total
from ictrl.shapes import Float
from ictrl.theory.statistics import spectrum

Kind = Literal["none", "channels", "pca", "random"]
RANDOM_SEED = 0  # of the random matrix: any would do, as long as it stays the same


def pooled(stages: list[Tensor], pools: tuple[int, ...]) -> list[Float[Tensor, "n _ _ _"]]:
    """Each stage pooled to at most so many cells per side; 0 leaves it out. One number holds for all stages."""
    return [
        adaptive_avg_pool2d(stage.float(), min(cells, stage.shape[-1]))
        for stage, cells in zip(stages, per_stage(pools, len(stages)), strict=True)
        if cells
    ]


def per_stage(values: tuple[int, ...], stages: int) -> tuple[int, ...]:
    """One value for all stages, or one for each."""
    return values * stages if len(values) == 1 else values


@dataclass(frozen=True)
class Reduction:
    """From pooled stages to φ."""

    kind: Kind = "none"
    sizes: tuple[int, ...] = ()
    """numbers that remain at most: channels of each stage, or of all together"""
    matrices: tuple[Float[Tensor, "_ _"], ...] = ()
    """principal directions as columns, half precision; none where nothing has to be kept"""

    @classmethod
    def fitted(cls, kind: Kind, sizes: tuple[int, ...], parts: Iterable[list[Float[Tensor, "_ _ _ _"]]]) -> "Reduction":
        """To the stages of the first task's images, which come in parts; they are looked at where it is needed."""
        if kind == "channels":
            cells = ([Spread.of(stage.permute(0, 2, 3, 1).flatten(0, 2)) for stage in stages] for stages in parts)
            spreads = reduce(lambda these, more: [one + other for one, other in zip(these, more)], cells)
            sized = zip(spreads, per_stage(sizes, len(spreads)), strict=True)
            return cls(kind, sizes, tuple(spread.directions(size) for spread, size in sized))
        if kind == "pca":
            whole = reduce(Spread.__add__, (Spread.of(_side_by_side(stages)) for stages in parts))
            return cls(kind, sizes, (whole.directions(sizes[0]),))
        return cls(kind, sizes)

    def apply(self, stages: list[Float[Tensor, "n _ _ _"]]) -> Float[Tensor, "n D"]:
        """φ of images."""
        if self.kind == "channels":
            reduced = (torch.einsum("ncij,ck->nkij", s, V.float()) for s, V in zip(stages, self.matrices, strict=True))
            return _side_by_side(list(reduced))
        phi = _side_by_side(stages)
        if self.kind == "pca":
            return phi @ self.matrices[0].float()
        if self.kind == "random" and self.sizes[0] < phi.shape[1]:
            return phi @ _random_matrix(phi.shape[1], self.sizes[0], phi.device)
        return phi


def _side_by_side(stages: list[Float[Tensor, "n _ _ _"]]) -> Float[Tensor, "n D"]:
    return torch.cat([stage.flatten(1) for stage in stages], dim=1)


@dataclass(frozen=True)
class Spread:
    """How rows spread around their mean; of two sets of rows it adds up."""

    n: int
    mean: Float[Tensor, " many"]
    scatter: Float[Tensor, "many many"]

    @classmethod
    def of(cls, x: Float[Tensor, "n many"]) -> "Spread":
        """Of these rows; there may be none."""
        mean = x.mean(0) if len(x) else x.sum(0)
        centred = x - mean
        return cls(len(x), mean, centred.T @ centred)

    def __add__(self, other: "Spread") -> "Spread":
        n, apart = max(1, self.n + other.n), other.mean - self.mean
        between = self.n * other.n / n * torch.outer(apart, apart)
        return Spread(n, self.mean + other.n / n * apart, self.scatter + other.scatter + between)

    def everywhere(self) -> "Spread":
        """Of the rows of all processes that share them."""
        if shared() is None:
            return self
        n = int(total(torch.tensor(self.n)))
        mean = (total(self.n * self.mean.double()) / n).to(self.mean.dtype)
        apart = self.mean - mean
        return Spread(n, mean, total(self.scatter + self.n * torch.outer(apart, apart)))

    def directions(self, size: int) -> Float[Tensor, "many few"]:
        """The first principal ones, as columns, in half precision."""
        whole = self.everywhere()
        return spectrum(whole.scatter / whole.n)[1][:, :size].half()


@lru_cache(maxsize=1)  # drawing it takes longer than using it, and a recorded step can not draw on the CPU
def _random_matrix(D: int, size: int, device: torch.device) -> Float[Tensor, "D size"]:
    generator = torch.Generator().manual_seed(RANDOM_SEED)  # on the CPU: the same on every device
    return (torch.randn(D, size, generator=generator) / size**0.5).to(device)
