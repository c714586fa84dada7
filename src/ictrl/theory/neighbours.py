"""Nearest neighbours between two sets of vectors, which may be large: images as pixels, or features of them.

Distances are computed in blocks, so that n×m of them are never held at once, and in float64: of vectors of pixels they
are exact, and vectors that differ by no more than rounding are at distance 0.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from ictrl.errors import InputError
from ictrl.shapes import Float, Int, Shaped

BLOCK = 2048  # rows and columns of a block: 32 MiB of distances
WIDE = 2**24  # numbers of a block of vectors: 128 MiB
ROUNDING = 1e-12  # of ‖a‖² + ‖b‖²: squared distances below this share are taken for 0


def nearest(
    Z: Shaped[Tensor, "n d"], others: Shaped[Tensor, "m d"], k: int = 1
) -> tuple[Int[Tensor, "n k"], Float[Tensor, "n k"]]:
    """Rows of the k nearest of the others, and the Euclidean distances to them, the nearest first.

    Vectors may be of any number type. What is computed is computed where Z lies, and comes back on the CPU.

    >>> rows, distances = nearest(torch.tensor([[0.0], [9.0]]), torch.tensor([[1.0], [5.0], [-3.0]]), k=2)
    >>> rows.tolist(), distances.tolist()
    ([[0, 2], [1, 0]], [[1.0, 3.0], [4.0, 8.0]])
    """
    if not 1 <= k <= len(others):
        raise InputError(f"Expected at least {k} images to search but got {len(others)}.")
    rows, squares = [], []
    for parts in squared_distances(Z, others):
        best = place = None
        for first, block in parts:
            found = block.topk(min(k, block.shape[1]), dim=1, largest=False)
            at = found.indices + first
            if best is None or place is None:
                best, place = found.values, at
            else:
                best, place = torch.cat([best, found.values], 1), torch.cat([place, at], 1)
                best, order = best.sort(dim=1, stable=True)  # of equals, the earlier row
                best, place = best[:, :k], place.gather(1, order)[:, :k]
        assert best is not None
        assert place is not None
        rows.append(place.cpu())
        squares.append(best.cpu())
    if not rows:
        return torch.empty(0, k, dtype=torch.int64), torch.empty(0, k, dtype=torch.float64)
    return torch.cat(rows), torch.cat(squares).sqrt()


def squared_distances(
    Z: Shaped[Tensor, "n d"], others: Shaped[Tensor, "m d"]
) -> Iterator[Iterator[tuple[int, Float[Tensor, "rows columns"]]]]:
    """Squared distances in blocks of rows, each an iterator over its blocks of columns with the place of the first."""
    step = max(1, min(BLOCK, WIDE // max(1, Z.shape[1])))
    # distances do not change with the origin, and one in the middle loses the fewest digits
    middle = others[:step].double().mean(0).round() if len(others) else torch.zeros(Z.shape[1])
    for part in Z.split(step) if len(Z) else ():
        yield _row_of_blocks(part.double() - middle.to(part.device), others, middle, step)


def _row_of_blocks(
    A: Float[Tensor, "rows d"], others: Shaped[Tensor, "m d"], middle: Tensor, step: int
) -> Iterator[tuple[int, Float[Tensor, "rows columns"]]]:
    lengths = A.square().sum(1)
    for first in range(0, len(others), step):
        B = others[first : first + step].to(A.device).double() - middle.to(A.device)
        both = lengths[:, None] + B.square().sum(1)
        block = both - 2 * A @ B.T
        yield first, block.masked_fill_(block < ROUNDING * both, 0)
