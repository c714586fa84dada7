"""Processes that each do one thing at a time, for things that may end a process: one that dies takes nothing with it.

A pool of many processes is lost as a whole when one of them is killed, and does not say whose work did it. So every
process is a pool of its own, and another takes its place when it dies.
"""

import os
import signal
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.synchronize import Event
from threading import Thread
from types import TracebackType
from typing import Any, Self

import torch


class Workers:
    """Up to so many processes. Whatever ends the block early asks them to stop, and waits until they have."""

    def __init__(self, jobs: int) -> None:
        self.context = get_context("spawn")
        self.asked = self.context.Event()
        self.threads = max(1, torch.get_num_threads() // jobs)
        self.idle: list[ProcessPoolExecutor] = []
        self.busy: dict[Future[Any], ProcessPoolExecutor] = {}

    def begin(self, function: Callable[..., Any], *arguments: object) -> Future[Any]:
        """Call it in a process that is idle, or in a new one."""
        while True:
            pool = self.idle.pop() if self.idle else self._new()
            try:
                with _signals_unheard():
                    future = pool.submit(function, *arguments)
            except BrokenProcessPool:  # it died while it was idle
                pool.shutdown(wait=False)
                continue
            self.busy[future] = pool
            return future

    def ended(self, seconds: float) -> Collection[Future[Any]]:
        """Calls that have come to an end, after so many seconds at the latest; a process that died is replaced."""
        done = wait(self.busy, timeout=seconds, return_when=FIRST_COMPLETED).done
        for future in done:
            pool = self.busy.pop(future)
            if isinstance(future.exception(), BrokenProcessPool):
                pool.shutdown(wait=False)
            else:
                self.idle.append(pool)
        return done

    def _new(self) -> ProcessPoolExecutor:
        prepared = (self.asked, self.threads)
        return ProcessPoolExecutor(1, mp_context=self.context, initializer=_prepare_process, initargs=prepared)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.asked.set()
        for pool in (*self.idle, *self.busy.values()):
            pool.shutdown()


_asked: Event | None = None  # in a process of its own: set once its run shall stop


def shall_stop() -> bool:
    """In a process of its own, whether it was asked to stop."""
    return _asked is not None and _asked.is_set()


def _prepare_process(asked: Event, threads: int) -> None:
    global _asked
    _asked = asked
    torch.set_num_threads(threads)  # processes that fight for the same cores are many times slower
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """A study that is killed leaves nobody behind."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _signals_unheard() -> Iterator[None]:
    """Ctrl-C reaches all processes of a terminal; those begun in here do not hear it: the study says when to stop."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
