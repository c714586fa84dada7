"""A step as one CUDA graph: recorded once, replayed without Python in between.

A step of the game launches several hundred small kernels, and launching them costs more than running them. On a GPU
the step is therefore played once as it is, which also creates what is created lazily (cuDNN plans, Adam's moments),
then recorded, and from there on replayed. Whatever cannot be recorded goes on as it is, with a log line.

What is recorded works on the same tensors every time: the step must read its input from the tensors it is given, change
parameters in place, add its results to tensors that stay, and take random numbers from the generator named here.

One thread records at a time, because recording waits for the whole device before it begins. Other threads may go on
with work of their own meanwhile: another learner that is served is asked while this one is taught.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

_unrecorded: ContextVar[bool] = ContextVar("unrecorded", default=False)
_recording = threading.Lock()
_recorded: "WeakKeyDictionary[torch.Generator, WeakSet[Captured]]" = WeakKeyDictionary()
"""by the generator that they draw from: a graph goes on with the very state that it was recorded with"""


@contextmanager
def unrecorded() -> Iterator[None]:
    """Within it, steps are played operation by operation on a GPU too: to compare with."""
    before = _unrecorded.set(True)
    try:
        yield
    finally:
        _unrecorded.reset(before)


class Captured:
    """Calls `step(*inputs)`; on a GPU, after a plain call, as a graph, until the block ends that it was made for."""

    def __init__(self, step: Callable[..., None], generator: torch.Generator, device: torch.device) -> None:
        self.step = step
        self.generator = generator
        self.plain_calls = 1 if device.type == "cuda" and not _unrecorded.get() else -1  # −1: for ever
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: list[Tensor] = []

    def __call__(self, *inputs: Tensor) -> None:
        if self.plain_calls == 0 and self.graph is None:
            self._record(inputs)
        if self.graph is None or any(kept.shape != given.shape for kept, given in zip(self.inputs, inputs)):
            self.step(*inputs)
            self.plain_calls -= self.plain_calls > 0
            return
        for kept, given in zip(self.inputs, inputs):
            kept.copy_(given)
        self.graph.replay()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The graph's memory is free for the next one."""
        self.give_up()

    def _record(self, inputs: tuple[Tensor, ...]) -> None:
        self.inputs = [given.clone() for given in inputs]
        graph, before, ended = torch.cuda.CUDAGraph(), self.generator.clone_state(), False
        graph.register_generator_state(self.generator)
        with _recording:
            torch.cuda.synchronize()
            # a graph has memory of its own, and while it is recorded no memory kept for other work can be given back
            torch.cuda.empty_cache()
            try:
                # not by `torch.cuda.graph`, which has Python look for garbage first: a tenth of a second
                try:
                    graph.capture_begin(capture_error_mode="thread_local")  # what others ask for is no error here
                    self.step(*self.inputs)
                finally:
                    if torch.cuda.is_current_stream_capturing():
                        graph.capture_end()
                        ended = True
            except RuntimeError as error:
                logger.warning("the step could not be recorded as a CUDA graph and is played as it is: %s", error)
                self.plain_calls = -1
                if not ended:
                    self._replace_state(before)
                return
        self.graph = graph
        _recorded.setdefault(self.generator, WeakSet()).add(self)

    def _replace_state(self, before: torch.Generator) -> None:
        """The generator's own waits for the end of a recording for ever; graphs that draw from it are given up too."""
        self.generator.graphsafe_set_state(before)
        for other in _recorded.pop(self.generator, WeakSet()):
            other.give_up()

    def give_up(self) -> None:
        """From now on the step is played as it is."""
        self.plain_calls = -1
        if self.graph is not None:
            self.graph.reset()
            self.graph = None


@contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """Work on a stream of its own, as recording demands: after what was queued before, before what follows."""
    if device.type != "cuda":
        yield
        return
    outer, inner = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    inner.wait_stream(outer)
    try:
        with torch.cuda.stream(inner):
            yield
    finally:
        outer.wait_stream(inner)
