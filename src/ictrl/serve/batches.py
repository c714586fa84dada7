"""Predictions of many clients in batches: one thread asks the learner, for all pictures that wait at that moment.

While one batch is predicted, the next one fills by itself. A thread that is free waits a moment longer only if pictures
are being decoded that might come along.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ictrl.errors import UserError
from ictrl.serve.answers import Answer, Asked, answers
from ictrl.serve.bounds import Limits
from ictrl.serve.refusals import RefusedError, busy
from ictrl.serve.served import Served
from ictrl.shapes import UInt8


@dataclass(eq=False)
class Waiting:
    """Pictures of one request."""

    images: list[UInt8[Tensor, "c h w"]]
    asked: Asked
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[tuple[Served, list[Answer]]]"
    given_up: bool = field(default=False)


Outcome = tuple[Served, list[Answer]] | RefusedError


class Batches:
    """The queue before the learner, and the thread behind it."""

    def __init__(self, served: Callable[[], Served], limits: Limits, counted: Callable[[int], None]) -> None:
        self._served, self._limits, self._counted = served, limits, counted
        self._queue: deque[Waiting] = deque()
        self._changed = threading.Condition()
        self._coming = self._pictures = 0
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="predictions", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What waits is still answered."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join()

    @property
    def waiting(self) -> int:
        """Pictures in the queue."""
        return self._pictures

    @contextmanager
    def coming(self) -> Iterator[None]:
        """A request's pictures are being decoded, and will be here soon."""
        with self._changed:
            self._coming += 1
        try:
            yield
        finally:
            with self._changed:
                self._coming -= 1
                self._changed.notify_all()

    async def predict(self, images: list[UInt8[Tensor, "c h w"]], asked: Asked) -> tuple[Served, list[Answer]]:
        """The answers for these pictures, and the version of the learner that gave them."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(images, asked, loop, loop.create_future())
        with self._changed:
            if self._pictures + len(images) > self._limits.queue:
                raise busy(f"Expected room for {len(images)} pictures but {self._pictures} wait already: come again.")
            self._queue.append(waiting)
            self._pictures += len(images)
            self._changed.notify_all()
        try:
            async with asyncio.timeout(self._limits.timeout):
                return await waiting.future
        except TimeoutError:
            raise busy(f"Expected a prediction within {self._limits.timeout:g} s but there was none.") from None
        finally:
            waiting.given_up = True

    def _work(self) -> None:
        while batch := self._next():
            try:
                _tell(self._answered(batch))
            except Exception as error:
                _tell([(waiting, _as_refusal(error)) for waiting in batch])

    def _next(self) -> list[Waiting]:
        """The pictures that wait, a batch of them at most; nothing once all is done."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopped)
            until = time.monotonic() + self._limits.wait / 1000
            while self._coming and self._pictures < self._limits.batch and not self._stopped:
                if (left := until - time.monotonic()) <= 0:
                    break
                self._changed.wait(left)
            batch: list[Waiting] = []
            n = 0
            while self._queue and (not batch or n + len(self._queue[0].images) <= self._limits.batch):
                n += len(self._queue[0].images)
                batch.append(self._queue.popleft())
            self._pictures -= n
            return batch

    def _answered(self, batch: list[Waiting]) -> list[tuple[Waiting, Outcome]]:
        served, fitting, told = self._served(), list[Waiting](), list[tuple[Waiting, Outcome]]()
        shape = (served.channels, served.image_size, served.image_size)
        for waiting in batch:
            if waiting.given_up:
                continue
            if tuple(waiting.images[0].shape) != shape:
                told.append((waiting, busy("Expected the same learner but it was replaced meanwhile: send it again.")))
            else:
                fitting.append(waiting)
        if not fitting:
            return told
        images = torch.stack([image for waiting in fitting for image in waiting.images])
        self._counted(len(images))
        asked = [waiting.asked for waiting in fitting for _ in waiting.images]
        found = answers(served, images, asked)
        for waiting in fitting:
            told.append((waiting, (served, found[: len(waiting.images)])))
            found = found[len(waiting.images) :]
        return told


def _tell(told: list[tuple[Waiting, Outcome]]) -> None:
    """All of a batch at once: waking the server's thread costs more than a prediction."""

    def tell() -> None:
        for waiting, outcome in told:
            if waiting.future.done():
                continue
            if isinstance(outcome, RefusedError):
                waiting.future.set_exception(outcome)
            else:
                waiting.future.set_result(outcome)

    if told:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            told[0][0].loop.call_soon_threadsafe(tell)


def _as_refusal(error: Exception) -> RefusedError:
    """What a batch failed by: a mistake that the learner names, or a failure."""
    return RefusedError(409 if isinstance(error, UserError) else 500, str(error) or type(error).__name__)
