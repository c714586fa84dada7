"""GPU kernels for what the libraries do slowly. Everything else is left to cuDNN, cuBLAS and PyTorch.

Each operation computes, in float32 and bfloat16, what a few lines of PyTorch at its place of use do, which are its
tests. The kernels are written in Triton, which comes with PyTorch for NVIDIA GPUs; elsewhere those lines are used.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

MOST_CHANNELS = 8  # of an image: with more, its layers are like any others
_plain: ContextVar[bool] = ContextVar("plain", default=False)


@contextmanager
def plain_torch() -> Iterator[None]:
    """Within it, PyTorch's own operations are used on a GPU too: to compare with."""
    before = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(before)


def gpu(x: Tensor) -> ModuleType | None:
    """The module of kernels that can work on this tensor, if any."""
    suits = x.is_cuda and x.numel() > 0 and x.dtype in (torch.float32, torch.bfloat16, torch.uint8)
    return _load() if suits and not _plain.get() else None


@cache
def _load() -> ModuleType | None:
    try:
        from ictrl.kernels import triton_kernels
    except ImportError:
        return None
    return triton_kernels
