"""Images read ahead by background threads, so that no step waits for them.

The threads copy the rows of the batches to come into a ring of buffers on the host, a few batches ahead; they touch
nothing of the GPU, which may be recording a step. Where there is one, the buffers are page-locked, and each batch goes
on to a ring on the device by a stream of its own, while the step before it is played. Which rows come when is decided
by whoever asks: batches are the same, in the same order, as of images that lie on the device.
"""

import os
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ictrl.shapes import Int, UInt8

AHEAD = 6  # batches that are read or on their way, at most
ROOM = 2**28  # bytes of these batches, unless a single one has more


@runtime_checkable
class ReadsRows(Protocol):
    """Images (n, c, h, w) that need not lie in memory, such as those of a file; a tensor by all other looks."""

    def read_rows(self, rows: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """The images of these rows into an array (rows, c, h, w); any thread may call it."""


class Prefetcher:
    """Hands out batches of images that wait outside of the device."""

    def __init__(self, images: UInt8[Tensor, "n c h w"], device: torch.device) -> None:
        self.images, self.device = images, device
        self.waited = 0.0  # seconds that were spent waiting for the threads
        self._host: list[Tensor] = []
        self._sent: _Sent | None = None

    def batches(self, rows: Sequence[Int[Tensor, " _"]]) -> Generator[UInt8[Tensor, "_ c h w"], None, None]:
        """The images of each of these rows, on the device; a batch holds until the next one is asked for."""
        if not rows:
            return
        # in one go: every look at a device's numbers waits for it
        places = [part.numpy() for part in torch.cat(list(rows)).cpu().split([len(part) for part in rows])]
        self._make_room(max(map(len, places)))
        ring, sent = self._host, self._sent
        with ThreadPoolExecutor(min(len(ring), _threads()), "ictrl-images") as pool:
            reading: dict[int, Future[None]] = {}

            def begin(i: int) -> None:
                if i < len(places):
                    reading[i] = pool.submit(self._read, places[i], ring[i % len(ring)][: len(places[i])])

            try:
                for i in range(len(ring)):
                    begin(i)
                for i, part in enumerate(places):
                    start = time.perf_counter()
                    reading.pop(i).result()
                    self.waited += time.perf_counter() - start
                    slot = i % len(ring)
                    batch = ring[slot][: len(part)]
                    if sent is not None:
                        batch = sent.send(batch, slot)
                    if i:  # the buffer of the batch before this one is free, or soon will be
                        if sent is not None:
                            sent.wait_for((i - 1) % len(ring))
                        begin(i - 1 + len(ring))
                    try:
                        yield batch
                    finally:
                        if sent is not None:
                            sent.played(slot)
            finally:
                pool.shutdown(cancel_futures=True)
                if sent is not None:
                    sent.wait_for_all()

    def _read(self, rows: NDArray[np.int64], buffer: Tensor) -> None:
        if isinstance(self.images, ReadsRows):
            self.images.read_rows(rows, buffer.numpy())
        elif self.images.is_contiguous():  # NumPy takes one thread for it, and no lock of Python's
            np.take(self.images.numpy(), rows, axis=0, out=buffer.numpy(), mode="clip")
        else:
            torch.index_select(self.images, 0, torch.from_numpy(rows), out=buffer)

    def _make_room(self, largest: int) -> None:
        """A ring of buffers for batches of up to so many images, kept from one pass to the next."""
        if self._host and len(self._host[0]) >= largest:
            return
        shape, cuda = (largest, *self.images.shape[1:]), self.device.type == "cuda"
        slots = max(2, min(AHEAD, ROOM // max(1, torch.Size(shape).numel())))
        self._host = [torch.empty(shape, dtype=torch.uint8, pin_memory=cuda) for _ in range(slots)]
        self._sent = _Sent(self._host, self.device) if cuda else None


class _Sent:
    """The ring on a GPU: who copies into a buffer of it, and who has read it."""

    def __init__(self, host: list[Tensor], device: torch.device) -> None:
        self.buffers = [torch.empty_like(buffer, device=device, pin_memory=False) for buffer in host]
        self.device, self.copies = device, torch.cuda.Stream(device)
        self.copied: list[Any] = [torch.cuda.Event() for _ in host]
        self.read: list[Any] = [torch.cuda.Event() for _ in host]

    def send(self, batch: Tensor, slot: int) -> Tensor:
        """On its way, after whoever used the place; what is played from now on waits for it."""
        there = self.buffers[slot][: len(batch)]
        self.copies.wait_event(self.read[slot])
        with torch.cuda.stream(self.copies):
            there.copy_(batch, non_blocking=True)
            self.copied[slot].record()
        torch.cuda.current_stream(self.device).wait_event(self.copied[slot])
        return there

    def played(self, slot: int) -> None:
        """What uses this batch has been queued."""
        self.read[slot].record(torch.cuda.current_stream(self.device))

    def wait_for(self, slot: int) -> None:
        """Until the buffer on the host has been read."""
        self.copied[slot].synchronize()

    def wait_for_all(self) -> None:
        for event in self.copied:
            event.synchronize()


def _threads() -> int:
    """Half of the cores: the other half plays."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // 2)
