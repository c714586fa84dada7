"""Pictures decoded once into a file, from which they are read whenever they are needed: for data larger than memory.

The file holds the pixels as the network takes them, labels, and what could not be read. Its name ends in a digest of
what it was made of: names, sizes and times of all files, side and channels, what decodes them and what it refuses. So
runs of any settings share it, and pictures that have changed have another; the file of the former ones is removed.
`decoding.py` makes it, in one process while others wait for it.
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ictrl.data.decoding import make, seal
from ictrl.data.image_file import FileImages, open_arrays
from ictrl.data.layout import cache_folder
from ictrl.data.patience import check_stop
from ictrl.data.picture_source import Pictures, is_withheld, readable
from ictrl.errors import InputError
from ictrl.files import is_failure, make_folder
from ictrl.shapes import Int

logger = logging.getLogger(__name__)

SHARE = 0.25  # of this machine's memory: images that take more stay in a file, if settings leave it open
NAME = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Decoded:
    """Pictures that were readable, and what was wrong with the others."""

    images: FileImages
    labels: Int[Tensor, " n"]
    test: NDArray[np.bool_]
    skipped: dict[int, str]
    """by the picture's number among all that there were"""

    def part(self, which: NDArray[np.bool_] | Tensor) -> tuple[FileImages, Int[Tensor, " m"]]:
        """Images and labels of some of them."""
        rows = torch.as_tensor(which).nonzero().flatten()
        return self.images.at(rows), self.labels[rows]


def stays_in_file(cache: Literal["auto", "always", "never"], nbytes: int) -> bool:
    """Whether images of so many bytes are to be read from a file rather than held in memory."""
    return cache == "always" or (cache == "auto" and nbytes > SHARE * machine_memory())


def machine_memory() -> int:
    """Bytes of memory that this process may use at most: the machine's, or what its control group allows."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        found = 2**63 - 1  # unknown: nothing is too much
    with suppress(OSError, ValueError):
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return found


def decoded_folder() -> Path:
    """Where files of decoded pictures lie."""
    return cache_folder() / "decoded"


def decoded(pictures: Pictures, name: str) -> Decoded:
    """The pictures from their file, which is made first where there is none; `name` is what the file's begins with."""
    digest, folder = pictures.digest(), decoded_folder()
    size = f"{pictures.image_size}x{pictures.image_size}x{pictures.channels}"
    place = hashlib.sha256(pictures.where.encode(errors="surrogateescape")).hexdigest()[:8]
    begin = f"{NAME.sub('-', name)[:40]}-{size}-{place}"
    path = folder / f"{begin}-{digest[:24]}.safetensors"
    if (found := _opened(path, digest, pictures, told=False)) is not None:
        return found
    make_folder(folder)
    with _alone(folder / f"{begin}.lock", path):
        if (found := _opened(path, digest, pictures)) is None:  # else another process has made it meanwhile
            _remove_former(folder, begin, path)
            make(pictures, digest, path)
            found = _opened(path, digest, pictures, just_made=True)
    if found is None:
        raise InputError(f"Expected {path}, which was just made, to be whole but it is not: is the disk in order?")
    return found


def _opened(
    path: Path, digest: str, pictures: Pictures, *, told: bool = True, just_made: bool = False
) -> Decoded | None:
    """What a file holds; None if there is none, or none that is whole and of these pictures."""
    try:
        arrays = open_arrays(path)
        about = json.loads(arrays["about"].tobytes())
        skipped = {int(number): str(reason) for number, reason in about["skipped"].items()}
        labels, test = readable(pictures, skipped)
        pixels, sums, again = arrays["images"], arrays["sums"].copy(), about["again"]
        if about["digest"] != digest or about["seal"] != seal(labels, test, sums, skipped, again):
            raise ValueError("other contents")
        if pixels.shape != (len(labels), *pictures.shape) or pixels.dtype != np.uint8 or sums.dtype != np.int64:
            raise ValueError("another shape")
        if not (np.array_equal(arrays["labels"], labels) and np.array_equal(arrays["test"], test)):
            raise ValueError("other labels")
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, InputError) as error:
        if told:
            logger.warning("%s is damaged (%s) and is made anew", path, error)
        return None
    if not just_made and not all(is_withheld(pictures, number) for number in again):
        return None
    with suppress(OSError):
        if not path.with_suffix(".pixels").exists():  # else somebody makes it anew
            path.with_suffix(".journal").unlink(missing_ok=True)  # left by a maker that was killed as it ended
    return Decoded(FileImages(pixels, None, path, sums), torch.from_numpy(labels), test.astype(bool), skipped)


def _remove_former(folder: Path, begin: str, path: Path) -> None:
    """What was made, or begun, of these pictures as they were before; processes that read it keep it until they end."""
    ours = re.compile(re.escape(begin) + r"-[0-9a-f]{24}\.(safetensors|pixels|journal)")
    for other in folder.iterdir():
        if ours.fullmatch(other.name) and other.stem != path.stem:
            with suppress(OSError):
                other.unlink()


@contextmanager
def _alone(lock_file: Path, what: Path) -> Iterator[None]:
    """One maker at a time; the system lets go of the lock when its holder dies."""
    import filelock

    lock = filelock.FileLock(lock_file)
    try:
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            logger.warning("another process is making %s: waiting for it", what)
            while not lock.is_locked:
                check_stop()
                with suppress(filelock.Timeout):
                    lock.acquire(timeout=0.4, poll_interval=0.2)
    except OSError as error:
        if is_failure(error):
            raise
        raise InputError(
            f"Expected to write into {lock_file.parent} but could not ({error.strerror}): "
            "set the variable ICTRL_DATA to a folder for decoded pictures."
        ) from None
    try:
        yield
    finally:
        lock.release()
