"""A seat on a Ray cluster: a process on some machine that does one run at a time, and tells how it goes.

The run is learned in a folder on that machine's own disk. What changes in it is fetched every now and then, so that
where a machine is lost, the run goes on elsewhere from the last checkpoint that was fetched.
"""

import os
import pickle
import socket
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock
from typing import Any

import torch

import ictrl
from ictrl.errors import InputError, NonFiniteError, UserError
from ictrl.experiment.crew import RunEndedError, do
from ictrl.experiment.scratch import scratch_folder
from ictrl.experiment.study import Planned
from ictrl.experiment.travel import Parcel, Sender, unpack


def _code() -> str:
    """A digest of the package as it lies here: of one version there may be several while it is worked on."""
    root, sha = Path(ictrl.__file__).parent, sha256()
    for path in sorted(root.rglob("*.py")):
        sha.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()[:8]


AT_ONCE = 3  # threads: a run that learns still answers, and still hears
VERSIONS = {"ictrl": f"{ictrl.__version__} ({_code()})", "torch": torch.__version__.partition("+")[0]}
"""of what decides results; how torch was built need not be the same"""


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and what had changed by then."""

    error: Exception | None = None
    stopped: bool = False
    last: Parcel = field(default_factory=Parcel)


class Seat:
    """What an actor is made of."""

    def __init__(self, threads: int, gpus: float, alone: bool) -> None:
        self.threads, self.where = threads, "" if alone else f" (on {socket.gethostname()})"
        self.stop, self.lock = Event(), Lock()
        self.sender: Sender | None = None
        if not gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # those of this machine are for others

    def run(self, packed: bytes, versions: dict[str, str], folder: Parcel, first_task: Parcel) -> Outcome:
        """Learn a run from wherever it stands; `packed` says which it is, and the place of its first task."""
        if versions != VERSIONS:
            both = (", ".join(f"{name} {of}" for name, of in found.items()) for found in (versions, VERSIONS))
            return Outcome(InputError("Expected {} on every machine of the cluster but one has {}.".format(*both)))
        torch.set_num_threads(self.threads)  # of this thread, which is another for each run
        self.stop.clear()
        item, out, shared, one_task = pickle.loads(packed)
        error, stopped = None, False
        with scratch_folder() as work:
            there = Parcel({**first_task.whole, **folder.whole})
            unpack(work, there)
            self.sender = Sender(work, there)
            try:
                here = replace(item, folder=work / item.folder.name)
                do(here, work / shared if shared else None, stop=self.stop.is_set, one_task=one_task)
            except KeyboardInterrupt:
                stopped = True
            except Exception as failure:
                error = _told_from_here(failure, work, out, self.where)
            with self.lock:
                last, self.sender = self.sender.parcel(), None
        return Outcome(error, stopped, last)

    def news(self) -> Parcel:
        """What has changed since it was asked last."""
        with self.lock:
            return Parcel() if self.sender is None else self.sender.parcel()

    def ask_to_stop(self) -> None:
        """After the current epoch."""
        self.stop.set()


def pack_run(item: Planned, out: Path, shared: Path | None, one_task: bool) -> bytes:
    """Which run a seat is to do: read only where the same version of ictrl is."""
    return pickle.dumps((item, str(out), str(shared.relative_to(out)) if shared else None, one_task))


def _told_from_here(error: Exception, work: Path, out: str, where: str) -> Exception:
    """An error as it can travel, with the place where the run is kept, and the machine if there are several."""
    line = str(error).replace(str(work), out).rstrip(".") + f"{where}."
    if isinstance(error, UserError | NonFiniteError):
        kind: Any = InputError if isinstance(error, InputError) else type(error)
        return kind(line)
    return RunEndedError(f"{type(error).__name__}: {' '.join(line.split())}")
