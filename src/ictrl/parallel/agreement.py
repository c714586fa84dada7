"""What processes of a group agree on: when to stop, what the first one has found, that they are still alike."""

from collections.abc import Iterable
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ictrl.errors import ProcessesError
from ictrl.parallel.sharing import as_bytes, collective, group, shared

Result = TypeVar("Result")


def any_of(flag: bool) -> bool:
    """Whether any process of the group says so; all of them ask."""
    if group() is None:
        return flag
    asked = torch.tensor(int(flag))
    collective(dist.all_reduce, asked, dist.ReduceOp.MAX)
    return bool(asked)


def wait_for_all() -> None:
    """Until every process of the group has come here."""
    any_of(False)


def from_first(value: Result) -> Result:
    """What the first process of the group has, for all of them; it is small."""
    if group() is None:
        return value
    found = [value]
    collective(dist.broadcast_object_list, found)
    return found[0]


def alike(tensors: Iterable[Tensor]) -> bool:
    """Whether all processes of the group hold the same numbers, by sums of each tensor."""
    if shared() is None:
        return True
    sums = torch.stack([t.detach().double().abs().sum() for t in tensors]).nan_to_num()
    extremes = torch.cat([sums, -sums])
    collective(dist.all_reduce, extremes, dist.ReduceOp.MAX)
    return bool((extremes[: len(sums)] == -extremes[len(sums) :]).all())


@torch.no_grad()
def as_first(tensors: Iterable[Tensor]) -> None:
    """Put the first process's numbers in the place of everyone's: equal already, but for rounding of other devices."""
    if shared() is None:
        return
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    shapes = [(str(dtype), [tuple(tensor.shape) for tensor in some]) for (dtype, _), some in kinds.items()]
    if any_of(from_first(shapes) != shapes):
        raise ProcessesError(
            "Expected processes that learn together to remember alike but they keep different numbers: use devices of "
            "one kind, and the same versions everywhere."
        )
    for some in kinds.values():
        flat = torch.cat([tensor.flatten() for tensor in some])
        collective(dist.broadcast, as_bytes(flat), 0)
        for tensor, whole in zip(some, flat.split([tensor.numel() for tensor in some])):
            tensor.copy_(whole.view(tensor.shape))
