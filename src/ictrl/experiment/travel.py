"""Run folders that grow on one machine and are kept on another, byte for byte.

A `Sender` looks at a folder now and then and packs what has changed into a parcel; `unpack` makes the same of another
folder. A run writes its log before a checkpoint that counts on it, and the checkpoint before results that tell of it.
So files are read the other way round and written in this order, and whatever gets lost in between, what is there is a
run that can be gone on with.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ictrl.errors import InputError
from ictrl.experiment.run_folder import LOCK
from ictrl.files import Log, is_unfinished, make_folder, remove, write_atomically

LOG = "metrics.jsonl"
LAST = "results.json"


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
    contents: Mapping[str, object] = {**parcel.whole, **parcel.grown}
    for name in sorted(contents, key=_turn):
        path = folder / name
        if name in parcel.whole:
            make_folder(path.parent)
            write_atomically(path, parcel.whole[name])
        else:
            _append(path, *parcel.grown[name])
    remove(folder / name for name in parcel.gone)


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
    return {LAST: 4, LOG: 2, "config.toml": 0}.get(path.name, 1)


def _mark(path: Path) -> tuple[int, ...]:
    """What changes when a file is written anew."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino
