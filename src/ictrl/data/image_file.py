"""Images that stay in a file: a tensor by all looks, read where its numbers are asked for.

`FileImages` is what a data set hands out whose images do not fit into memory. Parts of it (slices, `split`) are images
of the same file and hold nothing but positions; whatever computes with a part reads that part. So a pass over all
images in chunks needs memory for one chunk, and code for ordinary tensors need not know the difference:

    for part in images.split(2048):
        encoder(to_float(part))         # 2048 images are read here

Indexing by a tensor gives an ordinary tensor, a copy as it is of any tensor; `at` chooses images without reading them.

The file is one of safetensors, with its header padded so that pixels begin on a page: any program that knows the format
can open it. Where it holds a sum for each picture, what is read is compared with it: pixels that have changed since
they were written are an error.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_map_only

from ictrl.errors import InputError
from ictrl.limits import open_regular
from ictrl.shapes import Shaped, UInt8

HEADER = 4096  # bytes before the pixels
COPIED = 2**26  # bytes that are on their way to another device at once
TYPES = {"uint8": "U8", "int64": "I64"}

aten = torch.ops.aten


class FileImages(Tensor):
    """Images (n, c, h, w) of uint8 at some places of an array that is mapped into memory."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment] # operations come to `__torch_dispatch__`

    pixels: NDArray[np.uint8]
    places: NDArray[np.int64]
    path: Path | None
    sums: NDArray[np.int64] | None

    @staticmethod
    def __new__(
        cls,
        pixels: NDArray[np.uint8],
        places: NDArray[np.int64] | None = None,
        path: Path | None = None,
        sums: NDArray[np.int64] | None = None,
    ) -> "FileImages":
        places = np.arange(len(pixels)) if places is None else places
        shape = (len(places), *pixels.shape[1:])
        made: FileImages = Tensor._make_wrapper_subclass(cls, shape, dtype=torch.uint8)
        made.pixels, made.places, made.path, made.sums = pixels, places, path, sums
        return made

    def __init__(self, *_: object) -> None:
        super().__init__()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"FileImages of shape {tuple(self.shape)}"

    def at(self, rows: Shaped[Tensor, " rows"]) -> "FileImages":
        """The images of these rows, or where it is true, still in the file."""
        return self._of(torch.from_numpy(self.places)[rows].numpy())

    def _of(self, places: NDArray[np.int64]) -> "FileImages":
        return FileImages(self.pixels, places, self.path, self.sums)

    def read(self) -> UInt8[Tensor, "n c h w"]:
        """All of them, in memory."""
        found = torch.empty(self.shape, dtype=torch.uint8)
        self._take(self.places, found.numpy())
        return found

    def read_rows(self, rows: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """The images of these rows into an array; any thread may call it, and others go on meanwhile."""
        self._take(self.places[rows], out)

    def _take(self, places: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        np.take(self.pixels, places, axis=0, out=out, mode="clip")
        if self.sums is not None and (sums_of(out) != self.sums[places]).any():
            raise InputError(
                f"Expected the pictures in {self.path} to be as they were decoded but some have changed: is the disk "
                "in order? Remove the file, and they are decoded again."
            )

    def numpy(self, *, force: bool = False) -> NDArray[np.uint8]:
        """All of them, as an array."""
        return self.read().numpy()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Parts of the images stay in the file; for anything else they are read first."""
        given = dict(kwargs or {})
        if args and isinstance(args[0], cls):
            found = _part(func, *args, **given)
            if found is not NotImplemented:
                return found
        args, given = tree_map_only(cls, cls.read, (args, given))
        return func(*args, **given)


def take(images: UInt8[Tensor, "n c h w"], rows: Shaped[Tensor, " rows"]) -> UInt8[Tensor, "m c h w"]:
    """The images of these rows: a copy, or still in the file that they are in."""
    return images.at(rows) if isinstance(images, FileImages) else images[rows]


def _part(func: Any, images: FileImages, *args: Any, **given: Any) -> Any:
    """What an operation gives that needs no pixels, or those of few images; else NotImplemented."""
    first = not args or args[0] == 0  # whether it concerns the images as such, and not their pixels
    if func in (aten.detach.default, aten.alias.default):
        return images._of(images.places)
    if func is aten.slice.Tensor and first:
        return images._of(images.places[slice(*args[1:])])
    if func in (aten.split.Tensor, aten.split_with_sizes.default) and (args[1:] or (0,))[0] == 0:
        parts = torch.from_numpy(images.places).split(args[0])
        return [images._of(part.numpy()) for part in parts]
    if func is aten.select.int and first:
        return images._of(images.places[[args[1]]]).read()[0]
    if func is aten.index.Tensor and len(args[0]) == 1:
        return images.at(args[0][0]).read()
    if func is aten.index_select.default and first:
        return images.at(args[1]).read()
    if func is aten._to_copy.default and given.get("device", images.device) != images.device:
        return _sent(images, given["device"], given.get("dtype") or torch.uint8)
    return NotImplemented


def _sent(images: FileImages, device: torch.device, dtype: torch.dtype) -> Tensor:
    """A copy on another device, made bit by bit: the host need not have room for it."""
    there = torch.empty(images.shape, device=device, dtype=dtype)
    step = max(1, COPIED // max(1, images[:1].numel()))
    for start in range(0, len(images), step):
        there[start : start + step] = images._of(images.places[start : start + step]).read().to(device)
    return there


def header(arrays: Mapping[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """The first bytes of a file with arrays of these types (uint8, int64) and shapes, one behind the other."""
    about, end = {}, 0
    for name, (dtype, shape) in arrays.items():
        begin, end = end, end + np.dtype(dtype).itemsize * math.prod(shape)
        about[name] = {"dtype": TYPES[dtype], "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(about).encode()
    return (HEADER - 8).to_bytes(8, "little") + text.ljust(HEADER - 8)


def sums_of(images: NDArray[np.uint8]) -> NDArray[np.int64]:
    """A number per image that hardly ever stays if its pixels change; it costs less than to copy them.

    >>> sums_of(np.full((2, 1, 1, 8), 1, np.uint8)).tolist()
    [72340172838076673, 72340172838076673]
    """
    rows = np.ascontiguousarray(images).reshape(len(images), math.prod(images.shape[1:]))
    words = next(np.dtype(f"u{size}") for size in (8, 4, 2, 1) if rows.shape[1] % size == 0)
    found: NDArray[np.int64] = rows.view(words).sum(axis=1, dtype=np.uint64).view(np.int64)
    return found


def open_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file, mapped into memory; OSError if there is none, ValueError, InputError if it is not whole."""
    with open_regular(path) as file:
        size, begin = os.fstat(file.fileno()).st_size, file.read(HEADER)
    if len(begin) < HEADER or int.from_bytes(begin[:8], "little") != HEADER - 8:
        raise ValueError("another beginning")
    types = {name: np.dtype(dtype) for dtype, name in TYPES.items()}
    found, end = {}, 0
    try:
        about = {name: (types[entry["dtype"]], entry["shape"]) for name, entry in json.loads(begin[8:]).items()}
        if not all(type(side) is int and 0 <= side <= size for _, shape in about.values() for side in shape):
            raise ValueError("another header")
        lengths = [dtype.itemsize * math.prod(shape) for dtype, shape in about.values()]
        if HEADER + sum(lengths) != size:
            raise ValueError(f"{size:,} bytes where there should be {HEADER + sum(lengths):,}")
        mapped = np.memmap(path, dtype=np.uint8, mode="c", offset=HEADER).view(np.ndarray)
        for (name, (dtype, shape)), length in zip(about.items(), lengths):
            found[name], end = mapped[end : end + length].view(dtype).reshape(shape), end + length
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"another header ({type(error).__name__})") from None
    return found
