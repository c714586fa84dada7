"""Where a task's images wait for their turn: on the device if they fit there, otherwise where they are.

What waits elsewhere, in the host's memory or in a file, is read ahead and sent (`prefetch.py`): while the device plays
one batch, the next ones are put together and on their way. `Batches` says in which order they come.
"""

from collections.abc import Generator, Sequence
from contextlib import closing

import torch
from torch import Tensor

from ictrl.parallel.sharing import mine
from ictrl.shapes import Int, UInt8
from ictrl.training.prefetch import Prefetcher, ReadsRows

SHARE = 0.5  # of the device's free memory that images may take; the rest is for the players


class ImageSource:
    """The images of a task, handed out in batches on the device."""

    def __init__(self, images: UInt8[Tensor, "n c h w"], device: torch.device, streamed: bool | None = None) -> None:
        self.device = device
        self.streamed = not fits(images, device) if streamed is None else streamed
        self.images = images if self.streamed else images.to(device)
        self.ahead = Prefetcher(images, device) if self.streamed else None

    def __len__(self) -> int:
        return len(self.images)

    def batches(self, rows: Sequence[Int[Tensor, " _"]]) -> Generator[tuple[Tensor, ...], None, None]:
        """Batch after batch what `pixels` is to be told: rows, and their images where these had to be sent.

        What was sent holds until the next batch is asked for. Whoever leaves early closes the iterator: it has threads.
        Rows are those of the whole batch; of images, a process that shares it is sent its own.
        """
        if self.ahead is None:
            for part in rows:
                yield (part,)
        else:
            with closing(self.ahead.batches([mine(part) for part in rows])) as sent:
                yield from zip(rows, sent)

    def pixels(self, rows: Int[Tensor, " _"], sent: Tensor | None = None) -> UInt8[Tensor, "_ c h w"]:
        """The images of these rows, on the device: of a batch that is shared, those of this process."""
        return self.images[mine(rows)] if sent is None else sent


class Batches:
    """Passes over n rows in equal batches of at most `size`; fewer rows than batches are left out of each.

    The batches are parts of one tensor that stays where it is, so that shuffling it can be recorded.
    """

    def __init__(self, n: int, size: int, generator: torch.Generator, device: torch.device) -> None:
        self.order = torch.arange(n, device=device)
        self.generator = generator
        count = -(-n // size)
        self.rows: tuple[Int[Tensor, " rows"], ...] = self.order[: n // count * count].chunk(count)

    def __len__(self) -> int:
        return len(self.rows)

    def shuffle(self) -> None:
        self.order.copy_(torch.randperm(len(self.order), generator=self.generator, device=self.order.device))


def fits(images: Tensor, device: torch.device, share: float = SHARE) -> bool:
    """Whether images lie on the device, or take at most this share of its free memory; those of a file stay there on a
    CPU, whose memory they are meant to spare."""
    if device.type != "cuda" or images.device == device:
        return not isinstance(images, ReadsRows)
    free, _ = torch.cuda.mem_get_info(device)
    return images.nbytes <= share * free
