"""Images in every form that people have them in, as what a network takes: uint8 (n, channels, side, side).

Arrays and tensors of uint8 or of floats from 0 to 1, channels before, after or none; pictures of Pillow; lists, data
sets and loaders of any of these, with or without labels. Sizes and colours are brought to the network's as pictures in
folders are (`data.resize`). What fits already is passed on as it is; of anything else only the uint8 result is held.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from ictrl.data.arrays import COLOURS, channels_first
from ictrl.data.pictures import explained, from_picture
from ictrl.data.resize import CHUNK_PIXELS, fit
from ictrl.errors import InputError
from ictrl.shapes import UInt8

ACCEPTED = "images as an array, a tensor, a list of pictures, a dataset or a DataLoader"
OPEN = "PIL.Image.open opens a file"
IMAGE_KEYS = "image", "images", "img", "pixel_values"  # columns of rows that are dicts
LABEL_KEYS = "label", "labels"
EIGHT_BITS, SIXTEEN_BITS, DIGITS = 2**8 - 1, 2**16 - 1, 16  # largest values; the last is that of scikit-learn's digits


def checked_images(images: Any, channels: int, side: int) -> UInt8[Tensor, "n c h w"]:
    """The images as the network takes them; they share memory with what was given where that fits already."""
    return images_and_labels(images, channels, side)[0]


def images_and_labels(given: Any, channels: int, side: int) -> tuple[UInt8[Tensor, "n c h w"], list[Any] | None]:
    """The images, and their labels where they come together with them."""
    in_a_row = isinstance(given, np.ndarray) and given.dtype == object and given.ndim == 1  # a list for all we know
    if isinstance(given, Tensor | np.ndarray) and not in_a_row:
        return _batch(given, channels, side), None
    if isinstance(given, Mapping):
        parts = ", ".join(map(str, given))
        raise InputError(f"Expected {ACCEPTED} but got several ({parts}): give one of them.")
    images, labels = list[Tensor](), list[Any]()
    in_batches = isinstance(given, DataLoader) and given.batch_size is not None
    alone = in_batches and given.collate_fn is default_collate  # which makes a list of a tuple's parts
    for number, row in enumerate(_rows(given)):
        image, label = _parted(row[0] if alone and isinstance(row, list) and len(row) == 1 else row)
        if in_batches and isinstance(image, Tensor | np.ndarray):
            images.append(_batch(image, channels, side))
        elif in_batches:  # of a loader whose own `collate_fn` makes lists
            images.append(checked_images(image, channels, side))
        else:
            images.append(_picture(image, number, channels, side))
        labels += _listed(label, len(images[-1]))
    if not images:
        raise InputError("Expected at least one image but got none.")
    unlabelled = sum(label is None for label in labels)
    if 0 < unlabelled < len(labels):
        raise InputError(f"Expected a label for every image or for none but got none for {unlabelled}.")
    return torch.cat(images), None if unlabelled else labels


def _rows(given: Any) -> Iterator[Any]:
    """The items of anything that has some; a torch Dataset need not say where it ends but by its length."""
    if _pillow(given) or isinstance(given, str | bytes | PathLike):
        one = "a single picture: give [picture]" if _pillow(given) else f"{type(given).__name__}: {OPEN}"
        raise InputError(f"Expected {ACCEPTED} but got {one}.")
    if isinstance(given, Iterable):
        return iter(given)
    if hasattr(given, "__getitem__") and hasattr(given, "__len__"):
        return (given[position] for position in range(len(given)))
    raise InputError(f"Expected {ACCEPTED} but got {type(given).__name__}.")


def _parted(row: Any) -> tuple[Any, Any]:
    """The image or images of a row, and what labels it has."""
    if isinstance(row, Mapping):
        image, label = (next((key for key in keys if key in row), None) for keys in (IMAGE_KEYS, LABEL_KEYS))
        if image is None:
            raise InputError(
                f"Expected a column image, and label for learning, but got {', '.join(map(str, row))}: rename them."
            )
        return row[image], None if label is None else row[label]
    if isinstance(row, tuple) and len(row) > 2:
        raise InputError(f"Expected (image, label) from a dataset but got {len(row)} parts.")
    if isinstance(row, tuple | list) and len(row) == 2 and not _shows_something(row[1]):
        return row[0], row[1]
    return (row[0], None) if isinstance(row, tuple) and len(row) == 1 else (row, None)


def _shows_something(part: Any) -> bool:
    """Whether the second of two is another picture, and no label."""
    return _pillow(part) or (isinstance(part, Tensor | np.ndarray) and part.ndim > 2)


def _listed(label: Any, n: int) -> list[Any]:
    """The labels of n images as a list: of one image a single label, of a batch as many as it has."""
    if isinstance(label, Tensor | np.ndarray):
        label = label.tolist()
    if label is None:
        return [None] * n
    return list(label) if isinstance(label, list | tuple) else [label]


def _pillow(picture: Any) -> bool:
    return hasattr(picture, "convert") and hasattr(picture, "mode")


def _picture(picture: Any, number: int, channels: int, side: int) -> UInt8[Tensor, "1 c h w"]:
    """One picture of any kind, as a batch of one."""
    if _pillow(picture):
        with explained(f"picture {number}"):
            return from_picture(picture, side, channels)[None]
    if not isinstance(picture, Tensor | np.ndarray):
        numbers, name = isinstance(picture, list | int | float), isinstance(picture, str | bytes | PathLike)
        remedy = ": np.array(images) makes an array of numbers" if numbers else f": {OPEN}" if name else ""
        raise InputError(f"Expected {ACCEPTED} but got {type(picture).__name__} as picture {number}{remedy}.")
    if picture.ndim not in (2, 3):
        raise InputError(
            f"Expected picture {number} of shape (height, width), with channels before or after these, "
            f"but got {tuple(picture.shape)}."
        )
    alone = picture[None]
    return _batch(alone if picture.ndim == 3 else alone[None], channels, side)


def _batch(images: Tensor | NDArray[Any], channels: int, side: int) -> UInt8[Tensor, "n c h w"]:
    images = images.detach() if isinstance(images, Tensor) else images
    pixels, wanted = _check_pixels(images), (channels, side, side)
    fits = images.ndim == 4 and tuple(images.shape[1:]) == wanted
    images = images if fits else channels_first(images, "images", {*COLOURS, channels})
    if pixels == "f":
        images = _from_floats(images)
    elif isinstance(images, np.ndarray):
        images = torch.from_numpy(np.require(images, requirements=["C", "W"]))
    return images if fits else fit(images, side, channels).contiguous()


def _check_pixels(images: Tensor | NDArray[Any]) -> str:
    """Refuse values that are no pixels, with the conversion that makes them such; "u" for bytes, "f" for floats."""
    name = str(images.dtype).removeprefix("torch.")
    kind = images.dtype.kind if isinstance(images, np.ndarray) else _kind(images)
    expected = f"Expected uint8 images, or floats from 0 to 1, but got {name}"
    if isinstance(images, Tensor) and (images.layout != torch.strided or images.is_meta):
        raise InputError(f"{expected} without its pixels: images.to_dense() makes them of a sparse tensor.")
    if kind not in "buif":
        raise InputError(f"{expected}: make an array of numbers of them.")
    if 0 in images.shape:
        raise InputError(f"Expected at least one image but got none: the shape is {tuple(images.shape)}.")
    if name == "uint8":
        return "u"
    to_bytes = "images.to(torch.uint8)" if isinstance(images, Tensor) else "images.astype(np.uint8)"
    if kind == "b":
        raise InputError(f"{expected}: convert by {to_bytes} * {EIGHT_BITS}.")
    low, high = float(images.min()), float(images.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError(f"{expected} with {'NaN' if math.isnan(low) else 'infinity'} in it: leave such images out.")
    if kind == "f" and low >= 0 and high <= 1:
        return "f"
    if low >= 0 and high <= SIXTEEN_BITS:
        most = DIGITS if high == DIGITS else EIGHT_BITS if high <= EIGHT_BITS else SIXTEEN_BITS
        bytes_in_wide_numbers = kind != "f" and most == EIGHT_BITS
        remedy = f"{to_bytes}{' * 255' if high <= 1 else ''}" if bytes_in_wide_numbers else f"images / {most}"
    elif kind == "f" and low >= -1 and high <= 1:
        remedy = "(images + 1) / 2"
    else:
        remedy = "(images - images.min()) / (images.max() - images.min()), or undo what normalised them"
    raise InputError(f"{expected} from {low:g} to {high:g}: convert by {remedy}.")


def _kind(images: Tensor) -> str:
    """NumPy's letter for what a tensor holds."""
    return (
        "f"
        if images.is_floating_point()
        else "c"
        if images.is_complex()
        else "b"
        if images.dtype == torch.bool
        else "i"
    )


def _from_floats(images: Tensor | NDArray[Any]) -> UInt8[Tensor, "n c h w"]:
    """Floats from 0 to 1 as bytes, a part at a time: a copy of all of them as float32 could be too much."""
    result = torch.empty(tuple(images.shape), dtype=torch.uint8)
    rows = max(1, CHUNK_PIXELS // math.prod(images.shape[1:]))
    for start in range(0, len(images), rows):
        part = images[start : start + rows]
        floats = part.float() if isinstance(part, Tensor) else torch.from_numpy(part.astype(np.float32))
        result[start : start + rows] = (floats * 255).round_().to(torch.uint8)
    return result
