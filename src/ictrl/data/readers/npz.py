"""Images and labels in an `.npz` file, as NumPy's `savez` writes it, or in all such files of a folder.

The arrays are called x_train, y_train, x_test, y_test, or images, labels, test_images, test_labels. Images are uint8
of shape (n, height, width), (n, height, width, channels) or (n, channels, height, width). Without the two of the test
part, some images of each class are held out as test images.

Several files may be larger than memory together: then one at a time is in memory while their images become one file of
pixels (`decoded.py`). Each of them has to fit.
"""

import struct
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ictrl.config import StreamConfig
from ictrl.data.arrays import channels_first, labelled_images, labels_of
from ictrl.data.dataset import Dataset, numbered
from ictrl.data.decoded import decoded, stays_in_file
from ictrl.data.npy import Archive, open_npz
from ictrl.data.patience import check_stop
from ictrl.data.picture_source import Pictures
from ictrl.data.registry import register_dataset, required_root
from ictrl.data.resize import check_fitted, fit
from ictrl.data.shelf import are_held_out
from ictrl.errors import ConfigError, InputError
from ictrl.files import absolute
from ictrl.shapes import Int, UInt8

NAMES = (("x_train", "y_train", "x_test", "y_test"), ("images", "labels", "test_images", "test_labels"))

Named = tuple[str, NDArray[Any]]
UNREADABLE = OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error


class MissingError(InputError):
    """An archive without the arrays that are needed."""


@register_dataset("npz", "your own arrays: ictrl run pictures --stream.dataset npz --stream.root FILE.npz")
def read_npz(stream: StreamConfig, image_size: int, channels: int) -> Dataset:
    """The arrays in the file `stream.root`, or in the files of this folder in the order of their names.

    Arrays of Python objects are refused: reading them could run code.
    """
    path = required_root(stream, "an .npz file or a folder of such")
    files = _files(path)
    if len(files) > 1 or stream.cache == "always":  # one alone is read as a whole, whatever becomes of its images
        known = [_labels(file) for file in files]
        if odd := next((file for file, labels in zip(files, known) if len(labels) != len(known[0])), None):
            raise InputError(
                f"Expected test images in all files of {path} or in none but {odd.name} is unlike {files[0].name}."
            )
        counts = [sum(map(len, parts)) for parts in known]
        for file, count in zip(files, counts):
            check_fitted(count, image_size, channels, file)
        if stays_in_file(stream.cache, sum(counts) * channels * image_size**2):
            return _from_one_file(path, files, known, stream, image_size, channels)
    fitted = []
    for file in files:
        check_stop()
        pairs = [_part(*pair, file) for pair in _load(file)]
        check_fitted(sum(len(images) for images, _ in pairs), image_size, channels, file)
        fitted.append([(fit(images, image_size, channels), labels) for images, labels in pairs])
    whole = [_joined(pairs) for pairs in zip(*fitted)]
    (images, labels), (test_images, test_labels) = whole if len(whole) > 1 else _divided(*whole[0], stream.test_share)
    return Dataset(path.stem, images, labels, test_images, test_labels, numbered(labels))


def _joined(pairs: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Images and labels of several files, one behind the other; those of one file are not copied."""
    return pairs[0] if len(pairs) == 1 else (torch.cat([X for X, _ in pairs]), torch.cat([y for _, y in pairs]))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix == ".npz")
    if not files:
        raise InputError(f"Expected an .npz file or a folder of such but {path} is a folder without any.")
    return files


def _from_one_file(
    path: Path, files: list[Path], known: list[list[Tensor]], stream: StreamConfig, image_size: int, channels: int
) -> Dataset:
    """All images as one file of pixels, in the order of the files, those of the training part before the others."""
    order = [(number, part) for part in range(len(known[0])) for number in range(len(files))]
    labels = torch.cat([known[number][part] for number, part in order])
    ends = list(accumulate(len(known[number][part]) for number, part in order))

    @lru_cache(maxsize=1)
    def images_of(place: int) -> UInt8[Tensor, "n c h w"]:
        number, part = order[place]
        images, found = _part(*_load(files[number], only=part)[0], files[number])
        if not torch.equal(found, known[number][part]):
            raise InputError(f"Expected {files[number]} to stay as it is while it is read but it has changed.")
        return images

    def read(number: int) -> UInt8[Tensor, "c h w"]:
        place = bisect_right(ends, number)
        begin = ends[place - 1] if place else 0
        return fit(images_of(place)[number - begin, None], image_size, channels)[0]

    def described() -> list[str]:
        about = [(file, file.stat()) for file in files]
        return [f"{file.name} {stat.st_size} {stat.st_mtime_ns}" for file, stat in about]

    testing = np.arange(len(labels)) >= sum(len(parts[0]) for parts in known)
    pictures = Pictures(
        where=str(absolute(path)),
        labels=labels.numpy(),
        test=testing,
        image_size=image_size,
        channels=channels,
        read=read,
        described=described,
        by_threads=False,
        all_or_none=True,
    )
    found = decoded(pictures, path.stem)
    held = torch.from_numpy(found.test) if len(known[0]) > 1 else are_held_out(found.labels, stream.test_share)
    (images, kept), (test_images, test_labels) = found.part(~held), found.part(held)
    return Dataset(path.stem, images, kept, test_images, test_labels, numbered(kept))


def _labels(path: Path) -> list[Int[Tensor, " n"]]:
    """Those of the training part, then of the test part if there is one; images are not looked at."""
    with _opened(path) as (archive, names):
        arrays = [(name, _column(archive.read(name))) for name in names[1::2]]
    return [labels_of(*given, where=f" of {path}") for given in arrays]


def _load(path: Path, only: int | None = None) -> list[tuple[Named, Named]]:
    """Images and labels of the training part, then of the test part if there is one, each with its name in the file.

    Or those of one part only.
    """
    with _opened(path) as (archive, names):
        wanted = names if only is None else names[2 * only : 2 * only + 2]
        arrays = [(name, archive.read(name)) for name in wanted]
    return list(zip(arrays[::2], arrays[1::2]))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Archive, Sequence[str]]]:
    """An archive, and the names of the arrays that are to be read of it; what fails within is told in one line."""
    if not path.exists() or path.is_dir():
        raise InputError(f"Expected an .npz file but {path} is {'a folder' if path.exists() else 'not there'}.")
    wanted = " or ".join(", ".join(names) for names in NAMES)
    try:
        with open_npz(path) as archive:
            there = set(archive.members)
            names: Sequence[str] | None = next((names for names in NAMES if set(names) <= there), None)
            alone = next((names[:2] for names in NAMES if there & set(names) == set(names[:2])), None)
            names = names or alone
            if names is None:
                found = ", ".join([name[:40] for name in archive.members][:10]) or "nothing"
                raise MissingError(f"Expected {wanted} in {path} but got {found}.")
            yield archive, names
    except (MissingError, ConfigError):
        raise
    except UNREADABLE as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        holds = "is" if isinstance(error, InputError) else "holds"
        if isinstance(error, zipfile.BadZipFile):
            reason = f"something else ({error})"
        raise InputError(
            f"Expected an .npz file with arrays of numbers but {path} {holds} {reason}: write it with numpy.savez."
        ) from None


def _divided(images: Tensor, labels: Tensor, test_share: float) -> list[tuple[Tensor, Tensor]]:
    """Training and test part: of each class, about that share is held out, here and there among its images."""
    held = are_held_out(labels, test_share)
    return [(images[part], labels[part]) for part in (~held, held)]


def _part(images: Named, labels: Named, path: Path) -> tuple[UInt8[Tensor, "n c h w"], Int[Tensor, " n"]]:
    (images_name, X), (labels_name, y) = images, labels
    ordered = channels_first(X, f"{images_name} in {path}")
    return labelled_images((images_name, ordered), (labels_name, _column(y)), where=f" of {path}")


def _column(y: NDArray[Any]) -> NDArray[Any]:
    """Labels as they are, or out of a column: Keras keeps those of CIFAR in one."""
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
