"""Writing files so that a reader finds the old one or the new one, never half of either, and folders for them.

What is written is on the disk, under its name, before a function returns: the file is flushed before it is renamed and
its folder afterwards, so that a power failure takes back nothing that was reported as done.
"""

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

try:
    import fcntl
except ImportError:  # on Windows, which deletes no file that is open
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".unfinished"  # ending of a file that is being written; one that stays was left by a process that died
_UNFINISHED = re.compile(r"\.(.+)\.[a-z0-9_]+" + re.escape(UNFINISHED))
_NO_FLUSH = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF)
_BINARY = getattr(os, "O_BINARY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # for whoever reads a pipe that lies in a file's place


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the target, flush to the disk, rename over it, flush the folder. The folder must be there.

    An existing file's permissions stay; a new one's follow the umask. What a process that died had written of the same
    file is removed.
    """
    with suppress(OSError):
        remove_unfinished(path.parent, path.name)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
    with _named(path):
        mode = _mode(path)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666 if mode is None else 0o600)
        try:
            try:
                _lock(handle)
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(handle, mode)
                _write(handle, content)
                os.fsync(handle)
                if fcntl is not None:
                    os.replace(temporary, path)
            finally:
                os.close(handle)
            if fcntl is None:  # Windows renames no file that is open
                os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):  # what is to be told is why it was not written
                temporary.unlink(missing_ok=True)
            raise
        flush_folder(path.parent)


class Log:
    """A file that grows line by line; each reaches the system at once, and the disk when the log is flushed or closed.

    A process that is killed can leave the last line unfinished, no other. What is behind the first `keep` bytes is cut
    off at the beginning.
    """

    def __init__(self, path: Path, keep: int | None = None) -> None:
        self.path = path
        self.handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _BINARY | _NO_WAIT, 0o666)
        self.flushed = False
        if keep is not None:
            try:
                with _named(path):
                    os.ftruncate(self.handle, keep)
            except BaseException:
                os.close(self.handle)
                raise

    def add(self, line: str) -> None:
        """One line, without its end."""
        self.write(line.encode() + b"\n")

    def write(self, content: bytes) -> None:
        """Bytes, for what does not grow by lines."""
        with _named(self.path):
            _write(self.handle, content)

    def flush(self) -> None:
        """To the disk, so that nothing that is written from now on can be there without these lines."""
        with _named(self.path):
            os.fsync(self.handle)
        if not self.flushed:
            flush_folder(self.path.parent)
            self.flushed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            os.close(self.handle)


def write_beginning(path: Path, content: bytes) -> None:
    """Over the first bytes of a file that is there; flushed."""
    with _named(path):
        handle = os.open(path, os.O_WRONLY | _BINARY)
        try:
            _write(handle, content)
            os.fsync(handle)
        finally:
            os.close(handle)


def make_folder(path: Path) -> None:
    """A folder, with those above it, unless it is there; a file in its place is said to be no folder."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        if path.parent == path:
            break
        path = path.parent
    for folder in reversed(missing):
        try:
            folder.mkdir()
        except FileExistsError:
            if not folder.is_dir():  # made by another process in the meantime
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
        flush_folder(folder.parent)


def remove(paths: Iterable[Path]) -> None:
    """Files that are no longer needed, so that none comes back; those that are gone already do not matter."""
    folders = set()
    for path in paths:
        with suppress(FileNotFoundError):
            path.unlink()
            folders.add(path.parent)
    for folder in folders:
        flush_folder(folder)


def absolute(path: Path | str) -> Path:
    """The same place whatever folder one works in; `~` is one's home, as in a shell."""
    return Path(path).expanduser().resolve()


def remove_unfinished(folder: Path, name: str | None = None) -> None:
    """What processes that died were writing in a folder, or only under that name; files of living ones stay."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in names:
        if (found := _UNFINISHED.fullmatch(entry)) and name in (None, found[1]) and _abandoned(folder / entry):
            (folder / entry).unlink(missing_ok=True)


def is_unfinished(name: str) -> bool:
    """Whether a file of this name is one that was being written."""
    return _UNFINISHED.fullmatch(name) is not None


def flush_folder(folder: Path) -> None:
    """The names in it to the disk, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # one may write into a folder that one may not list
        return
    try:
        os.fsync(handle)
    except OSError as error:  # some network file systems have no such thing
        if error.errno not in _NO_FLUSH:
            raise
    finally:
        os.close(handle)


def is_failure(error: OSError) -> bool:
    """Whether the disk or the system failed, and not whoever named the file."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def free_name(path: Path) -> Path:
    """The path, with a number before its ending where something is there already."""
    number, free = 2, path
    while free.exists() or free.is_symlink():
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return free


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of the system name the file that was to be written, not the temporary one."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _mode(path: Path) -> int | None:
    """Permissions of a file that is there."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None


def _write(handle: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left[: 1 << 30]) :]


def _lock(handle: int) -> None:
    """Held until the file is closed or its process dies: it tells whether an unfinished file is still being written."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _abandoned(path: Path) -> bool:
    """Whether nobody is writing an unfinished file any more."""
    if fcntl is None:
        return path.is_file()
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return stat.S_ISREG(os.fstat(handle).st_mode)
    except OSError:  # locked, or on a file system without locks, where nobody knows
        return False
    finally:
        os.close(handle)
