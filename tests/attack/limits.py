"""Cases in processes of their own, with a limit on time and memory, forked from one that has everything imported.

The forking process must have one thread only; `runner` sees to that. A process of torch with several threads that was
forked may hang, see docs/reliability.md.
"""

import ctypes
import math
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

SECONDS = 10.0  # of work, or of waiting for nothing
WAITING = 12  # times as long may a case take that a busy machine does not let work
TICKS = os.sysconf("SC_CLK_TCK")
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
    """it had to be killed because it worked too long, or waited too long for nothing"""
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

    `kill_after` kills it after so many seconds, as an attack; `seconds` of work or of idleness because it hangs.
    """
    reader, writer = os.pipe()
    before = _address_space("VmSize")
    child = os.fork()
    if child == 0:
        os.close(reader)
        _live(function, writer, before)
    os.close(writer)
    begun, content, hung, patience = time.monotonic(), b"", False, Patience(child, seconds)
    end, ended = math.inf if kill_after is None else begun + kill_after, False
    try:
        while not ended and not hung and (left := end - time.monotonic()) > 0:
            if select.select([reader], [], [], min(left, seconds / 10))[0]:
                part = os.read(reader, 1 << 20)
                content, ended = content + part, not part
            else:
                hung = patience.is_over()
    finally:
        passed = time.monotonic() - begun
        if not ended:
            os.kill(child, signal.SIGKILL)
        os.close(reader)
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        error = "" if number == signal.SIGKILL else f"ended by {signal.Signals(number).name}"
        return Ended(error=error, killed=number == signal.SIGKILL, hung=hung, seconds=passed)
    value, error, taken = pickle.loads(content) if content else (None, f"left with {status} and no result", 0)
    return Ended(value, error, seconds=passed, taken=taken)


class Patience:
    """Whether a process hangs, however busy the machine is: it works for ever, or waits for what does not come.

    What counts is how long it and its children have computed, and how long none of them did or wanted to.
    """

    def __init__(
        self,
        process: int,
        seconds: float,
        look: Callable[[int], tuple[float, bool]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.process, self.seconds, self.look, self.clock = process, seconds, look or activity, clock
        self.worked, self.awake = 0.0, clock()

    def is_over(self) -> bool:
        """Ask often: what happens between two calls is not seen."""
        worked, wants = self.look(self.process)
        if wants or worked > self.worked:
            self.worked, self.awake = max(worked, self.worked), self.clock()
        return self.worked > self.seconds or self.clock() - self.awake > self.seconds


def activity(process: int) -> tuple[float, bool]:
    """Seconds that a process and its children have computed, and whether one of them computes, or waits for a disk."""
    ticks, wants = 0, False
    for thread in Path(f"/proc/{process}/task").glob("*"):
        try:
            state = _stat(thread)[0]
            children = (thread / "children").read_text().split()
            if thread.name == str(process):  # of all its threads, and of children that have ended
                ticks += sum(map(int, _stat(Path(f"/proc/{process}"))[11:15]))
        except OSError:  # it has ended meanwhile
            continue
        wants = wants or state in "RD"
        for child in children:
            more, other = activity(int(child))
            ticks, wants = ticks + round(more * TICKS), wants or other
    return ticks / TICKS, wants


def _stat(process: Path) -> list[str]:
    """From its state on: its name may hold anything."""
    return (process / "stat").read_text().rpartition(")")[2].split()


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
    timers = {signal.ITIMER_PROF: seconds, signal.ITIMER_REAL: WAITING * seconds}
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    try:
        for timer, limit in timers.items():
            signal.setitimer(timer, limit)
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)
