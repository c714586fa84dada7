"""Collecting images that come one by one, and deciding which of them are held out as test images."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ictrl.shapes import Bool, Int, UInt8


@dataclass
class Shelf:
    """Memory for images, reserved once and filled from the front; what could not be read leaves the end unused."""

    room: UInt8[Tensor, "room c h w"]
    labels: list[int] = field(default_factory=list)

    def add(self, image: UInt8[Tensor, "c h w"], label: int) -> None:
        """Put an image behind those that are there."""
        self.room[len(self.labels)] = image
        self.labels.append(label)

    def contents(self) -> tuple[UInt8[Tensor, "n c h w"], Int[Tensor, " n"]]:
        """The images added so far, and their labels."""
        return self.room[: len(self.labels)], torch.tensor(self.labels, dtype=torch.int64)


def new_shelf(room: int, image_size: int, channels: int) -> Shelf:
    """An empty shelf for so many square images."""
    return Shelf(torch.empty((room, channels, image_size, image_size), dtype=torch.uint8))


def held_out_count(total: int, share: float) -> int:
    """How many of the images of a class are held out: about that share, but at least one and never all.

    >>> [held_out_count(total, 0.2) for total in (1, 2, 10, 1000)]
    [0, 1, 2, 200]
    """
    return max(0, min(max(1, round(share * total)), total - 1))


def is_held_out(position: int, share: float) -> bool:
    """Whether the image at that position within its class (0, 1, …) is held out.

    Of the first n images `held_out_count(n, share)` are, for every n: the total need not be known beforehand.
    """
    return held_out_count(position + 1, share) > held_out_count(position, share)


def are_held_out(labels: Int[Tensor, " n"], share: float) -> Bool[Tensor, " n"]:
    """Which of many images are held out: `is_held_out` of each by its position within its class.

    >>> are_held_out(torch.tensor([3, 5, 3, 5, 3]), 0.2).tolist()
    [False, False, True, True, False]
    """
    order = labels.argsort(stable=True)
    counts = labels.unique(return_counts=True)[1]
    starts = counts.cumsum(0) - counts
    positions = torch.arange(len(labels)) - starts.repeat_interleave(counts)
    held_out = [torch.zeros(0)] * 2
    for index, totals in enumerate((positions + 1, positions)):
        wanted = (share * totals.double()).round().clamp(min=1)  # to even, as Python rounds
        held_out[index] = torch.minimum(wanted, totals.double() - 1).clamp(min=0)
    found = torch.empty(len(labels), dtype=torch.bool)
    found[order] = held_out[0] > held_out[1]
    return found
