"""Learners that are taught after their run: where they lie, who may write them, and how they are opened.

A saved learner is taught in place. Beside the checkpoints of a run, which stay as they are, lies what it was taught
since: `taught.safetensors`. Who opens the run's learner gets that one, if it is there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ictrl.errors import InputError
from ictrl.experiment.checkpoints import Position
from ictrl.experiment.locks import alone
from ictrl.experiment.run_folder import LOCK, RunFolder
from ictrl.files import make_folder, remove_unfinished
from ictrl.methods.base import load_learner
from ictrl.methods.storage import LEARNER, TAUGHT, read_stored


@dataclass(frozen=True)
class LearnerPlace:
    """A run folder or a saved learner."""

    path: Path

    @property
    def is_run(self) -> bool:
        return not self.path.is_file()

    @property
    def taught(self) -> Path:
        """The file that teaching writes."""
        return self.path / TAUGHT if self.is_run else self.path

    def open(self, device: str) -> Position:
        """The learner as it was taught last, or else the newest good one of a run."""
        if self.is_run and not self.taught.is_file():
            return RunFolder.existing(self.path).learned(device)
        return Position(load_learner(self.taught, device=device), 0, read_stored(self.taught, LEARNER).notes)

    def target(self, out: Path | None = None) -> Path:
        """Where to write: in place, or to another file. A checkpoint is not to be written over: its run needs it."""
        if out is not None and (out.is_dir() or out.suffix != ".safetensors"):
            raise InputError(f"Expected --out to be a file that ends in .safetensors but got {out}.")
        if self.is_run:
            RunFolder.existing(self.path)  # before anything is made
        target = out or self.taught
        run = target.absolute().parent.parent
        if target.absolute().parent == RunFolder(run).checkpoints and RunFolder(run).config.is_file():
            raise InputError(
                f"Expected a learner of its own but {target} is a checkpoint, from which its run goes on: name the "
                f"run folder {run}, or write elsewhere with --out."
            )
        return target


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Only one process at a time writes a learner; what one that was killed left behind is removed."""
    if (target.parent / "config.toml").is_file() and target.name == TAUGHT:
        with RunFolder(target.parent).locked():
            remove_unfinished(target.parent, target.name)
            yield
        return
    make_folder(target.parent)
    with alone(target.with_name(f".{target.name}{LOCK}"), target):
        remove_unfinished(target.parent, target.name)
        yield
