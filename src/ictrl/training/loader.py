"""Where a task's images wait for their turn: on the device if they fit there, otherwise in the host's memory.

What waits on the host is sent through two page-locked buffers on a stream of its own: while the device plays one batch,
the next one is put together and on its way. `Batches` says in which order they come.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ictrl.shapes import Int, UInt8

SHARE = 0.5  # of the device's free memory that images may take; the rest is for the players


class ImageSource:
    """The images of a task, handed out in batches on the device."""

    def __init__(self, images: UInt8[Tensor, "n c h w"], device: torch.device, streamed: bool | None = None) -> None:
        self.device = device
        self.streamed = not fits(images, device) if streamed is None else streamed
        self.images = images if self.streamed else images.to(device)

    def __len__(self) -> int:
        return len(self.images)

    def batches(self, rows: Sequence[Int[Tensor, " _"]]) -> Iterator[tuple[Tensor, ...]]:
        """Batch after batch what `pixels` is to be told: rows, and their images where these had to be sent."""
        if self.streamed:
            yield from zip(rows, self._stream([part.to(self.images.device) for part in rows]))
        else:
            for part in rows:
                yield (part,)

    def pixels(self, rows: Int[Tensor, " _"], sent: Tensor | None = None) -> UInt8[Tensor, "_ c h w"]:
        """The images of these rows, on the device."""
        return self.images[rows] if sent is None else sent

    def _stream(self, rows: list[Tensor]) -> Iterator[Tensor]:
        if self.device.type != "cuda":
            for part in rows:
                yield self.images[part].to(self.device)
            return
        shape = (max(map(len, rows)), *self.images.shape[1:])
        buffers = [torch.empty(shape, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        copied = [torch.cuda.Event(), torch.cuda.Event()]
        copies, play = torch.cuda.Stream(self.device), torch.cuda.current_stream(self.device)
        for i, part in enumerate(rows):
            buffer, event = buffers[i % 2][: len(part)], copied[i % 2]
            event.synchronize()  # until the batch before last, which used this buffer, has left it
            torch.index_select(self.images, 0, part, out=buffer)
            with torch.cuda.stream(copies):
                batch = buffer.to(self.device, non_blocking=True)
                event.record()
            play.wait_event(event)
            batch.record_stream(play)
            yield batch


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
    """Whether images lie on the device, or take at most this share of its free memory."""
    if device.type != "cuda" or images.device == device:
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return images.nbytes <= share * free
