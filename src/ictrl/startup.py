"""Ctrl-C while the command imports its libraries, which takes a second: it ends at once, in one line.

Until `main` begins there is nothing to be undone. A program that imports the library keeps its own handlers.
"""

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType


def begun() -> None:
    """Called before anything heavy is imported."""
    started = Path(sys.argv[0]).stem == "ictrl" if sys.argv[:1] != ["-m"] else "ictrl" in sys.orig_argv
    python = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # and nobody ignores it
    if started and python and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _stop)


def finished() -> None:
    """Called when the command begins: from now on Ctrl-C raises KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(number: int, frame: FrameType | None) -> None:
    os.write(2, b"Stopped.\n")
    os._exit(130)


begun()
