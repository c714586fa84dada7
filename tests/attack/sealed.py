"""Cases in forked children, many in each, that may do nothing but read: no process, socket, foreign code or file.

A case fails if it takes longer than the limit or more memory than a gigabyte, ends the process, does what it may not,
or ends in anything but an answer or an error of one line.
"""

import json
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attack.limits import BYTES, DIES_WITH_PARENT, SECONDS, WAITING, _address_space
from attack.registry import FAILED, HELD, REFUSED, Outcome
from ictrl.errors import NonFiniteError, UserError

BATCH = 250
FORBIDDEN = re.compile(
    r"subprocess\.|os\.(system|exec|posix_spawn|spawn|fork|kill|startfile|putenv)|socket\.|pickle\.find_class|ctypes\.dlopen"
    r"|webbrowser|ftplib|http\.client|urllib"
)
CHANGING = re.compile(r"os\.(remove|rename|rmdir|mkdir|chmod|chown|link|symlink|truncate|utime|setxattr)|shutil\.")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_seen: list[str] | None = None  # what the case at hand did that it may not; None while no case is played
_scratch = ""


def played(
    case_of: Callable[[int], Callable[[], object]], cases: Sequence[int], scratch: Path, batch: int = BATCH
) -> Iterator[Outcome]:
    """What each case comes to; `case_of` prepares one, and what it returns is played."""
    left = list(cases)
    while left:
        found, reason = _batch(case_of, left[:batch], scratch)
        yield from found
        left = left[len(found) :]
        if reason:
            yield Outcome(left.pop(0), FAILED, reason)


def _batch(case_of: Any, cases: Sequence[int], scratch: Path) -> tuple[list[Outcome], str]:
    """Outcomes of the cases until the end, or until one ended the process, and how it did."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            _child(case_of, cases, scratch, writer)
        finally:
            os._exit(3)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        lines = file.read().splitlines()
    _, status = os.waitpid(child, 0)
    outcomes = [Outcome(*json.loads(line)) for line in lines]
    if len(outcomes) == len(cases):
        return outcomes, ""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        hung = {signal.SIGPROF: SECONDS, signal.SIGALRM: WAITING * SECONDS}.get(signal.Signals(number))
        return outcomes, f"hung for {hung:.0f} s" if hung else f"ended by {signal.Signals(number).name}"
    return outcomes, f"the process left with {status}"


def _child(case_of: Any, cases: Sequence[int], scratch: Path, writer: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libtiff says there what is wrong with a file
    _seal(scratch)
    for case in cases:
        try:
            attempt = case_of(case)
        except Exception as error:
            attempt = partial(_broken, error)
        room = _address_space("VmSize") + BYTES
        resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
        outcome = _outcome(case, attempt)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.write(writer, (json.dumps([outcome.case, outcome.how, outcome.what]) + "\n").encode())
    os._exit(0)


def _broken(error: Exception) -> None:
    """A case that could not be prepared has failed."""
    raise error


def _outcome(case: int, attempt: Callable[[], object]) -> Outcome:
    global _seen
    _seen = []
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of work, however busy the machine is
    signal.setitimer(signal.ITIMER_REAL, WAITING * SECONDS)  # of waiting for something that does not come
    how, what = HELD, ""
    try:
        attempt()
    except (UserError, NonFiniteError) as error:
        how, line = REFUSED, str(error)
        if "\n" in line or not line or len(line) > 11_000:
            how, what = FAILED, f"an error of {line.count(chr(10)) + 1} lines and {len(line)} letters: {line[:200]!r}"
    except OSError as error:
        how = REFUSED if error.strerror else FAILED
        what = "" if error.strerror else f"{type(error).__name__}: {error}"[:300]
    except BaseException as error:
        how, what = FAILED, f"{type(error).__name__}: {' '.join(str(error).split())}"[:300] + _where(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        done, _seen = _seen, None
    return (
        Outcome(case, FAILED, f"did what a file may not: {', '.join(done[:3])}") if done else Outcome(case, how, what)
    )


def _where(error: BaseException) -> str:
    trace, last = error.__traceback__, ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "/ictrl/" in name:
            last = f" ({name.rpartition('/ictrl/')[2]}:{trace.tb_lineno})"
        trace = trace.tb_next
    return last


def _seal(scratch: Path) -> None:
    """From now on, note what a case does that it may not. A hook cannot be taken out again."""
    global _scratch
    _scratch = f"{scratch.resolve()}{os.sep}"
    sys.dont_write_bytecode = True
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is None:
        return
    if FORBIDDEN.match(event) or (CHANGING.match(event) and not _inside(arguments[0])):
        _seen.append(f"{event} {str(arguments)[:100]}")
    elif event == "open" and not _inside(arguments[0]):
        mode, flags = arguments[1], arguments[2]
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & WRITES):
            _seen.append(f"{event} {str(arguments)[:100]}")


def _inside(path: object) -> bool:
    """Whether a path is one that a case may write to."""
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str):
        return True  # a descriptor that is open already
    return os.path.realpath(path).startswith(_scratch) or path == os.devnull
