"""The learner that is served, and how it changes: one at a time, on disk first, and then at once for everybody.

What is served is never changed in place. A change (teaching, forgetting, going back) opens the learner from its file
anew, under the lock that `ictrl teach` takes too, works on that one, writes it, and only then puts it in the place of
the other. So predictions flow while it learns, each answer is of one version, and whatever goes wrong before the file
is replaced leaves both file and service as they were.

The lock is held for the time of a change and not longer: between changes, others may write the file. The service sees
that and serves the new one, as the next version.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from ictrl.errors import InputError, UserError
from ictrl.experiment.checkpoints import Position
from ictrl.experiment.class_facts import now
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.taught import LearnerPlace, writing
from ictrl.files import write_atomically
from ictrl.methods.base import load_learner
from ictrl.methods.storage import ALL, LEARNER, learners_in, read_stored
from ictrl.serve.refusals import RefusedError
from ictrl.serve.served import Served
from ictrl.serve.versions import Note, Versions, read_header

logger = logging.getLogger(__name__)
Found = TypeVar("Found")
Signature = tuple[tuple[str, int, int, int], ...]
TRIES = 5  # to read a file that is being replaced again and again


class LearnerHost:
    """The learner of a file or a run folder, as the service has it."""

    def __init__(self, path: Path, device: str = "auto", versions: int = 5, read_only: bool = False) -> None:
        self.place, self.device = LearnerPlace(path), device
        if not path.exists():
            raise InputError(f"Expected a saved learner or a run folder but there is no {path}.")
        self.target = self.place.target() if not read_only else self.place.taught
        self.versions = Versions(self.target, versions)
        self.read_only = read_only
        self.warnings: list[str] = []
        """of the last opening"""
        self._changing = threading.Lock()
        self._seen: Signature = ()
        self.now = self._opened(1)
        if self.writes:
            with writing(self.target):  # refuses a folder that cannot be written, and a learner that is being taught
                self._keep()

    @property
    def writes(self) -> bool:
        """Whether this learner can be changed here."""
        return not self.read_only and self.now.learner.parts == ALL

    def refresh(self) -> bool:
        """Serve what lies there now, if another program has written it; says whether it had."""
        if self._signature() == self._seen or not self._changing.acquire(blocking=False):
            return False
        try:
            return self._refresh()
        finally:
            self._changing.release()

    def change(self, work: Callable[[Position], Found], taught: Callable[[Found], list[int]]) -> Found:
        """Open the learner anew, let `work` change it, write it, serve it. An exception in `work` changes nothing.

        `taught` says which classes are new, to be noted.
        """
        with self._alone():
            position = self.place.open(self.device)
            found = work(position)
            version = max([self.now.version, *(kept.version for kept in self.versions.kept())]) + 1
            position.notes |= Note(version, now(), taught(found)).written()
            served = Served.of(position, version, self.read_only)
            position.learner.save(self.target, position.notes)
            self._serve(served)
            return found

    def go_to(self, version: int) -> Served:
        """Make a kept version the learner."""
        with self._alone():
            if (kept := self.versions.find(version)) is None:
                there = ", ".join(str(one.version) for one in self.versions.kept())
                raise RefusedError(404, f"Expected a kept version but got {version}; kept are {there}.")
            learner = load_learner(kept.path, device=self.device)  # a damaged one is refused before anything is written
            position = Position(learner, 0, read_stored(kept.path, LEARNER).notes)
            served = Served.of(position, version, self.read_only)
            write_atomically(self.target, kept.path.read_bytes())
            self._serve(served)
            return served

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other change, here or by another process; the file is that which is served."""
        if not self.writes:
            line = (
                "it was started with --read-only" if self.read_only else "its file was saved with inference_only=True"
            )
            raise RefusedError(409, f"Expected a learner that may be changed but {line}.")
        if not self._changing.acquire(blocking=False):
            raise RefusedError(409, "Expected a learner at rest but it is being changed: wait until that is done.")
        try:
            with writing(self.target):
                self._refresh()
                yield
        finally:
            self._changing.release()

    def _serve(self, served: Served) -> None:
        self._seen, self.now = self._signature(), served
        try:
            self._keep()
        except OSError as error:  # what was asked for is done, and one cannot come back to it later: no more than that
            logger.warning("Expected to keep version %d but could not: %s.", served.version, error.strerror)

    def _keep(self) -> None:
        """A copy of the file as a version, unless it is one."""
        if self.versions.find(self.now.version) is None:
            self.versions.keep(self.now.version, self._file().read_bytes())

    def _refresh(self) -> bool:
        if self._signature() == self._seen:
            return False
        self.now = self._opened(self.now.version + 1)
        if self.writes:
            self._keep()
        return True

    def _opened(self, least: int) -> Served:
        """The learner as it lies there, with its number."""
        for _ in range(TRIES):
            seen = self._signature()
            position = self.place.open(self.device)
            version = self.versions.number_of(read_header(self._file()), least)
            if self._signature() == seen:
                self._seen, self.warnings = seen, position.warnings
                return Served.of(position, version, self.read_only)
        raise InputError(f"Expected {self.target} to stay as it is while it is read but it was written meanwhile.")

    def digest(self) -> str:
        """Of the learner as it lies there."""
        return read_header(self._file()).digest

    def _file(self) -> Path:
        """Where the learner lies: of a run, in the newest good checkpoint until it is taught."""
        if not self.place.is_run or self.place.taught.is_file():
            return self.place.taught
        found = learners_in(RunFolder(self.place.path).checkpoints)
        for path in found:
            try:
                read_stored(path, LEARNER)
            except UserError:
                continue
            return path
        raise InputError(f"Expected a run with a task learned but {self.place.path} has none.")

    def _signature(self) -> Signature:
        """What changes when one of the learner's files is replaced."""
        files = [self.place.taught]
        if self.place.is_run and not self.place.taught.is_file():
            files = learners_in(RunFolder(self.place.path).checkpoints)
        stats = ((path, path.stat()) for path in files if path.is_file())
        return tuple((str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in stats)
