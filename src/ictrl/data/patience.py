"""Stopping while pictures are read, which may take hours: readers ask after each picture whether they shall.

Ctrl-C lets an epoch of learning come to its end, and processes of their own hear of it by an event. So who asks for
data says how it is known, and readers need not be told.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_asked: ContextVar[Callable[[], bool] | None] = ContextVar("asked", default=None)


@contextmanager
def stopped_by(asked: Callable[[], bool]) -> Iterator[None]:
    """Within it, what is read is given up with KeyboardInterrupt as soon as this gives True."""
    before = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(before)


def check_stop() -> None:
    """Stop reading, if that was asked for."""
    asked = _asked.get()
    if asked is not None and asked():
        raise KeyboardInterrupt


def reading() -> bool:
    """Whether data is being read just now that would be given up."""
    return _asked.get() is not None
