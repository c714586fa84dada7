"""Images and labels in an `.npz` file, as NumPy's `savez` writes it.

The arrays are called x_train, y_train, x_test, y_test, or images, labels, test_images, test_labels. Images are uint8
of shape (n, height, width), (n, height, width, channels) or (n, channels, height, width).
"""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from numpy.typing import NDArray
from torch import Tensor

from ictrl.data.dataset import Dataset, numbered
from ictrl.data.resize import fit
from ictrl.errors import InputError

NAMES = (("x_train", "y_train", "x_test", "y_test"), ("images", "labels", "test_images", "test_labels"))
COLOURS = (1, 3)


def read_npz(path: Path, image_size: int, channels: int) -> Dataset:
    """The dataset in the file; arrays of Python objects are refused, because reading them could run code."""
    (images, labels), (test_images, test_labels) = (_part(*pair, path) for pair in _load(path))
    return Dataset(
        name=path.stem,
        images=fit(images, image_size, channels),
        labels=labels,
        test_images=fit(test_images, image_size, channels),
        test_labels=test_labels,
        class_names=numbered(labels),
    )


Named = tuple[str, NDArray[Any]]


def _load(path: Path) -> list[tuple[Named, Named]]:
    """Images and labels, each with its name in the file: those of the training part, then those of the test part."""
    if not path.is_file():
        raise InputError(f"Expected an .npz file but {path} is {'a folder' if path.exists() else 'not there'}.")
    wanted = " or ".join(", ".join(names) for names in NAMES)
    try:
        with path.open("rb") as opened:
            file = np.load(opened, allow_pickle=False)
            if isinstance(file, np.ndarray):  # from an .npy file
                raise InputError(f"Expected an .npz file with {wanted} but {path} holds a single array.")
            names = next((names for names in NAMES if set(names) <= set(file.files)), None)
            if names is None:
                raise InputError(f"Expected {wanted} in {path} but got {', '.join(file.files) or 'nothing'}.")
            arrays = [(name, file[name]) for name in names]
    except InputError:
        raise
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        reason = f"something else ({error})"
        if "allow_pickle" in str(error):  # NumPy says so of every file that it does not know
            reason = "arrays of Python objects" if zipfile.is_zipfile(path) else "something else"
        raise InputError(
            f"Expected an .npz file with arrays of numbers but {path} holds {reason}: write it with numpy.savez."
        ) from None
    return [(arrays[0], arrays[1]), (arrays[2], arrays[3])]


def _part(images: Named, labels: Named, path: Path) -> tuple[UInt8[Tensor, "n c h w"], Int[Tensor, " n"]]:
    X, y = _images(*images, path), _labels(*labels, path)
    if len(X) != len(y):
        raise InputError(
            f"Expected a label in {labels[0]} for each of the {len(X)} images in {images[0]} of {path} "
            f"but got {len(y)}."
        )
    return X, y


def _images(name: str, array: NDArray[Any], path: Path) -> UInt8[Tensor, "n c h w"]:
    if array.dtype != np.uint8:
        gaps = " with NaN in it" if array.dtype.kind == "f" and np.isnan(array).any() else ""
        raise InputError(
            f"Expected uint8 images (0 to 255) as {name} in {path} but got {array.dtype}{gaps}: scale and convert."
        )
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[3] in COLOURS:
        array = array.transpose(0, 3, 1, 2)
    elif array.ndim != 4 or array.shape[1] not in COLOURS:
        raise InputError(
            f"Expected {name} in {path} of shape (n, height, width), (n, height, width, 1 or 3) or "
            f"(n, 1 or 3, height, width) but got {array.shape}."
        )
    if not array.size:
        raise InputError(f"Expected images as {name} in {path} but got none: its shape is {array.shape}.")
    return torch.from_numpy(np.ascontiguousarray(array))


def _labels(name: str, array: NDArray[Any], path: Path) -> Int[Tensor, " n"]:
    if array.ndim == 2 and array.shape[1] == 1:  # as Keras has the labels of CIFAR
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"Expected {name} in {path} as one whole number an image but got {array.dtype} of shape {array.shape}."
        )
    return torch.from_numpy(array.astype(np.int64))
