"""How pictures become a file: block by block, with a journal of how far it has come.

A maker that is stopped or killed leaves the pixels under a temporary name, and whoever needs the file next goes on from
there. The journal never tells of pixels that are not on the disk, and each of its lines is sealed together with the
pixels that it tells of: what has been damaged meanwhile is decoded again. The file gets its name when it is whole.
"""

import hashlib
import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ictrl.data import picture_source
from ictrl.data.image_file import HEADER, header, sums_of
from ictrl.data.picture_source import FORMAT, Pictures, Unreadable, is_withheld, read_blocks, readable
from ictrl.errors import InputError
from ictrl.files import Log, flush_folder, remove, write_beginning
from ictrl.limits import open_regular

logger = logging.getLogger(__name__)

FLUSHED = 2**26  # bytes of pixels that are decoded again, at most, after a maker was killed
TITLE = "decoding pictures"


@dataclass
class Position:
    """How far a maker has come."""

    done: int = 0
    """pictures"""
    skipped: dict[int, str] = field(default_factory=dict)
    """those of them that cannot be read, and why"""
    again: list[int] = field(default_factory=list)
    """those of these that the system did not give, and may give later"""
    sums: list[NDArray[np.int64]] = field(default_factory=list)
    """of the images of the others, some in each array"""
    journal: int = 0
    """bytes of the journal that say so"""


def make(pictures: Pictures, digest: str, path: Path) -> None:
    """Decode all pictures into the file, from where a maker before has come to."""
    pixels, journal = path.with_suffix(".pixels"), path.with_suffix(".journal")
    known = _position(pixels, journal, pictures)
    each, total, begun = math.prod(pictures.shape), len(pictures.labels), known.done
    _check_space(path.parent, (total - begun) * each)
    with (
        _bar(total, begun, f"{_size(pictures.nbytes)} into {path.parent}") as advance,
        Log(journal, known.journal) as log,
        Log(pixels, HEADER + (begun - len(known.skipped)) * each) as file,
    ):
        new = Position(begun)
        try:
            for block in read_blocks(pictures, begun):
                new = _with_block(new, block, file)
                if sum(map(len, new.sums)) * each >= FLUSHED or new.done == total:
                    _keep(known, new, file, log)
                    new = Position(known.done)
                advance(len(block))
        except KeyboardInterrupt:
            if new.done > known.done:
                _keep(known, new, file, log)
            logger.warning(
                "stopped: %s of %s pictures are decoded and kept; the next command that needs them goes on there",
                f"{known.done:,}",
                f"{total:,}",
            )
            raise
        if pictures.digest() != digest:
            remove([pixels, journal])
            raise InputError(f"Expected {pictures.where} to stay as it is while it is decoded but it has changed.")
        begin = _finish(pictures, digest, known, file)
    write_beginning(pixels, begin)
    os.replace(pixels, path)
    flush_folder(path.parent)
    remove([journal])


def _with_block(new: Position, block: list[Tensor | Unreadable], file: Log) -> Position:
    """What is new since the journal was written, and a block more; its pixels are written."""
    unreadable = {number: image for number, image in enumerate(block, new.done) if isinstance(image, Unreadable)}
    sums = []
    if images := [image.numpy() for image in block if not isinstance(image, Unreadable)]:
        found = np.stack(images)
        file.write(found.tobytes())
        sums = [sums_of(found)]
    return Position(
        new.done + len(block),
        new.skipped | {number: image.reason for number, image in unreadable.items()},
        new.again + [number for number, image in unreadable.items() if image.again],
        new.sums + sums,
    )


def _keep(known: Position, new: Position, file: Log, log: Log) -> None:
    """Write what is new into the journal; from now on it is known."""
    file.flush()  # the journal never tells of pixels that are not on the disk
    told = {"done": new.done, "skipped": new.skipped, "again": new.again}
    log.add(json.dumps({**told, "seal": seal(new.done, new.skipped, new.again, *new.sums)}))
    log.flush()
    known.done = new.done
    known.skipped |= new.skipped
    known.again += new.again
    known.sums += new.sums


def _finish(pictures: Pictures, digest: str, known: Position, file: Log) -> bytes:
    """Write what stands behind the pixels; returns what is to stand before them."""
    labels, test = readable(pictures, known.skipped)
    sums = np.concatenate([np.zeros(0, np.int64), *known.sums])
    sealed = seal(labels, test, sums, known.skipped, known.again)
    told = {"format": FORMAT, "of": pictures.where, "digest": digest, "seal": sealed}
    about = json.dumps({**told, "skipped": known.skipped, "again": known.again}).encode()
    file.write(b"".join([labels.tobytes(), test.tobytes(), sums.tobytes(), about]))
    file.flush()
    n = len(labels)
    arrays = {"images": ("uint8", (n, *pictures.shape)), "labels": ("int64", (n,)), "test": ("uint8", (n,))}
    return header({**arrays, "sums": ("int64", (n,)), "about": ("uint8", (len(about),))})


def seal(*parts: object) -> str:
    """A digest of arrays, numbers, and of pictures that are skipped."""
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            sha.update(part.tobytes())
        else:
            sha.update(repr(sorted(part.items()) if isinstance(part, dict) else part).encode() + b"\n")
    return sha.hexdigest()


def _position(pixels: Path, journal: Path, pictures: Pictures) -> Position:
    """How far a maker before has come: as far as the journal is whole, and the pixels are those that it tells of."""
    found, total, each = Position(), len(pictures.labels), math.prod(pictures.shape)
    with (
        suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, InputError),
        open_regular(journal) as lines,
        open_regular(pixels) as file,
    ):
        file.seek(HEADER)
        for line in lines:
            entry = json.loads(line)
            to, again = entry["done"], entry["again"]
            skipped = {int(number): str(reason) for number, reason in entry["skipped"].items()}
            n = to - found.done - len(skipped)
            whole = line.endswith(b"\n") and found.done <= to <= total
            if not (whole and 0 <= n * each <= FLUSHED + picture_source.BLOCK * each):
                break
            sums = sums_of(np.frombuffer(file.read(n * each), np.uint8).reshape(n, *pictures.shape))
            if entry["seal"] != seal(to, skipped, again, sums):
                break
            if not all(is_withheld(pictures, number) for number in again):
                break
            found.skipped |= skipped
            found.again += again
            found.sums.append(sums)
            found.done, found.journal = to, found.journal + len(line)
    return found


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        shown = f"{_size(needed)}", f"{_size(free)}"
        wanted, there = shown if shown[0] != shown[1] else (f"{needed:,} bytes", f"{free:,}")
        raise InputError(
            f"Expected {wanted} of free space in {folder} for the decoded pictures but it has {there}: "
            'set the variable ICTRL_DATA to a larger disk\'s folder, or stream.cache to "never".'
        )


def _size(nbytes: int) -> str:
    """
    >>> _size(1_234_000_000), _size(5_000_000)
    ('1.2 GB', '5 MB')
    """
    return f"{nbytes / 1e9:.1f} GB" if nbytes >= 1e9 else f"{max(1, round(nbytes / 1e6))} MB"


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
