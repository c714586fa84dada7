"""Whether a file holds the learner that its recipe describes: compared before it is allocated, and tried afterwards.

A file of a few kilobytes may have a recipe of networks of gigabytes. So the learner is first built of tensors that have
a shape and a type but no memory; networks that are larger than such a file may ask for are refused, and their tensors
are compared with the file's by name, shape and type.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ictrl.errors import ConfigError, InputError, NonFiniteError
from ictrl.limits import unpacks_too_much
from ictrl.methods.storage import ALL, TO_DRAW, Stored, fitting
from ictrl.training.state import group

if TYPE_CHECKING:
    from ictrl.methods.base import Learner

SAME_SHAPE = (
    *("normal_", "uniform_", "trunc_normal_", "random_"),
    *("relu", "relu_", "leaky_relu", "gelu", "silu", "tanh", "sigmoid", "dropout"),
    *("batch_norm", "group_norm", "layer_norm", "normalize"),
)


class _Uncomputed(TorchFunctionMode):
    """What keeps a tensor's shape is not computed without memory: for that, torch would import its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in SAME_SHAPE:
            tensor = args[0] if args else (kwargs or {}).get("tensor")
            if isinstance(tensor, Tensor) and tensor.is_meta:
                return tensor
        return func(*args, **(kwargs or {}))


def check_bytes(size: int, asked: int) -> None:
    """Refuse what takes much more memory than a file of that size."""
    if problem := unpacks_too_much(size, asked):
        raise InputError(f"its settings ask for {problem}")


def check_size(make: "Callable[[], Learner[Any]]", stored: Stored, path: str | Path, advice: str) -> None:
    """Refuse a file whose settings ask for other networks than it holds, or for far more memory than it has."""
    size = _bytes(stored.tensors)
    with fitting(path, advice):
        try:
            with torch.device("meta"), _Uncomputed():
                learner = make()
                learner.resize(len(stored.labels))
            networks = learner._state.networks
            held = list(networks) if stored.parts in (ALL, TO_DRAW) else list(learner.predicts_by or networks)
            expected = {name: network.state_dict() for name, network in networks.items()}
            check_bytes(size, sum(_bytes(state) for state in expected.values()))
            for name in held:
                _compare(name, expected[name], group(stored.tensors, name))
        except (ConfigError, OverflowError) as error:
            raise ValueError(str(error)) from None


def _compare(network: str, expected: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    """Whether a network's tensors are those of the file, by name, shape and type."""
    for name in [*expected, *found]:
        kinds = [_kind(part.get(name)) for part in (expected, found)]
        if kinds[0] != kinds[1]:
            raise InputError(f"expected {network}.{name[:80]} to be {kinds[0]} but got {kinds[1]}")


def _bytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def _kind(tensor: Tensor | None) -> str:
    return "none" if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def check_answers(learner: "Learner[Any]", path: str | Path) -> None:
    """Refuse a learner that cannot tell a picture: what it keeps is of another kind than its method's."""
    if not learner.labels:
        return
    network = learner.recipe.method.network
    shape = 1, network.channels, network.image_size, network.image_size
    with fitting(path, learner.misfit):
        try:
            scores = learner.class_scores(torch.zeros(shape, dtype=torch.uint8))
        except (NonFiniteError, IndexError, AttributeError, AssertionError, ArithmeticError) as error:
            raise ValueError(str(error) or type(error).__name__) from None
        if scores.shape != (1, len(learner.labels)) or not bool(scores.isfinite().all()):
            raise ValueError("its scores of a black picture are not those of its classes")
