"""Pictures by class: what memory replays, and what becomes of the same test images from task to task."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from ictrl.experiment.sheets import MOST
from ictrl.methods.ictrl import ICTRL
from ictrl.report.drawing import data_uri, png
from ictrl.report.reading import RunRecord

REPLAYED, ALONG, DIRECTIONS = 8, 4, 6  # pictures over all directions, along each, and directions shown
BETWEEN = 128  # grey of the lines between pictures, right in light and in dark
SMALLEST = 64  # pixels that a cell takes on the page, at least


@dataclass(frozen=True)
class Cell:
    """A few pictures as one."""

    alt: str
    pixels: NDArray[np.uint8]
    """(h, w) or (h, w, 3)"""

    @cached_property
    def uri(self) -> str:
        return data_uri(png(self.pixels))

    @property
    def height(self) -> int:
        """On the page: enlarged by a whole number, so that pixels stay squares."""
        return self.pixels.shape[0] * self._factor

    @property
    def width(self) -> int:
        return self.pixels.shape[1] * self._factor

    @property
    def _factor(self) -> int:
        return max(1, -(-SMALLEST // self.pixels.shape[0]))


@dataclass(frozen=True)
class PictureTable:
    """A row a class, in the order of learning; None where there is nothing to show yet."""

    name: str
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

    def file(self) -> bytes:
        """All of it as one PNG, for a paper."""
        cells = [cell for _, row in self.rows for cell in row if cell is not None]
        height = max(cell.pixels.shape[0] for cell in cells)
        widths = [
            max((row[j].pixels.shape[1] for _, row in self.rows if row[j] is not None), default=0)  # type: ignore[union-attr]
            for j in range(len(self.columns))
        ]
        gap = 4
        sheet = np.full(
            (len(self.rows) * (height + gap), sum(widths) + gap * len(widths), *cells[0].pixels.shape[2:]),
            255,
            dtype=np.uint8,
        )
        for i, (_, row) in enumerate(self.rows):
            for j, cell in enumerate(row):
                if cell is not None:
                    h, w = cell.pixels.shape[:2]
                    top, left = i * (height + gap), sum(widths[:j]) + gap * j
                    sheet[top : top + h, left : left + w] = cell.pixels
        return png(sheet)


def replayed(run: RunRecord, learner: ICTRL) -> PictureTable:
    """Samples of each class over all its directions, and along the first few."""
    labels = list(learner.memory)[:MOST]
    r = min(DIRECTIONS, max(len(learner.memory[label].direction_means) for label in labels))
    rows = []
    for label in labels:
        name = run.class_name(label)
        cells: list[Cell | None] = [Cell(f"{name}, replayed", tiled(learner.sample(label, REPLAYED), 4))]
        for direction in range(r):
            if direction < len(learner.memory[label].direction_means):
                pictures = learner.sample(label, ALONG, direction)
                cells.append(Cell(f"{name}, along direction {direction + 1}", tiled(pictures, 2)))
            else:
                cells.append(None)
        rows.append((name, cells))
    return PictureTable(
        "replayed",
        "What memory replays",
        "Features drawn from the stored moments and decoded: no image of an old class is kept. First over all of a "
        "class's principal directions in turn, then along each of the strongest.",
        ["over all directions", *(f"direction {i + 1}" for i in range(r))],
        rows,
        left_out=len(learner.memory) - len(labels),
    )


def reconstructed(run: RunRecord) -> PictureTable | None:
    """The same few test images as the learner saw them after each task; None where no sheets were kept."""
    numbers = sorted(run.reconstructed)
    labels = [label for label in run.classes if label in run.originals]
    if not numbers or not labels:
        return None
    rows = []
    for label in labels:
        name = run.class_name(label)
        cells: list[Cell | None] = [Cell(f"{name}, test images", tiled(run.originals[label], 2))]
        for number in numbers:
            images = run.reconstructed[number].get(label)
            alt = f"{name}, after task {number}"
            cells.append(None if images is None else Cell(alt, tiled(images, 2)))
        rows.append((name, cells))
    return PictureTable(
        "reconstructions",
        "Reconstructions after each task",
        "A few test images of each class, and g(f(x)) of the same images by the learner as it was after each task. The "
        "learner never saw them in training, and never reads them from the run folder.",
        ["test images", *(f"after task {number}" for number in numbers)],
        rows,
        left_out=len(run.classes) - len(labels),
    )


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
