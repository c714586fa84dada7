"""What commands that use a learner share: opening it, naming its classes, reading pictures, writing sheets."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from ictrl.cli.terminal import tell
from ictrl.data import read_picture
from ictrl.errors import InputError
from ictrl.experiment.checkpoints import Position
from ictrl.experiment.findings import of_replay
from ictrl.experiment.run_data import run_data
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.taught import LearnerPlace
from ictrl.experiment.teaching import known_names
from ictrl.files import make_folder, write_atomically
from ictrl.limits import DRAWN
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import Replays
from ictrl.methods.inputs import whole_number
from ictrl.shapes import UInt8
from ictrl.visualize.contact_sheet import contact_sheet


def open_learner(run: Path, device: str) -> tuple[Learner[Any], dict[int, str]]:
    """The learner of a run folder, as it was taught last, or that of a file, and the names of its classes."""
    position = open_position(LearnerPlace(run), device)
    return position.learner, known_names(position)


def open_position(place: LearnerPlace, device: str) -> Position:
    """A learner with its notes. Files that were passed over are named, and of a run's two learners the one taken."""
    position = place.open(device)
    for warning in position.warnings:
        tell(f"warning: {warning}")
    if place.is_run and place.taught.is_file():
        tell(f"Opened {place.taught}, which was taught since the run.")
    return position


def find_label(given: str, learned: Mapping[int, str], what: str = "--label") -> int:
    """The label of the class of that name or, where no class has it, of that number."""
    by_number = {str(label): label for label in learned}
    by_name = {name: label for label, name in learned.items()}
    found = {**by_number, **by_name}.get(given)
    if found is None:
        known = [str(label) if name == str(label) else f"{label} {name}" for label, name in learned.items()]
        some = ", ".join(known[:20]) + (f" … ({len(known)} in all)" if len(known) > 20 else "")
        raise InputError(f"Expected {what} to be a class that was learned but got {given!r}; learned are {some}.")
    return found


def read_pictures(
    files: Sequence[Path], image_size: int, channels: int
) -> tuple[dict[Path, UInt8[Tensor, "c h w"]], dict[Path, str]]:
    """The pictures that can be read, and for each of the others the reason."""
    read, unread = {}, {}
    for file in files:
        if file.is_dir():
            unread[file] = f"a folder: name the pictures in it, such as {file / '*'}"
        elif not file.exists():
            unread[file] = "there is no such file"
        else:
            try:
                read[file] = read_picture(file, image_size, channels)
            except InputError as error:
                beginning = f"Expected a picture but could not read {file.name}: "
                unread[file] = str(error).removeprefix(beginning).rstrip(".")
    return read, unread


def refuse_unread(unread: Mapping[Path, str], total: int) -> None:
    """Name what could not be read, if anything."""
    if unread:
        reasons = ", ".join(f"{file} ({reason})" for file, reason in unread.items())
        raise InputError(f"Expected pictures but could not read {len(unread)} of {total}: {reasons}.")


def check_png(out: Path) -> None:
    """Refuse a sheet of another kind before any work is done."""
    if out.suffix.lower() != ".png":
        raise InputError(f"Expected --out to be a file that ends in .png but got {out}.")
    if out.is_dir():
        raise InputError(f"Expected --out to be a file that ends in .png but {out} is a folder.")


def check_drawn(n: int, option: str) -> None:
    """Refuse to draw more pictures than anybody looks at, and than there is memory for."""
    if problem := DRAWN.exceeded(n):
        raise InputError(f"Expected fewer pictures for {option} but got {problem}.")


def write_sheet(out: Path, rows: Sequence[UInt8[Tensor, "_ c h w"]]) -> None:
    """Rows of pictures as a PNG file, in a folder that is made if need be."""
    make_folder(out.parent)
    write_atomically(out, contact_sheet(rows))


def warn_of_replay(learner: Learner[Any]) -> None:
    """Where the decoder has not learned to draw, pictures from memory are noise."""
    recognised = learner.replay_recognised() if isinstance(learner, Replays) else 1.0
    if faint := of_replay(recognised):
        tell(f"warning: {faint}")


def tested_images(
    learner: Learner[Any], folder: RunFolder, root: Path | None, n: int
) -> list[UInt8[Tensor, "_ c h w"]]:
    """The first n test images of each class that was learned, a row per class."""
    n = whole_number(n, "n", least=1)
    _, tasks = run_data(folder, root)
    by_class = {label: task.test_images[task.test_labels == label][:n] for task in tasks for label in task.classes}
    return [by_class[label] for label in learner.classes_.tolist() if label in by_class]
