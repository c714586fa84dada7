"""MNIST and Fashion-MNIST in their official IDX files, plain or compressed.

An IDX file begins with two zero bytes, a byte for the type (8: uint8), a byte for the number of dimensions, and each
dimension as four bytes, the highest first. The values follow.
"""

import io
import math
import struct
import zlib
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path

import torch
from torch import Tensor

from ictrl.config import StreamConfig
from ictrl.data.arrays import check_labels
from ictrl.data.dataset import Dataset
from ictrl.data.layout import Layout, Source
from ictrl.data.registry import locate, register_dataset
from ictrl.data.resize import check_fitted
from ictrl.errors import InputError
from ictrl.limits import open_regular, unpacks_too_much
from ictrl.shapes import UInt8

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
DIGITS = tuple(str(digit) for digit in range(10))
CLOTHES = (
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
)
UINT8_TYPE = 8
PART = 2**20  # bytes that are read at a time


@register_dataset(
    "mnist",
    "handwritten digits",
    classes=10,
    images=60000,
    test_images=10000,
    side=28,
    channels=1,
    layouts=(Layout(("MNIST/raw", "MNIST", "."), FILES, compressed=True),),
    source=Source(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {
            "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
)
def read_mnist(stream: StreamConfig, image_size: int, channels: int) -> Dataset:
    """MNIST from its four files, 28×28 pixels."""
    return _read_files(stream, DIGITS, image_size, channels)


@register_dataset(
    "fashion-mnist",
    "articles of clothing",
    classes=10,
    images=60000,
    test_images=10000,
    side=28,
    channels=1,
    layouts=(Layout(("FashionMNIST/raw", "FashionMNIST", "."), FILES, compressed=True),),
    source=Source(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        {
            "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
)
def read_fashion_mnist(stream: StreamConfig, image_size: int, channels: int) -> Dataset:
    """Fashion-MNIST from its four files, 28×28 pixels."""
    return _read_files(stream, CLOTHES, image_size, channels)


def _read_files(stream: StreamConfig, names: Sequence[str], image_size: int, channels: int) -> Dataset:
    folder, layout = locate(stream)
    paths = [layout.path(folder, file) for file in FILES]
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
        check_labels(classes, len(names), labels_path)
        check_fitted(len(pixels), image_size, channels, images_path)
    return Dataset(
        name=stream.dataset,
        images=images[:, None],
        labels=labels.long(),
        test_images=test_images[:, None],
        test_labels=test_labels.long(),
        class_names=dict(enumerate(names)),
    )


def _opened(path: Path) -> BufferedReader:
    try:
        return open_regular(path)
    except InputError as error:
        raise InputError(f"Expected an IDX file but {path} is {error}.") from None


class Unpacked:
    """The contents of a gzip file, unpacked no further than they are asked for."""

    def __init__(self, file: BufferedReader) -> None:
        self.file = file
        self.inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)

    def read(self, count: int) -> bytes:
        """So many bytes, or fewer at the end."""
        content = b""
        while len(content) < count and not self.inflater.eof:
            packed = self.inflater.unconsumed_tail or self.file.read(PART)
            if not packed:
                raise EOFError("compressed data that end too early")
            content += self.inflater.decompress(packed, count - len(content))
        return content


def read_idx(path: Path, dimensions: int) -> UInt8[Tensor, "..."]:
    """The values of one IDX file, which must hold uint8 and have that many dimensions."""
    magic = bytes((0, 0, UINT8_TYPE, dimensions))
    try:
        with _opened(path) as file:
            size = file.seek(0, io.SEEK_END)
            file.seek(0)
            stream: Unpacked | BufferedReader = Unpacked(file) if path.suffix == ".gz" else file
            header = stream.read(len(magic) + 4 * dimensions)
            if header[:4] != magic or len(header) < len(magic) + 4 * dimensions:
                raise InputError(
                    f"Expected {path} to begin with {magic.hex(' ')} (IDX, uint8, {dimensions} dimensions) "
                    f"but got {header[:4].hex(' ') or 'nothing'} in {size} bytes: it is another file or cut off."
                )
            shape = struct.unpack(f">{dimensions}I", header[4:])
            values = math.prod(shape)
            if problem := unpacks_too_much(size, values):
                raise InputError(f"Expected an IDX file but {path} has a header that asks for {problem}.")
            content = bytearray()
            # as much as there is, and one byte too much if there is more: nothing is allocated for the header's sake
            while len(content) <= values and (part := stream.read(min(PART, values + 1 - len(content)))):
                content += part
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(
            f"Expected an IDX file but could not read {path}: {reason}. Is it whole? If not, download it again."
        ) from None
    if len(content) != values or not values:
        got = "more" if len(content) > values else f"{len(header) + len(content)}"
        raise InputError(
            f"Expected {len(header) + values} bytes in {path} ({' × '.join(map(str, shape))} and {len(header)} of "
            f"header) but got {got}: download it again."
        )
    return torch.frombuffer(content, dtype=torch.uint8).reshape(shape)
