"""Batches are read ahead by threads that end whenever they are no longer wanted."""

import threading
from contextlib import closing

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from ictrl.training.prefetch import AHEAD, Prefetcher

CPU = torch.device("cpu")
ROWS = torch.arange(100).flip(0).split(7)


class Elsewhere(Tensor):
    """Images that count how they are read, and fail at a row."""

    asked: int
    broken: int | None

    @staticmethod
    def of(images: Tensor, broken: int | None = None) -> "Elsewhere":
        made = images.as_subclass(Elsewhere)
        made.asked, made.broken = 0, broken
        return made

    def read_rows(self, rows: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        self.asked += 1
        if self.broken in rows:
            raise OSError(5, "Input/output error", "images")
        out[:] = self.as_subclass(Tensor).numpy()[rows]


@pytest.fixture
def images() -> Tensor:
    return torch.randint(256, (100, 1, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def reading_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ictrl-images")]


def test_batches_come_in_order_and_a_few_ahead(images: Tensor) -> None:
    elsewhere = Elsewhere.of(images)
    prefetcher = Prefetcher(elsewhere, CPU)
    for _ in range(2):
        seen = [batch.clone() for batch in prefetcher.batches(ROWS)]
        assert all(torch.equal(batch, images[rows]) for batch, rows in zip(seen, ROWS, strict=True))
    assert not reading_threads()
    with closing(prefetcher.batches(ROWS)) as batches:
        before = elsewhere.asked
        next(batches)
    assert elsewhere.asked - before <= AHEAD
    assert not reading_threads()


def test_what_goes_wrong_in_a_thread_is_raised_where_the_batch_was_wanted(images: Tensor) -> None:
    prefetcher, seen = Prefetcher(Elsewhere.of(images, broken=50), CPU), 0

    def read() -> None:
        nonlocal seen
        for _ in prefetcher.batches(ROWS):
            seen += 1

    with pytest.raises(OSError, match="Input/output error"):
        read()
    assert seen == 7  # those before it
    assert not reading_threads()


def test_an_interrupt_leaves_no_thread_behind(images: Tensor) -> None:
    def interrupted() -> None:
        with closing(Prefetcher(Elsewhere.of(images), CPU).batches(ROWS)) as batches:
            for _ in batches:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not reading_threads()


def test_of_large_batches_fewer_wait(images: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ictrl.training.prefetch.ROOM", 3 * images[:7].nbytes)
    prefetcher = Prefetcher(images, CPU)
    assert torch.equal(torch.cat([batch.clone() for batch in prefetcher.batches(ROWS)]), images.flip(0))
    assert len(prefetcher._host) == 3
