"""The log of a run, `metrics.jsonl`: a line per epoch, each a JSON object with its task and epoch.

A run that goes on plays the epochs after its checkpoint again, so their lines are taken out first. A line that cannot
be read takes no other with it.
"""

from dataclasses import dataclass, field
from pathlib import Path

from ictrl.errors import InputError
from ictrl.limits import open_regular
from ictrl.typed_json import parse_json, refuse


@dataclass
class LoggedEpochs:
    """The lines of a log, as far as they can be read."""

    lines: list[tuple[int, int, bytes]] = field(default_factory=list)
    """task and epoch, both counted from 1, and the line itself"""
    damaged: list[int] = field(default_factory=list)
    """numbers of lines that cannot be read; a last one that was cut short is none of them"""

    @property
    def tasks(self) -> int:
        """Tasks that were learned, and are not being learned still."""
        return max((task for task, _, _ in self.lines), default=1) - 1

    def until(self, done: int, epoch: int) -> bytes:
        """The lines of so many tasks, and of so many epochs of the next."""
        kept = [
            line + b"\n" for task, number, line in self.lines if task <= done or (task, number) <= (done + 1, epoch)
        ]
        return b"".join(kept)


def read_log(path: Path) -> LoggedEpochs:
    """The log of a run; an empty one where there is none."""
    found = LoggedEpochs()
    *lines, last = _content(path).split(b"\n")
    for number, line in enumerate([*lines, last], start=1):
        if (entry := _entry(line)) is not None:
            found.lines.append((*entry, line))
        elif number <= len(lines):  # behind the last line's end there is nothing, or what a killed process began
            found.damaged.append(number)
    return found


def _content(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read()
    except FileNotFoundError:
        return b""
    except InputError as error:
        refuse(path, error)


def _entry(line: bytes) -> tuple[int, int] | None:
    """Task and epoch of a line; None if it has none."""
    try:
        entry = parse_json(line)
    except ValueError:
        return None
    numbers = (entry.get("task"), entry.get("epoch")) if isinstance(entry, dict) else (None, None)
    task, epoch = numbers
    return (task, epoch) if type(task) is int and type(epoch) is int and task > 0 and epoch > 0 else None
