"""Pictures that are to be decoded: what is known of them beforehand, and what each comes to, block by block."""

import errno
import hashlib
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ictrl.data.patience import check_stop
from ictrl.errors import InputError
from ictrl.limits import PICTURE_BYTES, PIXELS
from ictrl.shapes import UInt8

FORMAT = 2  # another one where the same pictures would become another file
BLOCK = 256  # pictures that are decoded at a time
THREADS = 4  # at most: each may hold a large picture
NAMED = (None, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR)  # a file that is none, or no picture


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
    def shape(self) -> tuple[int, int, int]:
        """Of one image."""
        return self.channels, self.image_size, self.image_size

    @property
    def nbytes(self) -> int:
        """Of all images, should every picture be readable."""
        return len(self.labels) * math.prod(self.shape)

    def digest(self) -> str:
        import PIL

        limits = PIXELS.value, PICTURE_BYTES.value
        sha = hashlib.sha256(repr((FORMAT, PIL.__version__, limits, self.image_size, self.channels)).encode())
        for line in self.described():
            check_stop()
            sha.update(line.encode(errors="surrogateescape") + b"\n")
        return sha.hexdigest()


class Unreadable(NamedTuple):
    """What takes the place of a picture."""

    reason: str
    again: bool
    """whether the disk or a permission was in the way, and not the picture's own contents"""


def read_blocks(pictures: Pictures, done: int) -> Iterator[list[Tensor | Unreadable]]:
    """Block by block, pictures or what is wrong with them; where it is stopped, a last block of those that are read."""
    total, threads = len(pictures.labels), min(THREADS, os.cpu_count() or 1) if pictures.by_threads else 1
    # each picture is read with warnings off, which threads would otherwise switch on again for one another
    with warnings.catch_warnings(), ThreadPoolExecutor(threads, "ictrl-decoding") as pool:
        warnings.simplefilter("ignore")
        try:
            for start in range(done, total, BLOCK):
                block: list[Tensor | Unreadable] = []
                try:
                    for found in pool.map(partial(read_one, pictures), range(start, min(start + BLOCK, total))):
                        block.append(found)
                        check_stop()
                except KeyboardInterrupt:
                    yield block
                    raise
                yield block
        finally:
            pool.shutdown(cancel_futures=True)


def read_one(pictures: Pictures, number: int) -> Tensor | Unreadable:
    """A picture, or what is wrong with it."""
    try:
        return pictures.read(number)
    except InputError as error:
        if pictures.all_or_none:
            raise
        reason, cause = str(error).partition(": ")[2].rstrip(".") or str(error), error.__context__
        return Unreadable(reason, isinstance(cause, OSError) and cause.errno not in NAMED)


def readable(pictures: Pictures, skipped: Mapping[int, str]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Labels of the pictures that are not skipped, and whether they are of the test part."""
    read = np.ones(len(pictures.labels), bool)
    read[list(skipped)] = False
    return pictures.labels[read], pictures.test[read].astype(np.uint8)


def is_withheld(pictures: Pictures, number: int) -> bool:
    """Whether the system does not give a picture, as before."""
    found = read_one(pictures, number)
    return isinstance(found, Unreadable) and found.again
