"""What a file may ask for: limits on what is allocated for it, each an environment variable; and regular files only.

A file of a stranger says in its first bytes how large its contents are. It is believed up to these limits, which are
checked before anything of that size is allocated. Whoever trusts larger files sets the variable that the error names:

    ICTRL_MAX_PIXELS=200_000_000 ictrl predict runs/mine map.png
"""

import errno
import os
import stat
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path

from ictrl.errors import ConfigError, InputError

PART = 2**16  # bytes that are allocated without a question
RATIO = 10  # whatever the limit, a file may be unpacked to so many times its own size


@dataclass(frozen=True)
class Limit:
    """The most there may be of something in a file."""

    variable: str
    """environment variable that overrides the default"""
    default: int
    what: str
    """what is counted, in the plural"""

    @property
    def value(self) -> int:
        """The limit as it is set now."""
        given = os.environ.get(self.variable, "").strip()
        if not given:
            return self.default
        if not (given.isascii() and given.replace("_", "").isdigit() and len(given) <= 20):
            raise ConfigError(
                f"Expected {self.variable} to be a whole number, the most {self.what} that are read, but got {given!r}."
            )
        return int(given)

    def exceeded(self, asked: int) -> str:
        """Nothing if so many are allowed, else what is wrong and which variable to set, as the end of a sentence.

        >>> Limit("ICTRL_MAX_PIXELS", 100, "pixels").exceeded(100)
        ''
        >>> Limit("ICTRL_MAX_PIXELS", 100, "pixels").exceeded(12000)
        '12,000 pixels, above the limit of 100 (ICTRL_MAX_PIXELS)'
        """
        limit = self.value
        if asked <= limit:
            return ""
        number = f"{asked:,}" if asked < 10**18 else "over 10^18"
        return f"{number} {self.what}, above the limit of {limit:,} ({self.variable})"


PIXELS = Limit("ICTRL_MAX_PIXELS", 50_000_000, "pixels")
"""of one picture"""
PICTURE_BYTES = Limit("ICTRL_MAX_PICTURE_BYTES", 2**28, "bytes in one picture file")
"""of one picture as it lies on the disk"""
UNPACKED_BYTES = Limit("ICTRL_MAX_UNPACKED_BYTES", 2**28, "bytes in memory")
"""that a data set's file is unpacked to, where that is more than `RATIO` times its own size"""
TEXT_BYTES = Limit("ICTRL_MAX_TEXT_BYTES", 2**24, "bytes of text")
"""of a JSON file, of one line of a log, of the header of a learner"""
RECIPE_BYTES = Limit("ICTRL_MAX_RECIPE_BYTES", 2**18, "bytes in a recipe or study")
"""of a TOML file"""
PICKLE_STEPS = Limit("ICTRL_MAX_PICKLE_STEPS", 2_000_000, "instructions of a pickle")
"""of one file of CIFAR's Python version"""
DRAWN = Limit("ICTRL_MAX_DRAWN", 100_000, "pictures")
"""that one command draws from memory"""
LIMITS = (PIXELS, PICTURE_BYTES, UNPACKED_BYTES, TEXT_BYTES, RECIPE_BYTES, PICKLE_STEPS, DRAWN)


def unpacks_too_much(size: int, unpacked: int) -> str:
    """Nothing if a file of that size may be unpacked to so many bytes, else what is wrong with that."""
    return UNPACKED_BYTES.exceeded(unpacked) if unpacked > RATIO * size else ""


class RegularFile(BufferedReader):
    """A file that allocates no more for what is to be read than there is left of it, whoever asks for how much."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > PART:
            size = min(size, max(PART, os.fstat(self.fileno()).st_size - self.tell()))
        return super().read(size)


def open_regular(path: Path) -> BufferedReader:
    """A file to read from, and no pipe, device or socket, which may never end or do something when opened.

    OSError if there is none, InputError, which begins with what it is, if it is none.
    """
    _check_regular(path.stat().st_mode)  # before opening it, which devices may notice
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _check_regular(os.fstat(handle).st_mode)  # what it is now
        return RegularFile(FileIO(handle, "rb"))
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, limit: Limit) -> bytes:
    """All of a file that is no larger than a limit of bytes; OSError or InputError, as `open_regular` has them."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if limit.exceeded(size) else file.read(size + 1)  # one more, should it have grown meanwhile
    if problem := limit.exceeded(max(size, len(content))):
        raise InputError(problem)
    return content


def _check_regular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
        raise InputError(f"{kinds.get(stat.S_IFMT(mode), 'something else')}, and no regular file")
