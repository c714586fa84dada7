"""One process at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ictrl.errors import InputError
from ictrl.files import is_failure


@contextmanager
def alone(lock_file: Path, what: Path) -> Iterator[None]:
    """Hold a lock on something that is written; the system lets go of it when its holder dies."""
    import filelock  # not needed to load a learner

    lock = filelock.FileLock(lock_file)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise InputError(f"Expected {what} to be free but another process is using it: wait for it.") from None
    except OSError as error:
        if is_failure(error):
            raise
        raise InputError(f"Expected to write into {what} but could not: {error.strerror}.") from None
    try:
        yield
    finally:
        lock.release()
