"""Writing files so that a reader finds the old one or the new one, never half of either, and folders for them."""

import errno
import os
import tempfile
from pathlib import Path

UNFINISHED = ".unfinished"  # ending of a file that is being written; one that stays was left by a process that died


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the target, flush to the disk, rename over it. The folder must be there."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; the result should be as readable as any other the user writes
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise type(error)(error.errno, error.strerror, str(path)) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def make_folder(path: Path) -> None:
    """A folder, with those above it, unless it is there; a file in its place is said to be no folder."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
