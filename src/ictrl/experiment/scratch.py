"""Folders on a machine's own disk for what is on its way elsewhere.

Each is removed in the end. One whose process was killed is removed by the next that makes one: its lock is free.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ictrl.errors import InputError
from ictrl.experiment.locks import alone

PREFIX = "ictrl-ray-"
LOCK = ".lock"
LONGEST = 30  # letters: Ray puts sockets below, whose names the system limits to about a hundred


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder of this process alone."""
    remove_abandoned()
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_place()))
    try:
        with alone(path / LOCK, path):
            yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def remove_abandoned() -> None:
    """Folders of processes that died."""
    for path in _place().glob(f"{PREFIX}*"):
        if (path / LOCK).exists():  # without one it is just being made
            with suppress(InputError, OSError), alone(path / LOCK, path):  # neither in use nor somebody else's
                shutil.rmtree(path, ignore_errors=True)


def _place() -> Path:
    usual = Path(tempfile.gettempdir())
    short = Path("/tmp")
    return short if len(str(usual)) > LONGEST and short.is_dir() else usual
