"""How pictures become a file: block by block, with a journal of how far it has come.

A maker that is stopped or killed leaves the pixels under a temporary name, and whoever needs the file next goes on from
there. The journal never tells of pixels that are not on the disk; the file gets its name when it is whole.
"""

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ictrl.data.image_file import HEADER, header
from ictrl.errors import InputError
from ictrl.files import flush_folder
from ictrl.limits import PICTURE_BYTES, PIXELS
from ictrl.shapes import UInt8

FORMAT = 1  # another one where the same pictures would become another file
BLOCK = 256  # pictures that are decoded at a time
FLUSHED = 2**26  # bytes of pixels that are decoded again, at most, after a maker was killed
THREADS = 4  # at most: each may hold a large picture
TITLE = "decoding pictures"


@dataclass(frozen=True)
class Pictures:
    """What is to be decoded: pictures in an order that stays."""

    where: str
    """whence they come, for whoever wonders what a file is of"""
    labels: NDArray[np.int64]
    """one per picture"""
    test: NDArray[np.bool_]
    """whether each is of the test part"""
    image_size: int
    channels: int
    read: Callable[[int], UInt8[Tensor, "c h w"]]
    """the picture of that number; InputError says what is wrong with it"""
    described: Callable[[], Iterable[str]]
    """what changes whenever a picture does: a line for each, or fewer"""
    by_threads: bool = True
    """whether several may be read at a time"""
    all_or_none: bool = False
    """whether a picture that can not be read is an error, and is not left out"""

    @property
    def nbytes(self) -> int:
        """Of all images, should every picture be readable."""
        return len(self.labels) * self.channels * self.image_size**2

    def digest(self) -> str:
        import PIL

        limits = PIXELS.value, PICTURE_BYTES.value
        sha = hashlib.sha256(repr((FORMAT, PIL.__version__, limits, self.image_size, self.channels)).encode())
        for line in self.described():
            sha.update(line.encode(errors="surrogateescape") + b"\n")
        return sha.hexdigest()


def make(pictures: Pictures, digest: str, path: Path) -> None:
    """Decode all pictures into the file, from where a maker before has come to."""
    pixels, journal = path.with_suffix(".pixels"), path.with_suffix(".journal")
    done, skipped = _position(pixels, journal, pictures)
    each, total = pictures.nbytes // max(1, len(pictures.labels)), len(pictures.labels)
    _check_space(path.parent, (total - done) * each)
    with (
        _bar(total, done, f"{_size(pictures.nbytes)} into {path.parent}") as advance,
        journal.open("ab") as log,
        pixels.open("r+b" if pixels.exists() else "w+b") as file,
    ):
        file.truncate(HEADER + (done - len(skipped)) * each)
        file.seek(0, os.SEEK_END)
        unflushed, start = 0, done
        for block in _read(pictures, done):
            for number, image in enumerate(block, start=start):
                if isinstance(image, str):
                    skipped[number] = image
                else:
                    file.write(image.numpy().tobytes())
                    unflushed += each
            start += len(block)
            if unflushed >= FLUSHED or start == total:
                _flush(file)  # the journal never tells of pixels that are not on the disk
                new = {str(number): reason for number, reason in skipped.items() if number >= done}
                log.write(json.dumps({"done": start, "skipped": new}).encode() + b"\n")
                _flush(log)
                unflushed, done = 0, start
            advance(len(block))
        if pictures.digest() != digest:
            pixels.unlink()
            journal.unlink()
            raise InputError(f"Expected {pictures.where} to stay as it is while it is decoded but it has changed.")
        _finish(pictures, digest, skipped, file)
    os.replace(pixels, path)
    flush_folder(path.parent)
    journal.unlink()


def _finish(pictures: Pictures, digest: str, skipped: dict[int, str], file: IO[bytes]) -> None:
    """What stands behind the pixels, then what stands before them."""
    read = np.ones(len(pictures.labels), bool)
    read[list(skipped)] = False
    labels, test = pictures.labels[read], pictures.test[read].astype(np.uint8)
    sealed = seal(labels, test, skipped)
    told = {"format": FORMAT, "of": pictures.where, "digest": digest, "seal": sealed, "skipped": skipped}
    about = json.dumps(told).encode()
    for part in (labels.tobytes(), test.tobytes(), about):
        file.write(part)
    shape = (len(labels), pictures.channels, pictures.image_size, pictures.image_size)
    file.seek(0)
    arrays: dict[str, tuple[str, tuple[int, ...]]] = {"images": ("uint8", shape), "labels": ("int64", (len(labels),))}
    file.write(header({**arrays, "test": ("uint8", (len(labels),)), "about": ("uint8", (len(about),))}))
    _flush(file)


def seal(labels: NDArray[np.int64], test: NDArray[np.uint8], skipped: Mapping[int, str]) -> str:
    """A digest of what a file holds besides pixels."""
    return hashlib.sha256(labels.tobytes() + test.tobytes() + repr(sorted(skipped.items())).encode()).hexdigest()


def _position(pixels: Path, journal: Path, pictures: Pictures) -> tuple[int, dict[int, str]]:
    """How many pictures a maker before has done, and which it could not read; none if what it left does not fit.

    The journal is cut behind the last line that is whole.
    """
    total, each = len(pictures.labels), pictures.nbytes // max(1, len(pictures.labels))
    done, skipped, good = 0, dict[int, str](), 0
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        size = pixels.stat().st_size
        for line in journal.read_bytes().splitlines(keepends=True):
            entry = json.loads(line)
            to, new = entry["done"], {int(number): str(reason) for number, reason in entry["skipped"].items()}
            fits = done <= to <= total and all(done <= number < to for number in new)
            if not fits or size < HEADER + (to - len(skipped) - len(new)) * each:
                break
            done, skipped, good = to, skipped | new, good + len(line)
    with suppress(FileNotFoundError):
        os.truncate(journal, good)
    return done, skipped


def _read(pictures: Pictures, done: int) -> Iterator[list[Tensor | str]]:
    """Block by block, pictures or what is wrong with them."""

    def one(number: int) -> Tensor | str:
        try:
            return pictures.read(number)
        except InputError as error:
            if pictures.all_or_none:
                raise
            return str(error).partition(": ")[2].rstrip(".") or str(error)

    threads = min(THREADS, os.cpu_count() or 1) if pictures.by_threads else 1
    # each picture is read with warnings off, which threads would otherwise switch on again for one another
    with warnings.catch_warnings(), ThreadPoolExecutor(threads, "ictrl-decoding") as pool:
        warnings.simplefilter("ignore")
        try:
            for start in range(done, len(pictures.labels), BLOCK):
                yield list(pool.map(one, range(start, min(start + BLOCK, len(pictures.labels)))))
        finally:
            pool.shutdown(cancel_futures=True)


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"Expected {_size(needed)} of free space in {folder} for the decoded pictures but it has {_size(free)}: "
            'set the variable ICTRL_DATA to a larger disk\'s folder, or stream.cache to "never".'
        )


def _size(nbytes: int) -> str:
    """
    >>> _size(1_234_000_000), _size(5_000_000)
    ('1.2 GB', '5 MB')
    """
    return f"{nbytes / 1e9:.1f} GB" if nbytes >= 1e9 else f"{max(1, round(nbytes / 1e6))} MB"


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def _bar(total: int, done: int, what: str) -> Iterator[Callable[[int], Any]]:
    """Says what is about to be made; shows on a terminal how far it has come."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, markup=False, highlight=False)
    goes_on = f", {done:,} of which are there" if done else ""
    console.print(f"Decoding {total:,} pictures once{goes_on}: {what}", soft_wrap=True)
    columns = TextColumn(TITLE), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(TITLE, total=total, completed=done)
        yield lambda count: bars.advance(task, count)
