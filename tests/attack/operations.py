"""What a command asks of the file system below a folder, counted, so that something can happen before any of it.

Opening, listing, making, renaming and removing are heard of by Python's audit hooks, whoever asks for them in Python;
writing and flushing by functions in the place of `os.write` and `os.fsync`, by which all that is kept is written. What
libraries read by themselves, as safetensors does, is not heard of.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHANGES = ("mkdir", "rename", "remove", "rmdir", "chmod", "truncate")
HEARD = ("open", "os.listdir", "os.scandir", *(f"os.{name}" for name in CHANGES))
CREATES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Operation:
    """One thing that is asked of the system."""

    name: str
    path: str
    changes: bool
    """whether it would change something"""


Before = Callable[[int, Operation], None]
Torn = Callable[[int, Operation], bool]


def listen(
    below: Path,
    before: Before,
    torn: Torn = lambda number, operation: False,
    flushed: Callable[[str], None] = lambda path: None,
) -> None:
    """From now on until this process ends, call `before` with each operation and its number, counted from 0.

    A write of which `torn` says so is done to its half first. `flushed` is told what was flushed.
    """
    root, count, busy = os.path.realpath(below) + os.sep, 0, False

    def happens(name: str, path: Any, changes: bool, half: Callable[[], None] = lambda: None) -> None:
        nonlocal count, busy
        if busy or not _below(path, root):
            return
        busy = True
        try:
            number, operation = count, Operation(name, os.fspath(path).removeprefix(root), changes)
            count += 1
            if torn(number, operation):
                half()
            before(number, operation)
        finally:
            busy = False

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event in HEARD and not busy:
            path = arguments[0]
            if isinstance(path, int):
                path = _path_of(path) if event != "open" else None
            opened = event == "open" and isinstance(arguments[2], int) and arguments[2] & CREATES
            happens(event.removeprefix("os."), path, bool(opened) or event.split(".")[-1] in CHANGES)

    write, fsync = os.write, os.fsync

    def hooked_write(handle: int, content: Any) -> int:
        happens("write", _path_of(handle), True, lambda: write(handle, bytes(content)[: len(content) // 2]) and None)
        return write(handle, content)

    def hooked_fsync(handle: int) -> None:
        nonlocal busy
        path = _path_of(handle)
        happens("fsync", path, False)
        fsync(handle)
        if _below(path, root) and not busy:
            busy = True
            flushed(str(path))
            busy = False

    os.write, os.fsync = hooked_write, hooked_fsync  # type: ignore[assignment]
    sys.addaudithook(heard)


def _path_of(handle: int) -> str | None:
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        return None


def _below(path: Any, root: str) -> bool:
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    return isinstance(path, str | os.PathLike) and f"{os.path.abspath(os.fspath(path))}{os.sep}".startswith(root)
