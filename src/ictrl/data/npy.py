"""NumPy arrays in a zip archive, as `numpy.savez` writes them, from files that may come from a stranger.

What NumPy writes before an array's values is a line of Python, of which three things are taken: the type, the order and
the shape. They are compared with the sizes that the archive's directory gives, and these with the limits
(`ictrl.limits`), before anything of that size is allocated. Arrays of Python objects are refused: reading them could
run code.
"""

import io
import math
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ictrl.limits import open_regular, unpacks_too_much

MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 10_000
MOST_AT_ONCE = 2**22  # bytes, also of an archive's directory: enough for the names of 50,000 arrays
DESCR = re.compile(r"'descr': *'([<>|=]?(?:b1|[iu][1248]|f[248]|c8|c16|[SU][1-9][0-9]{0,4}))'")
FORTRAN = re.compile(r"'fortran_order': *(True|False)")
SHAPE = re.compile(r"'shape': *\(([0-9L, ]{0,200})\)")


class _Guarded(io.RawIOBase):
    """A file of which no more than so much is read at once, whatever it says of itself."""

    def __init__(self, file: io.BufferedReader) -> None:
        self.file = file

    def read(self, count: int = -1) -> bytes:
        if count > MOST_AT_ONCE:
            raise ValueError("a directory that is larger than any of NumPy's")
        return self.file.read(count if count >= 0 else MOST_AT_ONCE)

    def seek(self, position: int, whence: int = 0) -> int:
        return self.file.seek(position, whence)

    def tell(self) -> int:
        return self.file.tell()

    def seekable(self) -> bool:
        return True


@contextmanager
def open_npz(path: Path) -> Iterator["Archive"]:
    """The arrays of a file; ValueError, OSError or zipfile.BadZipFile if it is none."""
    with open_regular(path) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        if file.read(len(MAGIC)) == MAGIC:
            raise ValueError("a single array")
        file.seek(0)
        with zipfile.ZipFile(_Guarded(file)) as archive:
            yield Archive(archive, size)


class Archive:
    """The arrays of an archive by name."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self.archive, self.size = archive, size
        self.members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        self.unpacked = 0

    def read(self, name: str) -> NDArray[Any]:
        """The array of that name."""
        member = self.members[name]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1:
            raise ValueError(f"{name} packed in a way that NumPy has not")
        self.unpacked += member.file_size
        if problem := unpacks_too_much(self.size, self.unpacked):
            raise ValueError(problem)
        with cast(zipfile.ZipExtFile, self.archive.open(member)) as stream:
            dtype, shape, by_columns, header = _header(stream, name)
            if header + math.prod(shape) * dtype.itemsize != member.file_size:
                raise ValueError(f"{name} of another size than its header says")
            content = _exactly(stream, member.file_size - header, name)
            stream.read(1)  # past the end, where the checksum is compared
        array: NDArray[Any] = np.frombuffer(content, dtype=dtype)
        return array.reshape(shape[::-1]).T if by_columns else array.reshape(shape)


def _header(stream: zipfile.ZipExtFile, name: str) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Type, shape, whether columns come first, and how many bytes say so."""
    start = stream.read(len(MAGIC) + 2)
    version = start[len(MAGIC) :]
    if start[: len(MAGIC)] != MAGIC or version not in (b"\1\0", b"\2\0", b"\3\0"):
        raise ValueError(f"{name} that is no array")
    length_bytes = 2 if version == b"\1\0" else 4
    length = int.from_bytes(_exactly(stream, length_bytes, name), "little")
    if length > LONGEST_HEADER:
        raise ValueError(f"{name} with a header of {length} bytes")
    text = _exactly(stream, length, name).decode("latin1")
    descr, fortran, shape = DESCR.search(text), FORTRAN.search(text), SHAPE.search(text)
    if re.search(r"'descr': *'[|=<>]?O", text):
        raise ValueError("arrays of Python objects")
    if not descr or not fortran or not shape:
        raise ValueError(f"{name} of a type that is no plain number or text")
    sides = [side.strip().rstrip("L") for side in shape[1].split(",")]
    sides = sides[:-1] if sides[-1] == "" else sides
    if len(sides) > 32 or not all(side.isdecimal() and len(side) <= 18 for side in sides):
        raise ValueError(f"{name} without a shape")
    header = len(start) + length_bytes + length
    return np.dtype(descr[1]), tuple(map(int, sides)), fortran[1] == "True", header


def _exactly(stream: zipfile.ZipExtFile, count: int, name: str) -> bytearray:
    """So many bytes, no more allocated than there are."""
    content = bytearray()
    while len(content) < count:
        part = stream.read(min(MOST_AT_ONCE, count - len(content)))
        if not part:
            raise ValueError(f"{name} cut short")
        content += part
    return content
