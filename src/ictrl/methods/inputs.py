"""Numbers and devices that come in, checked, and answers that go out. A mistake is refused where it enters."""

import operator
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from ictrl.errors import InputError

Images = TypeVar("Images", Tensor, NDArray[Any], Any)
"""What goes in as a tensor comes back as one; everything else that `intake` takes comes back as an array."""


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
        if device.type == "meta" == torch.get_default_device().type:
            return device  # where only the sizes of a learner are asked for
        if device.type != "cpu":
            torch.zeros(1, device=device).item()
    except Exception:  # a kind of device that torch knows but was not built for can fail in any way
        there = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise InputError(
            f"Expected a device of this machine (auto, {', '.join(there)}) but got {str(name)!r}."
        ) from None
    return device


def seeded(device: torch.device, seed: int) -> torch.Generator:
    """A generator on that device; where only sizes are asked for, one that no tensor asks."""
    return torch.Generator(device if device.type != "meta" else "cpu").manual_seed(seed)


def like(result: Tensor, given: Images) -> Images:
    """A tensor on the same device for a tensor, an array for everything else."""
    return result.to(given.device) if isinstance(given, Tensor) else result.cpu().numpy()


def check_features(Z: Any, d: int) -> None:
    """Refuse what is no tensor of features (n, d)."""
    if not isinstance(Z, Tensor) or not Z.is_floating_point() or Z.ndim != 2 or Z.shape[1] != d or not len(Z):
        got = f"{Z.dtype} of shape {tuple(Z.shape)}" if isinstance(Z, Tensor) else type(Z).__name__
        raise InputError(f"Expected features as a float tensor (n, {d}) but got {got}.")
