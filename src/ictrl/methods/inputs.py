"""Checking what comes in: images, labels, devices. A mistake is refused where it enters, in one line."""

import operator
from collections.abc import Container, Iterable
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ictrl.errors import InputError
from ictrl.shapes import Int, UInt8

Images = TypeVar("Images", Tensor, NDArray[Any])


def checked_images(images: Tensor | NDArray[Any], channels: int, side: int) -> UInt8[Tensor, "n c h w"]:
    """The images as a tensor that shares their memory where it can, if they are uint8 and of the expected shape."""
    if not isinstance(images, Tensor | np.ndarray):
        raise InputError(f"Expected images as a tensor or an array but got {type(images).__name__}.")
    if images.dtype not in (torch.uint8, np.uint8):
        nan = " with NaN in it" if _has_nan(images) else ""
        raise InputError(f"Expected uint8 images (0 to 255) but got {images.dtype}{nan}: scale, round and convert.")
    if images.ndim != 4 or tuple(images.shape[1:]) != (channels, side, side):
        raise InputError(
            f"Expected images of shape (n, {channels}, {side}, {side}) but got {tuple(images.shape)}: "
            "resize or transpose them, or change the recipe's network."
        )
    if not len(images):
        raise InputError("Expected at least one image but got none.")
    if isinstance(images, np.ndarray):
        return torch.from_numpy(np.require(images, requirements=["C", "W"]))
    return images.detach()


def checked_labels(labels: ArrayLike, n: int) -> Int[Tensor, " n"]:
    """One whole number per image, as int64 on the CPU."""
    values = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.shape != (n,):
        raise InputError(f"Expected one label per image ({n}) but got labels of shape {values.shape}.")
    if values.dtype.kind not in "iu" or (values.dtype.kind == "u" and (values > np.iinfo(np.int64).max).any()):
        found = (
            "texts: number the classes, as np.unique(…, return_inverse=True) does"
            if values.dtype.kind in "US"
            else (str(values.dtype))
        )
        raise InputError(f"Expected whole numbers that fit into 64 bits as labels but got {found}.")
    return torch.from_numpy(values.astype(np.int64))


def check_new_classes(y: Int[Tensor, " n"], learned: Container[int]) -> None:
    """Refuse classes that were learned before, and classes of a single image."""
    present, counts = y.unique(return_counts=True)
    again = [int(label) for label in present if int(label) in learned]
    if again:
        raise InputError(
            f"Expected new classes but {listed(again)} {'was' if len(again) == 1 else 'were'} learned before: "
            "leave such images out of this task, or show them to review, if the method has it."
        )
    lonely = [int(label) for label in present[counts < 2]]
    if lonely:
        raise InputError(
            f"Expected at least 2 images per class but got one of class {listed(lonely)}: "
            "the mean of one image's features would be those features, and no image's features are kept."
        )


def whole_number(value: Any, name: str, least: int | None = None) -> int:
    """The value as an int, if it is one: Python's, NumPy's or a tensor of one."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"Expected {name} to be a whole number but got {value!r}.") from None
    if least is not None and number < least:
        raise InputError(f"Expected {name} to be at least {least} but got {number}.")
    return number


def resolve_device(name: str | torch.device) -> torch.device:
    """The device of that name; "auto" is a GPU where there is one. A device that is not there is refused."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError):
        there = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise InputError(
            f"Expected a device of this machine (auto, {', '.join(there)}) but got {str(name)!r}."
        ) from None
    return device


def like(result: Tensor, given: Images) -> Images:
    """An array for an array, a tensor on the same device for a tensor."""
    return result.cpu().numpy() if isinstance(given, np.ndarray) else result.to(given.device)


def listed(labels: Iterable[int]) -> str:
    """Labels for a message, the first few of many."""
    shown = [str(int(label)) for label in labels]
    return ", ".join(shown[:8]) + (f" … ({len(shown)} in all)" if len(shown) > 8 else "")


def _has_nan(images: Tensor | NDArray[Any]) -> bool:
    if isinstance(images, Tensor):
        return images.is_floating_point() and bool(images.isnan().any())
    return images.dtype.kind == "f" and bool(np.isnan(images).any())
