"""What all routes share: the learner, its queue, its teacher, what is counted, the threads that decode and draw."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from torch import Tensor

from ictrl.errors import UserError
from ictrl.serve.batches import Batches
from ictrl.serve.bounds import MB, Limits
from ictrl.serve.counters import Counters
from ictrl.serve.host import LearnerHost
from ictrl.serve.lesson import Teacher
from ictrl.serve.png import decode
from ictrl.serve.refusals import busy
from ictrl.serve.served import Served
from ictrl.serve.uploads import Budget

logger = logging.getLogger(__name__)
PATIENCE = 20.0  # seconds for a lesson to end that is cancelled
LOOK = 1.0  # seconds between looks whether another program has written the learner
Result = TypeVar("Result")


class Core:
    """A learner in service, between `running`'s beginning and end."""

    def __init__(self, host: LearnerHost, limits: Limits) -> None:
        self.host, self.limits, self.counters = host, limits, Counters()
        self.batches = Batches(lambda: host.now, limits, self.counters.batch)
        self.teacher = Teacher(host, self.counters.lessons.observe)
        self.budget = Budget(limits.max_upload * MB)
        self.trouble: str | None = None
        """why the file that another program has written cannot be served"""
        self._pool = ThreadPoolExecutor(limits.decoders, "pictures")
        for name, what, read in (
            ("queue_pictures", "Pictures that wait for the learner.", lambda: self.batches.waiting),
            ("classes", "Classes that the learner knows.", lambda: len(host.now.names)),
            ("version", "Version of the learner.", lambda: host.now.version),
            ("teaching", "Whether classes are being taught.", lambda: float(self.teacher.teaching)),
            ("upload_bytes", "Undecoded pictures in memory.", lambda: self.budget.taken),
        ):
            self.counters.gauge(name, what, read)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Predictions are answered, and files watched, until the end; then a lesson is cancelled."""
        self.batches.start()
        looking = asyncio.create_task(self._keep_looking())
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
            self.teacher.cancel()
            await self.teacher.ended(PATIENCE)
            self._pool.shutdown(wait=False, cancel_futures=True)
            await asyncio.to_thread(self.batches.stop)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            await self.refresh()

    async def refresh(self) -> None:
        """Serve what another program has written meanwhile; a file that cannot be read is left alone for now."""
        trouble = None
        try:
            await asyncio.to_thread(self.host.refresh)
        except (UserError, OSError) as error:
            trouble = " ".join(str(error).split())
        if trouble is not None and trouble != self.trouble:
            logger.warning("%s Version %d is served on.", trouble, self.host.now.version)
        self.trouble = trouble

    async def in_pool(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Decoding and drawing, in a few threads of their own."""
        try:
            async with asyncio.timeout(self.limits.timeout):
                return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        except TimeoutError:
            raise busy(f"Expected an answer within {self.limits.timeout:g} s but there was none: come again.") from None

    async def decoded(self, content: bytearray, served: Served) -> Tensor:
        """A picture as the network of this version takes it; an InputError says why it cannot be read."""
        size = served.image_size, served.channels, self.limits.max_pixels
        return await self.in_pool(decode, bytes(content), *size)
