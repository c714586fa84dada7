"""Processes become a group: what `torchrun` says of them, which device is whose, and what becomes of one that fails."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta

import torch
import torch.distributed as dist

from ictrl.errors import InputError, ProcessesError, UserError
from ictrl.parallel.agreement import from_first, wait_for_all
from ictrl.parallel.alarm import Alarm
from ictrl.parallel.sharing import Group, group, member_of

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SOON = 2.0  # seconds in which a process that is gone has been missed
FAILURE, MISTAKE, INTERRUPTED = 1, 2, 130  # what processes end with

_alarm: ContextVar[Alarm | None] = ContextVar("alarm", default=None)


class ToldElsewhere(Exception):  # noqa: N818
    """This process ends, and another one says why."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def launched(environment: Mapping[str, str] = os.environ) -> Group | None:
    """The processes that `torchrun` has begun, of which this is one; None if there is no other.

    >>> launched({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"})
    Group(rank=1, size=2)
    >>> launched({}) is launched({"WORLD_SIZE": "1"}) is None
    True
    """
    size = environment.get("WORLD_SIZE", "1").strip()
    if size in ("", "1"):
        return None
    if missing := [name for name in NEEDED if name not in environment]:
        raise InputError(
            f"Expected torchrun to begin {size} processes (WORLD_SIZE) but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not set: torchrun --nproc-per-node {size} -m ictrl …, or unset "
            "WORLD_SIZE for one process."
        )
    try:
        found = Group(int(environment["RANK"]), int(size))
    except ValueError:
        found = Group(-1, 0)
    if not 0 <= found.rank < found.size:
        raise InputError(f"Expected RANK from 0 to WORLD_SIZE − 1 but got {environment['RANK']!r} and {size!r}.")
    return found


def begun() -> Group | None:
    """The same, for who does not mind what is odd about them: it is said where they are to join."""
    try:
        return launched()
    except InputError:
        return None


@contextmanager
def joined(
    device: str = "auto",
    minutes: float = 10.0,
    advice: Callable[[], str] = str,
    whole: Group | None = None,
) -> Iterator[Group | None]:
    """Within it, this process is one of those that `torchrun` has begun, or of a group that is given; or alone.

    They wait for each other so many minutes at most. If one of them fails, all end, and one says why and what to do
    (`advice`).
    """
    found = launched() if whole is None else whole
    if found is None or group() is not None:
        yield group()
        return
    cuda = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    own = not dist.is_initialized()
    if own:
        _begin("cpu:gloo,cuda:nccl" if cuda else "gloo", found, timedelta(minutes=minutes))
    alarm = Alarm(found, advice)
    before = _alarm.set(alarm)
    try:
        with member_of(found):
            alarm.connect(from_first)
            if cuda:
                torch.cuda.set_device(_own_gpu(device))
            yield found
            wait_for_all()
    except BaseException as error:
        if launched() is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends whoever is left: first this one says why
        told = _told(alarm, error)
        if own and not cuda and dist.is_initialized():
            dist.destroy_process_group()  # gloo's threads, which end with it, would not survive the interpreter's end
        if told is error:
            raise
        raise told from None
    else:
        alarm.leave()
        alarm.linger()
        if own:
            dist.destroy_process_group()
    finally:
        _alarm.reset(before)


def falling_apart() -> bool:
    """Whether a process of this group is gone, so that this one will end too."""
    alarm = _alarm.get()
    return alarm is not None and alarm.lost.is_set()


def _begin(backend: str, found: Group, patience: timedelta) -> None:
    try:
        dist.init_process_group(backend, rank=found.rank, world_size=found.size, timeout=patience)
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ProcessesError(f"Expected {found.size} processes to find each other but got: {reason}") from None


def _own_gpu(device: str) -> int:
    """Each process of a machine has a GPU of its own."""
    local, there = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if device not in ("auto", "cuda"):
        raise InputError(
            f"Expected --device auto, cuda or cpu with several processes but got {device}: each has its own."
        )
    if local >= there:
        raise InputError(
            f"Expected at most {there} process{'es' * (there != 1)} on this machine, one for each GPU, but got more: "
            f"--nproc-per-node {max(1, there)}, or --device cpu."
        )
    return local


def _told(alarm: Alarm, error: BaseException) -> BaseException:
    """What this process ends with: its own error, what another one said, or nothing if that one says it."""
    if isinstance(error, ProcessesError) and alarm.lost.wait(SOON):  # somebody else's doing, who has been missed
        alarm.leave(alarm.code, alarm.reason)
        if not alarm.speaks:
            return ToldElsewhere(alarm.code)
        return InputError(alarm.reason) if alarm.code == MISTAKE else ProcessesError(alarm.line())
    code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else MISTAKE if isinstance(error, UserError) else FAILURE
    rank = alarm.group.rank
    alarm.leave(code, str(error) if code == MISTAKE else f"Process {rank} has failed: {error}")
    if rank:
        alarm.linger()
        return ToldElsewhere(code)
    return ProcessesError(f"{error} {alarm.advice()}".strip()) if isinstance(error, ProcessesError) else error
