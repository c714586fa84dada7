"""Images and labels in an `.npz` file, as NumPy's `savez` writes it.

The arrays are called x_train, y_train, x_test, y_test, or images, labels, test_images, test_labels. Images are uint8
of shape (n, height, width), (n, height, width, channels) or (n, channels, height, width). Without the two of the test
part, some images of each class are held out as test images.
"""

import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from ictrl.config import StreamConfig
from ictrl.data.arrays import channels_first, labelled_images
from ictrl.data.dataset import Dataset, numbered
from ictrl.data.npy import open_npz
from ictrl.data.registry import register_dataset, required_root
from ictrl.data.resize import check_fitted, fit
from ictrl.data.shelf import are_held_out
from ictrl.errors import ConfigError, InputError
from ictrl.shapes import Int, UInt8

NAMES = (("x_train", "y_train", "x_test", "y_test"), ("images", "labels", "test_images", "test_labels"))

Named = tuple[str, NDArray[Any]]
UNREADABLE = OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error


class MissingError(InputError):
    """An archive without the arrays that are needed."""


@register_dataset("npz", "your own arrays: ictrl run pictures --stream.dataset npz --stream.root FILE.npz")
def read_npz(stream: StreamConfig, image_size: int, channels: int) -> Dataset:
    """The arrays in the file `stream.root`. Arrays of Python objects are refused: reading them could run code."""
    path = required_root(stream, "an .npz file")
    parts = [_part(*pair, path) for pair in _load(path)]
    check_fitted(sum(len(images) for images, _ in parts), image_size, channels, path)
    (images, labels), (test_images, test_labels) = parts if len(parts) > 1 else _divided(*parts[0], stream.test_share)
    return Dataset(
        name=path.stem,
        images=fit(images, image_size, channels),
        labels=labels,
        test_images=fit(test_images, image_size, channels),
        test_labels=test_labels,
        class_names=numbered(labels),
    )


def _load(path: Path) -> list[tuple[Named, Named]]:
    """Images and labels of the training part, then of the test part if there is one, each with its name in the file."""
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
            arrays = [(name, archive.read(name)) for name in names]
    except (MissingError, ConfigError):
        raise
    except (
        OSError,
        ValueError,
        EOFError,
        KeyError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
    ) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        holds = "is" if isinstance(error, InputError) else "holds"
        if isinstance(error, zipfile.BadZipFile):
            reason = f"something else ({error})"
        raise InputError(
            f"Expected an .npz file with arrays of numbers but {path} {holds} {reason}: write it with numpy.savez."
        ) from None
    return list(zip(arrays[::2], arrays[1::2]))


def _divided(images: Tensor, labels: Tensor, test_share: float) -> list[tuple[Tensor, Tensor]]:
    """Training and test part: of each class, about that share is held out, here and there among its images."""
    held = are_held_out(labels, test_share)
    return [(images[part], labels[part]) for part in (~held, held)]


def _part(images: Named, labels: Named, path: Path) -> tuple[UInt8[Tensor, "n c h w"], Int[Tensor, " n"]]:
    (images_name, X), (labels_name, y) = images, labels
    if y.ndim == 2 and y.shape[1] == 1:  # Keras keeps the labels of CIFAR as a column
        y = y[:, 0]
    ordered = channels_first(X, f"{images_name} in {path}")
    return labelled_images((images_name, ordered), (labels_name, y), where=f" of {path}")
