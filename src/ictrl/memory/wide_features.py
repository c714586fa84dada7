"""Wide features: the activations of an encoder's stages, pooled, reduced and put side by side.

Thousands of numbers φ(x) where the encoder's own features are a hundred. Each stage is pooled to a few cells per side.
What is kept of classes grows with the square of their number, so that they may be reduced:

    channels   the channels of each stage to their first principal directions (a small matrix for all cells)
    pca        all numbers together to their first principal directions
    random     all numbers together by a random matrix, which a seed gives back and nobody has to keep

Principal directions are those of the first task; their matrices are kept in half precision and count as memory.
"""

from dataclasses import dataclass
from functools import lru_cache
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
    def fitted(cls, kind: Kind, sizes: tuple[int, ...], stages: list[Float[Tensor, "n _ _ _"]]) -> "Reduction":
        """To the stages of the first task's images."""
        if kind == "channels":
            per_cell = [stage.permute(0, 2, 3, 1).flatten(0, 2) for stage in stages]
            sized = zip(per_cell, per_stage(sizes, len(stages)), strict=True)
            return cls(kind, sizes, tuple(_directions(cells, size) for cells, size in sized))
        if kind == "pca":
            return cls(kind, sizes, (_directions(_side_by_side(stages), sizes[0]),))
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


def _directions(x: Float[Tensor, "n many"], size: int) -> Float[Tensor, "many few"]:
    centred = x - _mean(x)
    return spectrum(total(centred.T @ centred) / _rows(x))[1][:, :size].half()


def _mean(x: Float[Tensor, "n many"]) -> Float[Tensor, " many"]:
    """Of all rows, those of other processes too."""
    return x.mean(0) if shared() is None else (total(x.double().sum(0)) / _rows(x)).to(x.dtype)


def _rows(x: Float[Tensor, "n many"]) -> int:
    return len(x) if shared() is None else int(total(torch.tensor(len(x))))


@lru_cache(maxsize=1)  # drawing it takes longer than using it, and a recorded step can not draw on the CPU
def _random_matrix(D: int, size: int, device: torch.device) -> Float[Tensor, "D size"]:
    generator = torch.Generator().manual_seed(RANDOM_SEED)  # on the CPU: the same on every device
    return (torch.randn(D, size, generator=generator) / size**0.5).to(device)
