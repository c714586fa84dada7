"""Cases in processes of their own, with a limit on time and memory, forked from one that has everything imported.

The forking process must have one thread only; `runner` sees to that. A process of torch with several threads that was
forked may hang, see docs/reliability.md.
"""

import ctypes
import os
import pickle
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 10.0
BYTES = 1_000_000_000
HARD = 12_000_000_000  # address space beyond what there was: the machine is not to suffer
DIES_WITH_PARENT = 1  # of prctl


@dataclass(frozen=True)
class Ended:
    """How a process of its own came to its end."""

    value: Any = None
    """what the function returned"""
    error: str = ""
    """the traceback of an exception, or why there is nothing"""
    killed: bool = False
    """by SIGKILL, from within or without"""
    hung: bool = False
    """it had to be killed because it took too long"""
    seconds: float = 0.0
    taken: int = 0
    """bytes of address space beyond those at the start, at the most"""

    @property
    def broken(self) -> str:
        """Why the case failed, whatever it returned; nothing if it kept to the limits."""
        if self.hung:
            return f"hung for {self.seconds:.0f} s"
        if self.taken > BYTES:
            return f"took {self.taken / 1e9:.1f} GB beyond the interpreter"
        return self.error


def forked(function: Callable[[], Any], kill_after: float | None = None, seconds: float = SECONDS) -> Ended:
    """Call a function in a process of its own; its result must be picklable.

    `kill_after` kills it after so many seconds, as an attack; `seconds` because it hangs.
    """
    reader, writer = os.pipe()
    before = _address_space("VmSize")
    child = os.fork()
    if child == 0:
        os.close(reader)
        _live(function, writer, before)
    os.close(writer)
    begun, content, status = time.monotonic(), b"", 0
    limit = seconds if kill_after is None else min(kill_after, seconds)
    try:
        while True:
            left = begun + limit - time.monotonic()
            if left <= 0 or not select.select([reader], [], [], left)[0]:
                break
            if not (part := os.read(reader, 1 << 20)):
                break
            content += part
    finally:
        passed = time.monotonic() - begun
        if passed >= limit:
            os.kill(child, signal.SIGKILL)
        os.close(reader)
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        error = "" if number == signal.SIGKILL else f"ended by {signal.Signals(number).name}"
        return Ended(error=error, killed=number == signal.SIGKILL, hung=passed >= seconds, seconds=passed)
    value, error, taken = pickle.loads(content) if content else (None, f"left with {status} and no result", 0)
    return Ended(value, error, seconds=passed, taken=taken)


def _live(function: Callable[[], Any], writer: int, before: int) -> None:
    """The child's life. It ends without any of the parent's clean-up."""
    ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (before + HARD, before + HARD))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    found: tuple[Any, str, int]
    try:
        found = (function(), "", 0)
    except BaseException:
        found = (None, traceback.format_exc(), 0)
    content = pickle.dumps((*found[:2], max(0, _address_space("VmPeak") - before)))
    while content:
        content = content[os.write(writer, content) :]
    os._exit(0)


def _address_space(which: str) -> int:
    """Bytes: VmSize now, VmPeak at the most."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{which}:"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def in_time(seconds: float = SECONDS) -> Iterator[None]:
    """For cases without a process of their own: one that hangs ends the process, and the runner finds which it was."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
