"""CIFAR-10 and CIFAR-100 in their official files: the binary version, and the Python version by way of `pickles`.

A binary record is the label (in CIFAR-100 the coarse label and then the fine one, which is used) and 3072 bytes of
pixels: 32×32 of red, then of green, then of blue, row by row. The pickled arrays hold the same 3072 bytes per row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictrl.config import StreamConfig
from ictrl.data.arrays import check_labels
from ictrl.data.dataset import Dataset
from ictrl.data.layout import Layout, Source
from ictrl.data.pickled_arrays import PickledArray
from ictrl.data.pickles import read_pickle
from ictrl.data.registry import locate, register_dataset
from ictrl.errors import InputError
from ictrl.limits import TEXT_BYTES, UNPACKED_BYTES, Limit, read_regular
from ictrl.shapes import Int, UInt8

PIXELS = 3 * 32 * 32
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))

Part = tuple[UInt8[Tensor, "_ 3 32 32"], Int[Tensor, " _"]]  # each with a length of its own


@dataclass(frozen=True)
class Format:
    """What distinguishes the files of CIFAR-10 from those of CIFAR-100."""

    binary: Layout
    python: Layout
    label_bytes: int
    """bytes before the pixels of a binary record; the last of them is the label"""
    labels_key: bytes
    """the labels in a pickled dictionary"""
    names_text: str
    """file of the binary version that names the classes"""
    names_pickle: tuple[str, bytes]
    """file of the Python version that names the classes, and their key in it"""
    classes: tuple[str, ...]
    """names of the classes where no file gives them"""


CIFAR10 = Format(
    binary=Layout(("cifar-10-batches-bin", "."), (*(f"{batch}.bin" for batch in BATCHES), "test_batch.bin")),
    python=Layout(("cifar-10-batches-py", "."), (*BATCHES, "test_batch")),
    label_bytes=1,
    labels_key=b"labels",
    names_text="batches.meta.txt",
    names_pickle=("batches.meta", b"label_names"),
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
)
CIFAR100 = Format(
    binary=Layout(("cifar-100-binary", "."), ("train.bin", "test.bin")),
    python=Layout(("cifar-100-python", "."), ("train", "test")),
    label_bytes=2,
    labels_key=b"fine_labels",
    names_text="fine_label_names.txt",
    names_pickle=("meta", b"fine_label_names"),
    classes=tuple(str(label) for label in range(100)),
)


@register_dataset(
    "cifar10",
    "small photographs of animals and vehicles",
    classes=10,
    images=50000,
    test_images=10000,
    side=32,
    channels=3,
    layouts=(CIFAR10.binary, CIFAR10.python),
    source=Source(
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
        extra=(CIFAR10.names_text,),
    ),
)
def read_cifar10(stream: StreamConfig, image_size: int, channels: int) -> Dataset:
    """CIFAR-10 from its binary or its pickled files, 32×32 pixels."""
    return _read_files(stream, CIFAR10)


@register_dataset(
    "cifar100",
    "small photographs of a hundred things",
    classes=100,
    images=50000,
    test_images=10000,
    side=32,
    channels=3,
    layouts=(CIFAR100.binary, CIFAR100.python),
    source=Source(
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"},
        extra=(CIFAR100.names_text,),
    ),
)
def read_cifar100(stream: StreamConfig, image_size: int, channels: int) -> Dataset:
    """CIFAR-100 with its fine labels from its binary or its pickled files, 32×32 pixels."""
    return _read_files(stream, CIFAR100)


def _read_files(stream: StreamConfig, cifar: Format) -> Dataset:
    """The last file of a layout holds the test images, the others the training images."""
    folder, layout = locate(stream)
    binary = layout == cifar.binary
    names, path = _binary_names(folder, cifar) if binary else _pickled_names(folder, cifar)
    if len(names) != len(cifar.classes):
        raise InputError(f"Expected {len(cifar.classes)} names of classes in {path} but got {len(names)}.")
    read = _binary_batch if binary else _pickled_batch
    *training, test = [read(folder / file, cifar) for file in layout.files]
    return Dataset(
        name=stream.dataset,
        images=torch.cat([images for images, _ in training]) if len(training) > 1 else training[0][0],
        labels=torch.cat([labels for _, labels in training]),
        test_images=test[0],
        test_labels=test[1],
        class_names=dict(enumerate(names)),
    )


def _binary_names(folder: Path, cifar: Format) -> tuple[Sequence[str], Path]:
    path = folder / cifar.names_text
    if not path.is_file():
        return cifar.classes, path
    return _readable(path, TEXT_BYTES).decode(errors="replace").split(), path


def _pickled_names(folder: Path, cifar: Format) -> tuple[Sequence[str], Path]:
    file, key = cifar.names_pickle
    path = folder / file
    if not path.is_file():
        return cifar.classes, path
    content = read_pickle(path).get(key, [])
    listed = content if isinstance(content, list) else []
    if len(listed) != len(cifar.classes) or not all(isinstance(item, bytes) and len(item) <= 100 for item in listed):
        raise InputError(f"Expected {len(cifar.classes)} names of classes in {path} but got something else.")
    return [item.decode(errors="replace") for item in listed], path


def _binary_batch(path: Path, cifar: Format) -> Part:
    content = np.frombuffer(_readable(path, UNPACKED_BYTES), dtype=np.uint8)
    record = cifar.label_bytes + PIXELS
    if not len(content) or len(content) % record:
        raise InputError(
            f"Expected records of {record} bytes in {path} (10000 of them are {10000 * record} bytes) "
            f"but got {len(content)} bytes: it is cut off or another file; download it again."
        )
    records = content.reshape(-1, record)
    labels = torch.from_numpy(records[:, cifar.label_bytes - 1].astype(np.int64))
    images = torch.from_numpy(records[:, cifar.label_bytes :].copy()).reshape(-1, 3, 32, 32)
    check_labels(labels, len(cifar.classes), path)
    return images, labels


def _readable(path: Path, limit: Limit) -> bytes:
    """All of a file, if it is a regular one within the limit."""
    try:
        return read_regular(path, limit)
    except (OSError, InputError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"Expected a file of CIFAR but could not read {path}: {reason}.") from None


def _pickled_batch(path: Path, cifar: Format) -> Part:
    content = read_pickle(path)
    data, labels = _entry(content, b"data", PickledArray, path), _entry(content, cifar.labels_key, list, path)
    if data.code != "u1" or data.shape != (len(labels), PIXELS) or len(data.raw) != len(labels) * PIXELS or not labels:
        raise InputError(
            f"Expected uint8 data of shape ({len(labels)}, {PIXELS}) in {path} but got {data.code} of shape "
            f"{data.shape} in {len(data.raw)} bytes: it is another file; download it again."
        )
    classes = len(cifar.classes)
    if not all(type(label) is int and 0 <= label < classes for label in labels):
        raise InputError(f"Expected whole numbers from 0 to {classes - 1} as labels in {path} but got others.")
    images = torch.frombuffer(bytearray(data.raw), dtype=torch.uint8).reshape(-1, 3, 32, 32)
    return images, torch.tensor(labels, dtype=torch.int64)


def _entry(content: dict[Any, Any], key: bytes, kind: type, path: Path) -> Any:
    value = content.get(key)
    if not isinstance(value, kind):
        keys = ", ".join(sorted(str(k)[:40] for k in content)[:10]) or "nothing"
        raise InputError(f"Expected {key!r} in {path} but got {keys}: it is another file; download it again.")
    return value
