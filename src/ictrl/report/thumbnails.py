"""Tables of small pictures: a row per class, each cell a few pictures as one PNG."""

from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from ictrl.report.svg import data_uri
from ictrl.shapes import UInt8

BETWEEN = 128  # grey of the lines between pictures, right in light and in dark
SMALLEST = 64  # pixels that a cell takes on the page, at least
GAP = 4  # pixels between the cells of a file


@dataclass(frozen=True)
class Cell:
    """A few pictures as one."""

    alt: str
    """what is to be seen, in words"""
    pixels: NDArray[np.uint8]
    """(h, w) or (h, w, 3)"""

    @cached_property
    def uri(self) -> str:
        """The picture for a page."""
        return data_uri(to_png(self.pixels))

    @property
    def height(self) -> int:
        """Pixels on the page: enlarged by a whole number, so that pixels stay squares."""
        return self.pixels.shape[0] * self._factor

    @property
    def width(self) -> int:
        """Pixels on the page."""
        return self.pixels.shape[1] * self._factor

    @property
    def _factor(self) -> int:
        return max(1, -(-SMALLEST // self.pixels.shape[0]))


@dataclass(frozen=True)
class PictureTable:
    """Pictures of each class in a row, in the order of learning; None where there is nothing to show yet."""

    title: str
    caption: str
    columns: list[str]
    rows: list[tuple[str, list[Cell | None]]]
    left_out: int = 0
    """classes that there was no room for"""

    def limited(self, most: int) -> "PictureTable":
        """With so many of its classes, from the first to the last."""
        if most >= len(self.rows):
            return self
        chosen = [round(i * (len(self.rows) - 1) / max(1, most - 1)) for i in range(most)]
        return replace(self, rows=[self.rows[i] for i in chosen], left_out=self.left_out + len(self.rows) - len(chosen))

    @property
    def file(self) -> bytes:
        """All of it as one PNG, for a paper."""
        cells = [[cell for cell in column if cell is not None] for column in zip(*(row for _, row in self.rows))]
        height = max(cell.pixels.shape[0] for column in cells for cell in column)
        widths = [max((cell.pixels.shape[1] for cell in column), default=0) for column in cells]
        lefts = np.cumsum([0, *(width + GAP for width in widths)]).tolist()
        colours = cells[0][0].pixels.shape[2:]
        sheet = np.full((len(self.rows) * (height + GAP), lefts[-1], *colours), 255, dtype=np.uint8)
        for i, (_, row) in enumerate(self.rows):
            for left, cell in zip(lefts, row):
                if cell is not None:
                    h, w = cell.pixels.shape[:2]
                    sheet[i * (height + GAP) :][:h, left : left + w] = cell.pixels
        return to_png(sheet)


def tiled(images: UInt8[Tensor, "n c side side"], across: int) -> NDArray[np.uint8]:
    """Pictures in rows, a grey line between them, as (h, w) or (h, w, 3); a place that stays empty is grey."""
    n, channels, side, _ = images.shape
    shown = 3 if channels >= 3 else 1
    down, pitch = -(-n // across), side + 1
    grid = torch.full((down * across, shown, pitch, pitch), BETWEEN, dtype=torch.uint8)
    grid[:n, :, :side, :side] = images[:, :shown]
    pixels = grid.reshape(down, across, shown, pitch, pitch).permute(0, 3, 1, 4, 2)
    whole = pixels.reshape(down * pitch, across * pitch, shown)[:-1, :-1]
    return np.ascontiguousarray(whole.squeeze(-1).numpy())


def to_png(pixels: NDArray[np.uint8]) -> bytes:
    """Pixels (h, w) or (h, w, 3) as a file."""
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()
