"""Pictures of your own, one folder per class: `train/CLASS/…` and `test/CLASS/…`, or `CLASS/…` alone.

Without a test part, some pictures of each class are held out as test images. Their file names decide which, so that it
is the same on every machine, whatever order its file system lists files in.

If all folders are named by numbers, these are the classes; otherwise classes are counted from 0 in the order of names.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ictrl.config import StreamConfig
from ictrl.data.dataset import Dataset
from ictrl.data.decoded import Decoded, decoded, stays_in_file
from ictrl.data.patience import check_stop
from ictrl.data.picture_source import Pictures
from ictrl.data.pictures import read_picture
from ictrl.data.registry import register_dataset, required_root
from ictrl.data.shelf import are_held_out, held_out_count, is_held_out, new_shelf
from ictrl.errors import InputError
from ictrl.shapes import Int, UInt8

NUMBER = re.compile(r"[0-9]{1,18}")  # that fits into 64 bits; longer ones are names
Part = tuple[Tensor, Tensor]  # images and labels
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
        return _read_parts(root, train, test, stream, image_size, channels)
    if train.is_dir() and _subfolders(train):
        raise InputError(
            f"Expected {test} beside {train} but it is not there: add it, or give {train} itself as the folder "
            "to hold out some of its pictures."
        )
    return _read_and_hold_out(root, stream, image_size, channels)


def _read_parts(root: Path, train: Path, test: Path, stream: StreamConfig, image_size: int, channels: int) -> Dataset:
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
    listed = [
        {label: _files(folder, root, skipped) for label, folder in part.items()} for part in (folders, test_folders)
    ]
    if stays_in_file(stream.cache, _nbytes(listed, image_size, channels)):
        found, unread = _decoded(root, listed, image_size, channels)
        for of_tests, part, files in zip((False, True), (folders, test_folders), listed):
            _check_each(part, files, found.labels[torch.from_numpy(found.test == of_tests)], unread, skipped, needed=1)
        return _dataset(root, found.part(~found.test), found.part(found.test), folders, skipped)
    for part, files in zip((folders, test_folders), listed):
        shelf = new_shelf(sum(map(len, files.values())), image_size, channels)
        for label, folder in part.items():
            before = len(shelf.labels)
            for image in _readable(files[label], root, skipped, image_size, channels):
                shelf.add(image, label)
            _check_enough(folder, len(shelf.labels) - before, 1, len(files[label]), skipped)
        parts.append(shelf)
    return _dataset(root, parts[0].contents(), parts[1].contents(), folders, skipped)


def _read_and_hold_out(root: Path, stream: StreamConfig, image_size: int, channels: int) -> Dataset:
    folders, test_share = _class_folders(root), stream.test_share
    skipped: list[str] = []
    files = {label: _shuffled(_files(folder, root, skipped)) for label, folder in folders.items()}
    if stays_in_file(stream.cache, _nbytes([files], image_size, channels)):
        found, unread = _decoded(root, [files], image_size, channels)
        _check_each(folders, files, found.labels, unread, skipped, needed=2)
        held = are_held_out(found.labels, test_share)
        return _dataset(root, found.part(~held), found.part(held), folders, skipped)
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
    return _dataset(root, train.contents(), test.contents(), folders, skipped)


def _nbytes(listed: list[dict[int, list[Path]]], image_size: int, channels: int) -> int:
    """Of the images of all these files, should each be a picture."""
    return sum(len(files) for part in listed for files in part.values()) * channels * image_size**2


def _decoded(
    root: Path, listed: list[dict[int, list[Path]]], image_size: int, channels: int
) -> tuple[Decoded, dict[Path, str]]:
    """The pictures of one part, or of a training and a test part, in a file, and what is wrong with the others."""
    files = [file for part in listed for of_class in part.values() for file in of_class]
    of_classes = [(label, test, len(found)) for test, part in enumerate(listed) for label, found in part.items()]
    labels, tests, counts = (np.array(column) for column in zip(*of_classes))

    def described() -> Iterator[str]:
        for label, test, count in of_classes:
            yield f"{count} of {label} {test}"
        for file in files:
            try:
                about = file.stat()
                yield f"{file.relative_to(root)} {about.st_size} {about.st_mtime_ns}"
            except OSError as error:  # a link to nothing, say
                yield f"{file.relative_to(root)} {error.errno}"

    found = decoded(
        Pictures(
            where=str(root.resolve()),
            labels=labels.repeat(counts),
            test=tests.astype(bool).repeat(counts),
            image_size=image_size,
            channels=channels,
            read=lambda number: read_picture(files[number], image_size, channels),
            described=described,
        ),
        root.resolve().name,
    )
    return found, {files[number]: f"{files[number].relative_to(root)}: {why}" for number, why in found.skipped.items()}


def _check_each(
    folders: dict[int, Path],
    files: dict[int, list[Path]],
    labels: Int[Tensor, " n"],
    unread: dict[Path, str],
    skipped: list[str],
    needed: int,
) -> None:
    """Whether each class has enough readable pictures; those that are not readable are skipped."""
    counts = Counter(labels.tolist())
    for label, folder in folders.items():
        skipped += [unread[file] for file in files[label] if file in unread]
        _check_enough(folder, counts[label], needed, len(files[label]), skipped)


def _shuffled(files: list[Path]) -> list[Path]:
    """The files in an order that depends on their names alone, and separates neighbours such as frames of one film."""
    return sorted(files, key=lambda file: hashlib.sha256(file.name.encode(errors="surrogateescape")).digest())


def _dataset(root: Path, train: Part, test: Part, folders: dict[int, Path], skipped: list[str]) -> Dataset:
    names = {label: folder.name for label, folder in folders.items()}
    return Dataset(root.resolve().name, *train, *test, names, tuple(sorted(skipped)))


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
        check_stop()
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
