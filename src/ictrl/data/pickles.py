"""Pickled dictionaries of numbers, texts and uint8 arrays, read without being able to run code.

A pickle is a small program that may call anything it can name. Here it can name only the five stand-ins defined below,
which record what a NumPy array was pickled from. NumPy's own code never sees what the file says.
"""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ictrl.errors import InputError


class PickledArray:
    """What a pickled array consists of: type code, shape and bytes, none of it checked."""

    def __init__(self, code: str = "", shape: Any = (), raw: bytes = b"") -> None:
        self.code, self.shape, self.raw = code, shape, raw

    def __setstate__(self, state: Any) -> None:
        _version, shape, kind, fortran, raw = state
        if fortran or not isinstance(kind, PickledType) or not isinstance(raw, bytes):
            raise pickle.UnpicklingError("an array that is not stored row by row")
        self.code, self.shape, self.raw = kind.code, shape, raw


class PickledType:
    """A pickled NumPy type: its code, such as u1 for uint8."""

    def __init__(self, code: Any = "", *flags: Any) -> None:
        self.code = code.decode("latin1") if isinstance(code, bytes) else str(code)

    def __setstate__(self, state: Any) -> None:
        """Ignore byte order and alignment, which mean nothing for single bytes."""


def _reconstruct(*arguments: Any) -> PickledArray:
    """An array still without contents, which is how a pickle of protocol 4 or below begins one."""
    return PickledArray()


def _from_buffer(raw: Any, kind: Any, shape: Any, order: Any) -> PickledArray:
    """An array with its contents, which is how a pickle of protocol 5 makes one."""
    if order != "C" or not isinstance(kind, PickledType):
        raise pickle.UnpicklingError("an array that is not stored row by row")
    return PickledArray(kind.code, shape, bytes(raw) if isinstance(raw, bytes | bytearray) else b"")


def _encode(text: Any, encoding: Any) -> bytes:
    """Bytes, which Python 3 pickles as text in protocols 0 to 2."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError("bytes in another encoding than latin1")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): PickledArray,
    ("numpy", "dtype"): PickledType,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no dataset needs and which is not run")
        return ALLOWED[module, name]


def read_pickle(path: Path) -> dict[Any, Any]:
    """The dictionary in a pickled file; strings that Python 2 wrote are returned as bytes."""
    try:
        with path.open("rb") as file:
            content = _Unpickler(file, encoding="bytes").load()
    except OSError as error:
        raise InputError(f"Expected a pickled file but could not read {path}: {error.strerror}.") from None
    except Exception as error:  # a damaged pickle can fail in any way its instructions can
        raise InputError(
            f"Expected a pickled dictionary of arrays in {path} ({path.stat().st_size} bytes) but got: "
            f"{str(error) or type(error).__name__}. Download it again."
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"Expected a pickled dictionary in {path} but got {type(content).__name__}.")
    return content
