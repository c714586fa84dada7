"""Run folders that grow on one machine and are kept on another, byte for byte.

A `Sender` looks at a folder now and then and packs what has changed into a parcel; `unpack` makes the same of another
folder. A run writes its log before a checkpoint that counts on it, and the checkpoint before results that tell of it.
So files are read the other way round and written in this order, and whatever gets lost in between, what is there is a
run that can be gone on with.
"""

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ictrl.errors import InputError
from ictrl.experiment.run_folder import LOCK
from ictrl.files import Log, is_unfinished, make_folder, remove, write_atomically
from ictrl.methods.storage import CHECKPOINTS, learners_in, task_of

LOG = "metrics.jsonl"
LAST = "results.json"
AFTER_CHECKPOINTS = 4


@dataclass(frozen=True)
class Parcel:
    """Files by their paths in the folder."""

    whole: dict[str, bytes] = field(default_factory=dict)
    grown: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """of a log, how long it was, and the lines that came since"""
    gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.whole or self.grown or self.gone)


class Sender:
    """Packs what has changed in a folder since it was last asked."""

    def __init__(self, folder: Path, there: Parcel | None = None) -> None:
        """`there` is what the folder was filled with, which the other side has."""
        self.folder = folder
        self.sent: dict[str, tuple[int, ...]] = {}
        self.logs: dict[str, bytes] = {}
        for name, content in {} if there is None else there.whole.items():
            if Path(name).name == LOG:
                self.logs[name] = content
            else:
                self.sent[name] = _mark(folder / name)

    def parcel(self) -> Parcel:
        whole, grown = dict[str, bytes](), dict[str, tuple[int, bytes]]()
        names = _files(self.folder)
        gone = tuple(name for name in (*self.sent, *self.logs) if name not in names)
        for name in gone:
            self.sent.pop(name, None)
            self.logs.pop(name, None)
        for name in sorted(names, key=_turn, reverse=True):
            try:
                if Path(name).name == LOG:
                    self._pack_log(name, whole, grown)
                elif self.sent.get(name) != (mark := _mark(self.folder / name)):
                    whole[name] = (self.folder / name).read_bytes()
                    self.sent[name] = mark
            except FileNotFoundError:  # superseded in this moment: the next parcel says so
                continue
        return Parcel(whole, grown, gone)

    def _pack_log(self, name: str, whole: dict[str, bytes], grown: dict[str, tuple[int, bytes]]) -> None:
        content = (self.folder / name).read_bytes()
        content = content[: content.rfind(b"\n") + 1]  # without a line that is just being written
        before = self.logs.get(name)
        if before is None or not content.startswith(before):
            whole[name] = content
        elif content != before:
            grown[name] = len(before), content[len(before) :]
        self.logs[name] = content


def pack(folder: Path, inside: Iterable[Path]) -> Parcel:
    """All files of some folders inside of it, as they are."""
    names = (name for part in inside for name in _files(folder, part))
    return Parcel({name: (folder / name).read_bytes() for name in names})


def unpack(folder: Path, parcel: Parcel) -> None:
    """Do to a folder what was done to the one that the parcel is from."""
    steps: list[tuple[int, Callable[[], None]]] = []
    for name, content in parcel.whole.items():
        if Path(name).name == LOG:
            soon, later = _by_turn(folder, name, content, parcel)
            steps.append((_turn(name), partial(_write, folder / name, soon)))
            steps += [(AFTER_CHECKPOINTS, partial(_append, folder / name, len(soon), later))] * bool(later)
        else:
            steps.append((_turn(name), partial(_write, folder / name, content)))
    for name, (length, lines) in parcel.grown.items():
        soon, later = _by_turn(folder, name, lines, parcel)
        steps += [(_turn(name), partial(_append, folder / name, length, soon))] * bool(soon)
        steps += [(AFTER_CHECKPOINTS, partial(_append, folder / name, length + len(soon), later))] * bool(later)
    for _, step in sorted(steps, key=lambda step: step[0]):
        step()
    remove(folder / name for name in parcel.gone)


def _by_turn(folder: Path, name: str, lines: bytes, parcel: Parcel) -> tuple[bytes, bytes]:
    """Lines that a learner in the parcel counts on, and those of the task after it, which are of no use without it."""
    place = Path(name).parent / CHECKPOINTS
    done = max(map(task_of, learners_in(folder / place)), default=0)
    coming = sorted(
        task_of(Path(other)) for other in parcel.whole if Path(other).parent == place and _is_learner(other)
    )
    if done + 1 not in coming:
        return lines, b""
    until = 0
    with suppress(ValueError, KeyError, TypeError):  # of a damaged log, which whoever goes on says
        for line in lines.splitlines(keepends=True):
            if json.loads(line)["task"] > done + 1:
                break
            until += len(line)
    return lines[:until], lines[until:]


def _is_learner(name: str) -> bool:
    return Path(name).name.startswith("after-task-")


def _write(path: Path, content: bytes) -> None:
    make_folder(path.parent)
    write_atomically(path, content)


def _append(path: Path, length: int, lines: bytes) -> None:
    there = path.stat().st_size if path.exists() else 0
    if there != length:
        raise InputError(
            f"Expected {path} as this command wrote it but it was changed in the meantime: leave run folders alone "
            "while they are learned; the same command goes on."
        )
    with Log(path) as log:
        for line in lines.decode().split("\n")[:-1]:
            log.add(line)


def _files(folder: Path, part: Path | None = None) -> list[str]:
    """Of a folder that is being written to, those that are whole."""
    found = []
    for place, folders, names in os.walk(folder if part is None else part):
        folders.sort()
        inner = Path(place).relative_to(folder)
        found += [str(inner / name) for name in sorted(names) if name != LOCK and not is_unfinished(name)]
    return found


def _turn(name: str) -> int:
    """When it is written: the recipe and what was noted of the data first, results last."""
    path = Path(name)
    if path.suffix == ".safetensors":
        return 3
    return {LAST: AFTER_CHECKPOINTS + 1, LOG: 2, "config.toml": 0}.get(path.name, 1)


def _mark(path: Path) -> tuple[int, ...]:
    """What changes when a file is written anew."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino
