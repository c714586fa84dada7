"""MNIST and Fashion-MNIST in their official IDX files, plain or compressed.

An IDX file begins with two zero bytes, a byte for the type (8: uint8), a byte for the number of dimensions, and each
dimension as four bytes, the highest first. The values follow.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from ictrl.data.dataset import Dataset
from ictrl.data.layout import Layout
from ictrl.data.resize import fit
from ictrl.errors import InputError

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
LAYOUTS = {
    "mnist": Layout(("MNIST/raw", "MNIST", "."), FILES, compressed=True),
    "fashion-mnist": Layout(("FashionMNIST/raw", "FashionMNIST", "."), FILES, compressed=True),
}
CLASSES = {
    "mnist": [str(digit) for digit in range(10)],
    "fashion-mnist": [
        "T-shirt/top",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ],
}
UINT8_TYPE = 8


def read_idx_dataset(name: str, folder: Path, image_size: int, channels: int) -> Dataset:
    """MNIST or Fashion-MNIST from the folder that holds its four files."""
    paths = [LAYOUTS[name].path(folder, file) for file in FILES]
    images, labels, test_images, test_labels = (
        read_idx(path, dimensions) for path, dimensions in zip(paths, (3, 1) * 2)
    )
    for images_path, labels_path, pixels, classes in (
        (paths[0], paths[1], images, labels),
        (paths[2], paths[3], test_images, test_labels),
    ):
        if len(pixels) != len(classes):
            raise InputError(
                f"Expected a label for each of the {len(pixels)} images in {images_path} "
                f"but got {len(classes)} in {labels_path}: download them again."
            )
        _check_classes(labels_path, classes, len(CLASSES[name]))
    return Dataset(
        name=name,
        images=fit(images[:, None], image_size, channels),
        labels=labels.long(),
        test_images=fit(test_images[:, None], image_size, channels),
        test_labels=test_labels.long(),
        class_names=dict(enumerate(CLASSES[name])),
    )


def read_idx(path: Path, dimensions: int) -> UInt8[Tensor, "..."]:
    """The values of one IDX file of uint8 with that many dimensions."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"Expected an IDX file but could not read {path}: {error}. Is it whole? If not, download it again."
        ) from None
    magic = bytes((0, 0, UINT8_TYPE, dimensions))
    header = len(magic) + 4 * dimensions
    if content[:4] != magic or len(content) < header:
        raise InputError(
            f"Expected {path} to begin with {magic.hex(' ')} (IDX, uint8, {dimensions} dimensions) "
            f"but got {content[:4].hex(' ') or 'nothing'} in {len(content)} bytes: it is another file or cut off."
        )
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    expected = header + math.prod(shape)
    if len(content) != expected or not math.prod(shape):
        raise InputError(
            f"Expected {expected} bytes in {path} ({' × '.join(map(str, shape))} and {header} of header) "
            f"but got {len(content)}: download it again."
        )
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=header).reshape(shape)


def _check_classes(path: Path, labels: UInt8[Tensor, " n"], classes: int) -> None:
    highest = int(labels.max())
    if highest >= classes:
        raise InputError(f"Expected labels from 0 to {classes - 1} in {path} but got {highest}: it is another file.")
