"""Pictures of your own, one folder per class: `train/CLASS/…` and `test/CLASS/…`, or `CLASS/…` alone.

Without a test part, some pictures of each class are held out as test images. Their file names decide which, so that it
is the same on every machine, whatever order its file system lists files in.

If all folders are named by numbers, these are the classes; otherwise classes are counted from 0 in the order of names.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from ictrl.config import StreamConfig
from ictrl.data.dataset import Dataset
from ictrl.data.pictures import read_picture
from ictrl.data.registry import register_dataset, required_root
from ictrl.data.shelf import Shelf, held_out_count, is_held_out, new_shelf
from ictrl.errors import InputError
from ictrl.shapes import UInt8

NUMBER = re.compile(r"[0-9]{1,18}")  # that fits into 64 bits; longer ones are names
LAYOUT = "with pictures in train/CLASS and test/CLASS, or in CLASS alone"


@register_dataset("folder", "your own pictures, one folder per class: ictrl run pictures --stream.root FOLDER")
def read_folder(stream: StreamConfig, image_size: int, channels: int) -> Dataset:
    """Every picture below `stream.root` that can be read; the others are named in the dataset's `skipped`."""
    root = required_root(stream, "a folder of pictures")
    if not root.is_dir():
        found = "not there"
        if root.exists():
            found = (
                "a file: for arrays in an .npz file give --stream.dataset npz" if root.suffix == ".npz" else "a file"
            )
        raise InputError(f"Expected a folder {LAYOUT} but {root} is {found}.")
    train, test = root / "train", root / "test"
    if train.is_dir() and test.is_dir():
        return _read_parts(root, train, test, image_size, channels)
    if train.is_dir() and _subfolders(train):
        raise InputError(
            f"Expected {test} beside {train} but it is not there: add it, or give {train} itself as the folder "
            "to hold out some of its pictures."
        )
    return _read_and_hold_out(root, stream.test_share, image_size, channels)


def _read_parts(root: Path, train: Path, test: Path, image_size: int, channels: int) -> Dataset:
    folders, test_folders = _class_folders(train), _class_folders(test)
    names, test_names = ({folder.name for folder in part.values()} for part in (folders, test_folders))
    if names != test_names:
        one_sided = sorted(names ^ test_names)
        raise InputError(
            f"Expected the same classes in {train} and {test} but {', '.join(one_sided[:5])} "
            f"{'is' if len(one_sided) == 1 else 'are'} in one of them only."
        )
    skipped: list[str] = []
    parts = []
    for part in (folders, test_folders):
        files = {label: _files(folder, root, skipped) for label, folder in part.items()}
        shelf = new_shelf(sum(map(len, files.values())), image_size, channels)
        for label, folder in part.items():
            before = len(shelf.labels)
            for image in _readable(files[label], root, skipped, image_size, channels):
                shelf.add(image, label)
            _check_enough(folder, len(shelf.labels) - before, 1, len(files[label]), skipped)
        parts.append(shelf)
    return _dataset(root, parts[0], parts[1], folders, skipped)


def _read_and_hold_out(root: Path, test_share: float, image_size: int, channels: int) -> Dataset:
    folders = _class_folders(root)
    skipped: list[str] = []
    files = {label: _shuffled(_files(folder, root, skipped)) for label, folder in folders.items()}
    total = sum(map(len, files.values()))
    held_out = sum(held_out_count(len(listed), test_share) for listed in files.values())
    train = new_shelf(total - held_out, image_size, channels)
    test = new_shelf(held_out, image_size, channels)
    for label, folder in folders.items():
        position = 0
        for image in _readable(files[label], root, skipped, image_size, channels):
            (test if is_held_out(position, test_share) else train).add(image, label)
            position += 1
        _check_enough(folder, position, 2, len(files[label]), skipped)
    return _dataset(root, train, test, folders, skipped)


def _shuffled(files: list[Path]) -> list[Path]:
    """The files in an order that depends on their names alone, and separates neighbours such as frames of one film."""
    return sorted(files, key=lambda file: hashlib.sha256(file.name.encode(errors="surrogateescape")).digest())


def _dataset(root: Path, train: Shelf, test: Shelf, folders: dict[int, Path], skipped: list[str]) -> Dataset:
    names = {label: folder.name for label, folder in folders.items()}
    return Dataset(root.resolve().name, *train.contents(), *test.contents(), names, tuple(sorted(skipped)))


def _class_folders(root: Path) -> dict[int, Path]:
    """Label to folder, in ascending order of labels."""
    folders = _subfolders(root)
    if not folders:
        raise InputError(f"Expected a folder {LAYOUT} but {root} has no folders in it.")
    numbers = {int(folder.name): folder for folder in folders if NUMBER.fullmatch(folder.name)}
    if len(numbers) == len(folders):
        return dict(sorted(numbers.items()))
    return dict(enumerate(folders))


def files_by_class(root: Path) -> dict[str, list[Path]]:
    """What lies in each folder of a folder, by its name: pictures of classes to be learned, none held out for tests."""
    layout = "with one folder of pictures per class"
    if not root.is_dir():
        raise InputError(f"Expected a folder {layout} but {root} is {'a file' if root.exists() else 'not there'}.")
    folders = _subfolders(root)
    if not folders:
        raise InputError(f"Expected a folder {layout} but {root} has no folders in it.")
    if {folder.name for folder in folders} <= {"train", "test"}:
        raise InputError(f"Expected a folder {layout} but {root} has parts: name one of them, such as {folders[-1]}.")
    return {folder.name: sorted(e for e in folder.iterdir() if not e.name.startswith(".")) for folder in folders}


def _subfolders(root: Path) -> list[Path]:
    return sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _files(folder: Path, root: Path, skipped: list[str]) -> list[Path]:
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    skipped += [_passed_over(entry, root) for entry in entries if entry.is_dir()]
    return [entry for entry in entries if not entry.is_dir()]


def _passed_over(folder: Path, root: Path) -> str:
    """What is said of a folder within a class, and of all that lies in it."""
    files = sum(entry.is_file() for entry in folder.rglob("*"))
    return f"{folder.relative_to(root)}: a folder within a class, and the {files} files in it: move them one up"


def _readable(
    files: list[Path], root: Path, skipped: list[str], image_size: int, channels: int
) -> Iterator[UInt8[Tensor, "channels side side"]]:
    for file in files:
        try:
            image = read_picture(file, image_size, channels)
        except InputError as error:
            skipped.append(f"{file.relative_to(root)}: {str(error).partition(': ')[2].rstrip('.')}")
        else:
            yield image


def _check_enough(folder: Path, read: int, needed: int, listed: int, skipped: list[str]) -> None:
    if read < needed:
        within = sum(entry.is_file() for deeper in _subfolders(folder) for entry in deeper.rglob("*"))
        broken = f" ({within} files lie in folders within it: move them one up)" if within else ""
        broken = f" ({listed - read} of {listed} cannot be read, such as {skipped[-1]})" if listed > read else broken
        raise InputError(
            f"Expected at least {needed} picture{'s' if needed > 1 else ''} in {folder} but got {read}{broken}: "
            "add some, or remove the folder."
        )
