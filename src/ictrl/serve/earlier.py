"""How a class was drawn before: by the run's learners after earlier tasks, and by kept versions.

They lie in files, and each is opened for as long as it draws. What knows the class by its name counts; the learner that
is served does not, and no learner twice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torch import Tensor

from ictrl.errors import InputError
from ictrl.experiment.run_folder import RunFolder
from ictrl.methods.base import load_learner
from ictrl.methods.storage import learners_in, task_of
from ictrl.serve.drawings import drawn
from ictrl.serve.host import LearnerHost
from ictrl.serve.refusals import RefusedError
from ictrl.serve.versions import Header, read_header
from ictrl.shapes import UInt8


@dataclass(frozen=True)
class Earlier:
    """A learner as it was, in a file."""

    id: str
    what: str
    at: str
    path: Path
    header: Header

    def described(self) -> dict[str, Any]:
        return {"id": self.id, "what": self.what, "at": self.at}


def earlier(host: LearnerHost, name: str) -> list[Earlier]:
    """Those that knew the class of that name, the oldest first."""
    now = host.versions.find(host.now.version)
    seen = {now.header.digest if now is not None else host.digest()}
    found = []
    for one in (*_after_tasks(host), *_versions(host)):
        if one.header.digest not in seen and name in one.header.classes:
            found.append(one)
        seen.add(one.header.digest)
    return found


def _after_tasks(host: LearnerHost) -> Iterator[Earlier]:
    if not host.place.is_run:
        return
    for path in sorted(learners_in(RunFolder(host.place.path).checkpoints), key=task_of):
        try:
            header = read_header(path)
            written = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
        except (InputError, OSError):
            continue  # damaged, or gone meanwhile
        task = task_of(path)
        yield Earlier(f"task-{task}", f"after task {task}", written.replace("+00:00", "Z"), path, header)


def _versions(host: LearnerHost) -> Iterator[Earlier]:
    for kept in reversed(host.versions.kept()):
        if kept.version != host.now.version:
            what = f"version {kept.version}, {kept.what}"
            yield Earlier(f"version-{kept.version}", what, kept.at, kept.path, kept.header)


def samples(host: LearnerHost, name: str, of: str, n: int, seed: int) -> UInt8[Tensor, "n c h w"]:
    """Pictures of a class by one of them; from the same random numbers as every other with this seed."""
    there = earlier(host, name)
    one = next((one for one in there if one.id == of), None)
    if one is None:
        known = ", ".join(other.id for other in there) or "none"
        raise RefusedError(
            404, f"Expected an earlier learner that knew the class but got {of[:50]!r}; there are {known}."
        )
    try:
        learner = load_learner(one.path, device=host.device)
    except InputError as error:
        raise RefusedError(409, str(error)) from None
    label = next(label for label, own in one.header.names.items() if own == name)
    return drawn(learner, name, label, n, None, seed)
