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

from ictrl.data.decoding import Pictures, make, seal
from ictrl.data.image_file import FileImages, open_arrays
from ictrl.data.layout import cache_folder
from ictrl.errors import InputError
from ictrl.files import make_folder
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
    if (found := _opened(path, digest)) is not None:
        return found
    make_folder(folder)
    with _alone(folder / f"{begin}.lock", path):
        if (found := _opened(path, digest)) is None:  # else another process has made it meanwhile
            _remove_former(folder, begin, path)
            make(pictures, digest, path)
            found = _opened(path, digest)
    if found is None:
        raise InputError(f"Expected {path}, which was just made, to be whole but it is not: is the disk in order?")
    return found


def _opened(path: Path, digest: str) -> Decoded | None:
    """What a file holds; None if there is none, or none that is whole."""
    try:
        arrays = open_arrays(path)
        labels, test, about = (arrays[name].copy() for name in ("labels", "test", "about"))
        told = json.loads(about.tobytes())
        skipped = {int(number): str(reason) for number, reason in told["skipped"].items()}
        pixels = arrays["images"]
        whole = len(pixels) == len(labels) == len(test) and told["seal"] == seal(labels, test, skipped)
        if not whole or told["digest"] != digest:
            raise ValueError("other contents")
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        logger.warning("%s is damaged (%s) and is made anew", path, error)
        return None
    return Decoded(FileImages(pixels, None, path), torch.from_numpy(labels), test.astype(bool), skipped)


def _remove_former(folder: Path, begin: str, path: Path) -> None:
    """What was made, or begun, of these pictures as they were before; processes that read it keep it until they end."""
    for other in folder.glob(f"{begin}-*"):
        if other.stem != path.stem:
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
            lock.acquire(poll_interval=0.2)
    except OSError as error:
        raise InputError(
            f"Expected to write into {lock_file.parent} but could not ({error.strerror}): "
            "set the variable ICTRL_DATA to a folder for decoded pictures."
        ) from None
    try:
        yield
    finally:
        lock.release()
