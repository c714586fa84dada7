"""The last versions of a learner, as files beside it, so that one can go back.

Beside `learner.safetensors` lies `learner.versions/`, in a run folder `taught.versions/`, with whole learners in it:
`version-000007.safetensors` is the seventh. A version is told by the digest that every learner's file carries. What is
being served is the file itself; whichever kept version has its digest is the current one, and a file with another
digest, such as one that `ictrl teach` wrote, becomes the next version as soon as it is seen. Nothing else in the folder
is touched.
"""

import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ictrl.errors import InputError
from ictrl.files import UNFINISHED, make_folder, write_atomically

NOTE = "served"  # key of a file's notes
NAME = re.compile(r"version-(\d{6,})\.safetensors")
FOUND, FORGOT = "as it was found", "forgot a class"
ABANDONED = 60  # seconds after which nobody writes an unfinished file any more


@dataclass(frozen=True)
class Header:
    """What a learner's file says before its numbers."""

    digest: str
    names: dict[int, str]
    """of its classes, by label, ascending"""
    notes: dict[str, str]

    @property
    def classes(self) -> list[str]:
        return list(self.names.values())


@dataclass(frozen=True)
class Note:
    """What is noted within a version that the service made. Classes by label: a name would outlive its class there."""

    version: int
    at: str
    taught: list[int]
    """new classes; none if one was forgotten"""

    def written(self) -> dict[str, str]:
        return {NOTE: json.dumps(asdict(self))}

    def what(self, names: Mapping[int, str]) -> str:
        """What was done, in words."""
        return f"taught {', '.join(names.get(label, str(label)) for label in self.taught)}" if self.taught else FORGOT


@dataclass(frozen=True)
class Kept:
    """A version that lies beside the learner."""

    version: int
    path: Path
    header: Header
    at: str
    what: str


def read_header(path: Path) -> Header:
    """Digest, class names and notes of a learner's file; its numbers are not read, so they may be damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        notes: dict[str, str] = dict(json.loads(metadata["notes"]))
        given = json.loads(notes.get("class_names", "{}"))
        names = {int(label): str(given.get(str(label), label)) for label in sorted(json.loads(metadata["labels"]))}
        return Header(str(metadata["digest"]), names, notes)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"Expected a saved learner but could not read {path}.") from None


def noted(notes: Mapping[str, str]) -> Note | None:
    """The note of the service, if there is a good one."""
    try:
        found = json.loads(notes[NOTE])
        return Note(int(found["version"]), str(found["at"]), [int(label) for label in found["taught"]])
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True)
class Versions:
    """The kept versions of the learner at `target`, as many as `most`."""

    target: Path
    most: int = 5

    @property
    def folder(self) -> Path:
        return self.target.with_name(f"{self.target.stem}.versions")

    def path(self, version: int) -> Path:
        return self.folder / f"version-{version:06d}.safetensors"

    def kept(self) -> list[Kept]:
        """Those that can be read, newest first."""
        found = []
        for path in self.folder.glob("version-*.safetensors"):
            if (named := NAME.fullmatch(path.name)) is None:
                continue
            try:
                header = read_header(path)
                changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
            except (InputError, OSError):
                continue
            version, note = int(named[1]), noted(header.notes)
            own = note is not None and note.version == version
            at, what = (note.at, note.what(header.names)) if own and note else (changed.replace("+00:00", "Z"), FOUND)
            found.append(Kept(version, path, header, at, what))
        return sorted(found, key=lambda kept: -kept.version)

    def find(self, version: int) -> Kept | None:
        """The kept version of that number."""
        return next((kept for kept in self.kept() if kept.version == version), None)

    def number_of(self, header: Header, least: int = 1) -> int:
        """The number of a learner: that of the kept one with its digest; otherwise the next."""
        kept = self.kept()
        for one in kept:
            if one.header.digest == header.digest:
                return one.version
        note = noted(header.notes)
        return max(least, note.version if note else 1, *(one.version + 1 for one in kept))

    def keep(self, version: int, content: bytes) -> None:
        """Keep a version's file, and let go of the oldest if there are too many now."""
        make_folder(self.folder)
        for unfinished in self.folder.glob(f".version-*{UNFINISHED}"):  # a process was killed while it wrote this
            with suppress(OSError):
                if time.time() - unfinished.stat().st_mtime > ABANDONED:
                    unfinished.unlink()
        write_atomically(self.path(version), content)
        others = [kept for kept in self.kept() if kept.version != version]
        for old in others[max(0, self.most - 1) :]:
            old.path.unlink(missing_ok=True)

    def knowing(self, name: str) -> list[Kept]:
        """Kept versions that know a class of this name."""
        return [kept for kept in self.kept() if name in kept.header.classes]
