"""Ctrl-C while the command imports its libraries, and while the interpreter leaves: it ends at once, in one line.

Until `main` begins there is nothing to be undone, and nothing any more once it has ended. A program that imports the
library keeps its own handlers.
"""

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

_answers = False  # whether this process is the command, and Ctrl-C ours to answer


def begun() -> None:
    """Called before anything heavy is imported."""
    global _answers
    started = Path(sys.argv[0]).stem == "ictrl" if sys.argv[:1] != ["-m"] else "ictrl" in sys.orig_argv
    python = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # and nobody ignores it
    if started and python and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _stop)
        _answers = True


def finished() -> None:
    """Called when the command begins: from now on Ctrl-C raises KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ended() -> None:
    """Called when the command has ended: a Ctrl-C while the interpreter leaves prints no traceback."""
    if _answers and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _flush()
        signal.signal(signal.SIGINT, _stop)


def leave_at_once(code: int) -> NoReturn:
    """End the process without taking the interpreter apart, which its threads might still need."""
    _flush()
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads it: that was told before
            stream.flush()


def _stop(number: int, frame: FrameType | None) -> None:
    os.write(2, b"Stopped.\n")
    os._exit(130)


begun()
