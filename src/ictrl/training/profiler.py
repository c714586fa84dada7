"""Where the time of a step goes: laps by name.

On a CPU every lap is timed. On a GPU the host is far ahead of the device, so laps are marked by events on the device,
inside the recorded step too; the last step of an epoch is read and stands for all of its steps.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from ictrl.errors import ConfigError

Lap = Callable[[str], AbstractContextManager[None]]


def untimed(name: str) -> AbstractContextManager[None]:
    """A lap that nobody times."""
    return nullcontext()


class Profiler:
    """Seconds spent in each lap so far."""

    def __init__(self, device: torch.device) -> None:
        self.seconds: dict[str, float] = {}
        self._events: dict[str, tuple[torch.cuda.Event, torch.cuda.Event]] | None = None
        if device.type == "cuda":
            self._events = {}

    @contextmanager
    def lap(self, name: str) -> Iterator[None]:
        if self._events is None:
            start = time.perf_counter()
            yield
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
            return
        begin, end = self._events.setdefault(name, (_event(), _event()))
        begin.record()
        yield
        end.record()

    def read(self, steps: int) -> None:
        """After an epoch of so many steps, when the device has come to its end."""
        for name, (begin, end) in (self._events or {}).items():
            self.seconds[name] = self.seconds.get(name, 0.0) + steps * begin.elapsed_time(end) / 1e3


def _event() -> torch.cuda.Event:
    try:
        return torch.cuda.Event(enable_timing=True, external=True)  # external: recorded anew at each replay of a graph
    except TypeError:
        raise ConfigError(
            f"Expected a PyTorch that can time recorded steps but got {torch.__version__}: profile with 2.7 or newer."
        ) from None
