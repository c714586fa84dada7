"""Where a task's images wait for their turn: on the device if they fit there, otherwise in the host's memory.

What waits on the host is sent through two page-locked buffers on a stream of its own: while the device plays one batch,
the next one is put together and on its way. `Passes` says in which order they come, `shown` what a network sees of one.
"""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from ictrl.kernels import gpu
from ictrl.nets.dcgan import to_float

SHARE = 0.5  # of the device's free memory that images may take; the rest is for the players


class Supply:
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


class Passes:
    """Passes over n rows in equal batches of at most `size`; fewer rows than batches are left out of each.

    The batches are parts of one tensor that stays where it is, so that shuffling it can be recorded.
    """

    def __init__(self, n: int, size: int, generator: torch.Generator, device: torch.device) -> None:
        self.order = torch.arange(n, device=device)
        self.generator = generator
        batches = -(-n // size)
        self.batches: tuple[Int[Tensor, " rows"], ...] = self.order[: n // batches * batches].chunk(batches)

    def shuffle(self) -> None:
        self.order.copy_(torch.randperm(len(self.order), generator=self.generator, device=self.order.device))


def fits(images: Tensor, device: torch.device, share: float | None = None) -> bool:
    """Whether images lie on the device, or take at most this share of its free memory; SHARE by default."""
    if device.type != "cuda" or images.device == device:
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return images.nbytes <= (SHARE if share is None else share) * free


def shown(
    pixels: UInt8[Tensor, "n c h w"],
    flipped: Int[Tensor, " n"],
    moves: Int[Tensor, "2 n"] | None,
    turned: Int[Tensor, " n"] | None,
    dtype: torch.dtype,
) -> Float[Tensor, "n c h w"]:
    """Images mirrored where `flipped`, moved by so many pixels down and right, turned by so many quarters.

    What comes in at an edge repeats the edge. Pixels become numbers from −1 to 1.
    """
    if fast := gpu(pixels):
        return fast.shown(pixels, flipped, moves, turned, dtype)
    pixels = torch.where(flipped[:, None, None, None] != 0, pixels.flip(-1), pixels)
    if moves is not None:
        pixels = _moved(pixels, *moves[:, :, None])
    if turned is not None:
        for quarters in (1, 2, 3):
            turn = turned[:, None, None, None] == quarters
            pixels = torch.where(turn, pixels.rot90(quarters, (2, 3)), pixels)
    return to_float(pixels).to(dtype)


def _moved(
    pixels: UInt8[Tensor, "n c h w"], down: Int[Tensor, "n 1"], right: Int[Tensor, "n 1"]
) -> UInt8[Tensor, "n c h w"]:
    n, c, h, w = pixels.shape
    device = pixels.device
    rows = (torch.arange(h, device=device) + down).clamp_(0, h - 1)  # (n, h)
    columns = (torch.arange(w, device=device) + right).clamp_(0, w - 1)  # (n, w)
    image, channel = torch.arange(n, device=device), torch.arange(c, device=device)
    return pixels[image[:, None, None, None], channel[:, None, None], rows[:, None, :, None], columns[:, None, None, :]]
