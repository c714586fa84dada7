"""Images and labels that are given as arrays, checked and turned into tensors. Errors name the array that is wrong."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ictrl.errors import InputError
from ictrl.shapes import Int, Integer, UInt8

Array = NDArray[Any] | Tensor
Named = tuple[str, object]  # an array, and what the user calls it
COLOURS = (1, 3)  # channels that images may have before they are converted


def labelled_images(images: Named, labels: Named, where: str) -> tuple[UInt8[Tensor, "n c h w"], Int[Tensor, " n"]]:
    """Images and as many labels, on the CPU. Errors name the arrays and end in `where`, such as " of task 2"."""
    X, y = _images(*images, where), labels_of(*labels, where)
    if len(X) != len(y):
        raise InputError(
            f"Expected a label in {labels[0]} for each of the {len(X)} images in {images[0]}{where} but got {len(y)}."
        )
    return X, y


def channels_first(images: Array, what: str, channels: Collection[int] = COLOURS) -> Array:
    """A view of images (n, height, width), or with channels after or before these two, as (n, channels, …)."""
    shape = tuple(images.shape)
    if len(shape) == 4 and shape[3] in channels:
        return images.permute(0, 3, 1, 2) if isinstance(images, Tensor) else images.transpose(0, 3, 1, 2)
    if len(shape) == 4 and shape[1] in channels:
        return images
    if len(shape) == 3 and shape[2] > max(4, *channels):  # fewer columns than that are the channels of one picture
        return images[:, None]
    known = " or ".join(map(str, sorted(channels)))
    remedies = {
        2: ": pictures that lie in rows are brought into shape by reshape(n, height, width)",
        3: ": a single picture becomes a stack of one by picture[None]",
        4: ": leave out the channels that are no colours",
    }
    raise InputError(
        f"Expected {what} of shape (n, height, width), (n, height, width, {known}) or (n, {known}, height, width) "
        f"but got {shape}{remedies.get(len(shape), '')}."
    )


def labels_of(name: str, given: object, where: str) -> Int[Tensor, " n"]:
    """One whole number per image, on the CPU."""
    given = np.asarray(given) if isinstance(given, list | tuple) else given
    array, dtype = _array(name, given, where)
    if array.ndim != 1 or not dtype.startswith(("int", "uint")):
        raise InputError(
            f"Expected {name}{where} as one whole number per image but got {dtype} of shape {tuple(array.shape)}."
        )
    numbers = array.detach().cpu().numpy() if isinstance(array, Tensor) else array
    if dtype == "uint64" and numbers.size and numbers.max() > np.iinfo(np.int64).max:
        raise InputError(f"Expected labels below 2**63 as {name}{where} but got {numbers.max()}: number them anew.")
    return torch.from_numpy(numbers.astype(np.int64))


def check_labels(labels: Integer[Tensor, " n"], classes: int, path: Path) -> None:
    """Refuse labels of a file that are beyond the last of its classes, which are counted from 0."""
    highest = int(labels.max())
    if highest >= classes:
        raise InputError(f"Expected labels from 0 to {classes - 1} in {path} but got {highest}: it is another file.")


def _images(name: str, given: object, where: str) -> UInt8[Tensor, "n c h w"]:
    array, dtype = _array(name, given, where)
    if dtype != "uint8":
        missing = "float" in dtype and bool((array.isnan() if isinstance(array, Tensor) else np.isnan(array)).any())
        gaps = " with NaN in it" if missing else ""
        raise InputError(
            f"Expected uint8 images (0 to 255) as {name}{where} but got {dtype}{gaps}: scale and convert them."
        )
    shape = tuple(array.shape)
    if len(shape) != 4:
        raise InputError(f"Expected {name}{where} of shape (n, channels, height, width) but got {shape}.")
    if 0 in shape:
        raise InputError(f"Expected images as {name}{where} but got none: its shape is {shape}.")
    if isinstance(array, Tensor):
        return array.detach().cpu()
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))  # PyTorch warns of arrays that are read-only


def _array(name: str, given: object, where: str) -> tuple[Array, str]:
    """The array, and the name of its type, which is the same in NumPy and PyTorch."""
    if not isinstance(given, np.ndarray | Tensor):
        raise InputError(f"Expected {name}{where} as a NumPy array or a tensor but got {type(given).__name__}.")
    return given, given.dtype.name if isinstance(given, np.ndarray) else str(given.dtype).removeprefix("torch.")
