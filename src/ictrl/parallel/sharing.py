"""What processes that learn together share: rows of a batch, sums over all of them.

Every process holds the same networks, optimisers, memory and random numbers, and takes its own rows of each batch. What
a loss is made of, such as the moments of classes, is added over all processes, so that each of them computes the loss
of the whole batch, to the last term. The gradient that it finds is the part of its own rows; the parts are added up
(`add_gradients`) before an optimiser moves. So every process moves in the same way, and a run may go on with any number
of them.

Two sums differ in their gradient:

    total      what a loss is made of: s = Σ_p s_p. Every process computes L(s) itself, and ∂L/∂s_p = ∂L/∂s.
    exchanged  what rows of all processes depend on, such as BatchNorm's statistics: ∂L/∂s_p = Σ_q (∂L/∂s)_q.

Who is not sharing is alone: then all of this does nothing and costs nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ictrl.errors import ProcessesError

BUCKET = 2**24  # numbers of gradients that are added up at once


@dataclass(frozen=True)
class Group:
    """The processes that learn together, and which of them this one is."""

    rank: int
    size: int


_group: ContextVar[Group | None] = ContextVar("group", default=None)
_sharing: ContextVar[bool] = ContextVar("sharing", default=False)


def group() -> Group | None:
    """The processes that this one learns with, if any: one alone may be a group too."""
    return _group.get()


def is_first() -> bool:
    """Whether this process is the one that writes and speaks."""
    found = _group.get()
    return found is None or found.rank == 0


@contextmanager
def member_of(group: Group) -> Iterator[None]:
    """Within it, this process is one of a group."""
    before = _group.set(group)
    try:
        yield
    finally:
        _group.reset(before)


@contextmanager
def sharing(share: bool = True) -> Iterator[None]:
    """Within it, all processes of the group do the same, each with its share of the rows."""
    before = _sharing.set(share and _group.get() is not None)
    try:
        yield
    finally:
        _sharing.reset(before)


def alone() -> Any:
    """Within it, this process does by itself what it is asked for, such as what only the first one does."""
    return sharing(False)


def shared() -> Group | None:
    """The group whose processes share rows just now; None if this one is alone."""
    return _group.get() if _sharing.get() else None


def collective(call: Callable[..., Any], *given: Any) -> None:
    """Something that all processes do at once; it fails where one of them is gone, or comes too late."""
    try:
        call(*given)
    except RuntimeError as error:
        reason = " ".join(str(error).split()).rpartition("] ")[2]  # without the place in somebody's source
        raise ProcessesError(f"Expected every process of this run to go on but one does not ({reason}).") from None


# Rows


def share(n: int) -> slice:
    """Of n rows, those of this process: parts of nearly one size, one behind the other."""
    found = shared()
    return slice(0, n) if found is None else _part(n, found.rank, found.size)


def _part(n: int, rank: int, size: int) -> slice:
    """
    >>> [_part(7, rank, 3) for rank in range(3)]
    [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
    """
    least, more = divmod(n, size)
    begin = rank * least + min(rank, more)
    return slice(begin, begin + least + (rank < more))


def mine(x: Tensor) -> Tensor:
    """The rows of a tensor that are this process's."""
    return x if shared() is None else x[share(len(x))]


def gathered(part: Tensor, n: int) -> Tensor:
    """The n rows of which every process has its share."""
    found = shared()
    return part if found is None else _joined(part, [_part(n, r, found.size) for r in range(found.size)])


def everyones(part: Tensor) -> Tensor:
    """The rows of all processes one behind the other, however many each of them has."""
    found = shared()
    if found is None:
        return part
    counts = torch.zeros(found.size, dtype=torch.int64)
    counts[found.rank] = len(part)
    collective(dist.all_reduce, counts)
    return _joined(part, [slice(0, n) for n in counts.tolist()])


def _joined(part: Tensor, parts: list[slice]) -> Tensor:
    """What all processes have, padded to one size on the way."""
    lengths = [rows.stop - rows.start for rows in parts]
    padded = part.new_zeros(max(lengths), *part.shape[1:])
    padded[: len(part)] = part
    whole = [torch.empty_like(padded) for _ in lengths]
    collective(dist.all_gather, [as_bytes(rows) for rows in whole], as_bytes(padded))
    return torch.cat([rows[:n] for rows, n in zip(whole, lengths)])


def as_bytes(x: Tensor) -> Tensor:
    """The same memory in a type that everything can send."""
    return x.flatten().view(torch.uint8)


def spread(compute: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """What a function gives for each row, every process computing its share."""
    found = shared()
    if found is None or len(x) < found.size:
        return compute(x)
    return gathered(compute(mine(x)), len(x))


# Sums


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return added(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class _Exchanged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return added(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return added(grad)


def added(x: Tensor) -> Tensor:
    """The sum over processes, for who knows that they share: a gradient is computed in a thread that is not told."""
    whole = x.clone(memory_format=torch.contiguous_format)
    collective(dist.all_reduce, whole)
    return whole


def total(x: Tensor) -> Tensor:
    """The sum over processes of what a loss is made of."""
    return x if shared() is None else _Total.apply(x)


def exchanged(x: Tensor) -> Tensor:
    """The sum over processes of what the rows of all of them depend on."""
    return x if shared() is None else _Exchanged.apply(x)


def means(*values: Tensor) -> Tensor:
    """The mean of the numbers of each tensor, of which every process has some rows; all in one sum."""
    if shared() is None:
        return torch.stack([value.mean() for value in values])
    sums = torch.stack([value.sum() for value in values])
    counts = [torch.full((), float(value.numel()), dtype=sums.dtype, device=sums.device) for value in values]
    sums, numbers = total(torch.stack([sums, torch.stack(counts)]))
    return sums / numbers


def mean(values: Tensor) -> Tensor:
    """The mean of the numbers of a tensor of which every process has some rows."""
    return values.mean() if shared() is None else means(values)[0]


@torch.no_grad()
def add_gradients(optimiser: torch.optim.Optimizer) -> None:
    """Before an optimiser moves: the gradient of each parameter becomes the sum of all processes' parts."""
    if shared() is None:
        return
    bucket: list[Tensor] = []
    for grad in (p.grad for part in optimiser.param_groups for p in part["params"] if p.grad is not None):
        if bucket and (sum(g.numel() for g in bucket) + grad.numel() > BUCKET or grad.dtype != bucket[0].dtype):
            _add(bucket)
            bucket = []
        bucket.append(grad)
    if bucket:
        _add(bucket)


def _add(bucket: list[Tensor]) -> None:
    flat = torch.cat([grad.flatten() for grad in bucket])
    collective(dist.all_reduce, flat)
    for grad, whole in zip(bucket, flat.split([grad.numel() for grad in bucket])):
        grad.copy_(whole.view(grad.shape))
