"""Modes that torch keeps per thread or process, and how they are put back wherever a computation is interrupted.

`torch.no_grad`, `torch.autocast` and streams are turned on and off by Python code, within which Ctrl-C may arrive: the
thread would go on without gradients for ever. Their own clean-up cannot help; whoever called can.
"""

import os
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch

from ictrl.nets.layers import exactly_within, no_longer_exact

Result = TypeVar("Result")

DEVICES = ("cpu", "cuda")


class Modes(NamedTuple):
    """Those of the thread that asks."""

    gradients: bool
    autocast: tuple[tuple[bool, torch.dtype], ...]
    nesting: int
    """of autocast: when it is back at 0, casts of weights are thrown away"""
    exact: frozenset[object]
    stream: torch.cuda.Stream | None

    @classmethod
    def now(cls) -> "Modes":
        autocast = tuple((torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in DEVICES)
        stream = torch.cuda.current_stream() if torch.cuda.is_initialized() else None
        return cls(torch.is_grad_enabled(), autocast, _nesting(), exactly_within(), stream)

    def put_back(self) -> None:
        """May be repeated, if it was interrupted itself."""
        if torch.is_grad_enabled() != self.gradients:
            torch.set_grad_enabled(self.gradients)
        for name, (enabled, dtype) in zip(DEVICES, self.autocast):
            torch.set_autocast_enabled(name, enabled)
            torch.set_autocast_dtype(name, dtype)
        while _nesting() > self.nesting:
            if not torch.autocast_decrement_nesting():
                torch.clear_autocast_cache()
        no_longer_exact(but=self.exact)
        if self.stream is not None and torch.cuda.current_stream() != self.stream:
            torch.cuda.set_stream(self.stream)


def undisturbed(computation: Callable[[], Result]) -> Result:
    """Call it, and put this thread's modes back as they were, whatever it raises and wherever."""
    before = Modes.now()
    try:
        return computation()
    finally:
        try:
            before.put_back()
        finally:  # once more, if a second Ctrl-C came in between
            before.put_back()


def _forked() -> None:
    """A process that was forked has none of the threads with which torch computes, and would wait for them for ever."""
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _nesting() -> int:
    """How deep autocast is: going one deeper and back tells, and nothing else does."""
    try:
        torch.autocast_increment_nesting()
    finally:
        found = torch.autocast_decrement_nesting()
    return found
