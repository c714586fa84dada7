"""CIFAR-10 and CIFAR-100 in their official files: the binary version, and the Python version by way of `pickles`.

A binary record is the label (in CIFAR-100 the coarse label and then the fine one, which is used) and 3072 bytes of
pixels: 32×32 of red, then of green, then of blue, row by row. The pickled arrays hold the same 3072 bytes a row.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from ictrl.data.dataset import Dataset
from ictrl.data.layout import Layout
from ictrl.data.pickles import Array, read_pickle
from ictrl.data.resize import fit
from ictrl.errors import InputError

PIXELS = 3 * 32 * 32
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
BINARY = {
    "cifar10": Layout(("cifar-10-batches-bin", "."), (*(f"{batch}.bin" for batch in BATCHES), "test_batch.bin")),
    "cifar100": Layout(("cifar-100-binary", "."), ("train.bin", "test.bin")),
}
PYTHON = {
    "cifar10": Layout(("cifar-10-batches-py", "."), (*BATCHES, "test_batch")),
    "cifar100": Layout(("cifar-100-python", "."), ("train", "test")),
}
LABEL_BYTES = {"cifar10": 1, "cifar100": 2}
LABELS_KEY = {"cifar10": b"labels", "cifar100": b"fine_labels"}
NAMES_TEXT = {"cifar10": "batches.meta.txt", "cifar100": "fine_label_names.txt"}
NAMES_PICKLE = {"cifar10": ("batches.meta", b"label_names"), "cifar100": ("meta", b"fine_label_names")}
CLASSES = {
    "cifar10": ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"],
    "cifar100": [str(label) for label in range(100)],
}

Part = tuple[UInt8[Tensor, "_ 3 32 32"], Int[Tensor, " _"]]  # each with a length of its own


def read_cifar_binary(name: str, folder: Path, image_size: int, channels: int) -> Dataset:
    """CIFAR-10 or CIFAR-100 from the folder of its binary files."""
    parts = [_binary_batch(folder / file, LABEL_BYTES[name], len(CLASSES[name])) for file in BINARY[name].files]
    path = folder / NAMES_TEXT[name]
    names = path.read_text(encoding="utf-8", errors="replace").split() if path.is_file() else CLASSES[name]
    return _dataset(name, parts, names, path, image_size, channels)


def read_cifar_python(name: str, folder: Path, image_size: int, channels: int) -> Dataset:
    """CIFAR-10 or CIFAR-100 from the folder of its pickled files, which cannot run code when they are read."""
    parts = [_pickled_batch(folder / file, LABELS_KEY[name], len(CLASSES[name])) for file in PYTHON[name].files]
    file, key = NAMES_PICKLE[name]
    path = folder / file
    names = CLASSES[name]
    if path.is_file():
        content = read_pickle(path).get(key, [])
        listed = content if isinstance(content, list) else []
        names = [item.decode(errors="replace") for item in listed if isinstance(item, bytes)]
    return _dataset(name, parts, names, path, image_size, channels)


def _dataset(name: str, parts: list[Part], names: list[str], path: Path, image_size: int, channels: int) -> Dataset:
    """The last part holds the test images, the others the training images."""
    if len(names) != len(CLASSES[name]):
        raise InputError(f"Expected {len(CLASSES[name])} names of classes in {path} but got {len(names)}.")
    *training, test = [(fit(images, image_size, channels), labels) for images, labels in parts]
    return Dataset(
        name=name,
        images=torch.cat([images for images, _ in training]) if len(training) > 1 else training[0][0],
        labels=torch.cat([labels for _, labels in training]),
        test_images=test[0],
        test_labels=test[1],
        class_names=dict(enumerate(names)),
    )


def _binary_batch(path: Path, label_bytes: int, classes: int) -> Part:
    content = np.fromfile(path, dtype=np.uint8)
    record = label_bytes + PIXELS
    if not len(content) or len(content) % record:
        raise InputError(
            f"Expected records of {record} bytes in {path} (10000 of them are {10000 * record} bytes) "
            f"but got {len(content)} bytes: it is cut off or another file; download it again."
        )
    records = content.reshape(-1, record)
    labels = torch.from_numpy(records[:, label_bytes - 1].astype(np.int64))
    images = torch.from_numpy(records[:, label_bytes:].copy()).reshape(-1, 3, 32, 32)
    return images, _checked_labels(labels, path, classes)


def _pickled_batch(path: Path, labels_key: bytes, classes: int) -> Part:
    content = read_pickle(path)
    data, labels = _entry(content, b"data", Array, path), _entry(content, labels_key, list, path)
    if data.code != "u1" or data.shape != (len(labels), PIXELS) or len(data.raw) != len(labels) * PIXELS or not labels:
        raise InputError(
            f"Expected uint8 data of shape ({len(labels)}, {PIXELS}) in {path} but got {data.code} of shape "
            f"{data.shape} in {len(data.raw)} bytes: it is another file; download it again."
        )
    if not all(type(label) is int and 0 <= label < classes for label in labels):
        raise InputError(f"Expected whole numbers from 0 to {classes - 1} as labels in {path} but got others.")
    images = torch.frombuffer(bytearray(data.raw), dtype=torch.uint8).reshape(-1, 3, 32, 32)
    return images, torch.tensor(labels, dtype=torch.int64)


def _entry(content: dict[Any, Any], key: bytes, kind: type, path: Path) -> Any:
    value = content.get(key)
    if not isinstance(value, kind):
        keys = ", ".join(sorted(str(k) for k in content)) or "nothing"
        raise InputError(f"Expected {key!r} in {path} but got {keys}: it is another file; download it again.")
    return value


def _checked_labels(labels: Int[Tensor, " n"], path: Path, classes: int) -> Int[Tensor, " n"]:
    if int(labels.max()) >= classes:
        raise InputError(
            f"Expected labels from 0 to {classes - 1} in {path} but got {int(labels.max())}: it is another file."
        )
    return labels
