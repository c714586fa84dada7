"""NumPy's arrays in pickles: what a pickle may name, and what is made in its place. Nothing that it names is called."""

from dataclasses import dataclass
from typing import Any


class RefusedError(ValueError):
    """What a pickle asked for that no data set needs."""


@dataclass
class PickledArray:
    """What a pickled array consists of: type code, shape and bytes."""

    code: str = ""
    shape: tuple[int, ...] = ()
    raw: bytes = b""

    def fill(self, code: Any, shape: Any, raw: Any, by_rows: bool) -> "PickledArray":
        """Take over what a file says of the array, if it is of the right types."""
        if not by_rows or not isinstance(code, PickledType) or not isinstance(raw, bytes):
            raise RefusedError("an array that is not stored row by row")
        if not isinstance(shape, tuple) or len(shape) > 8 or not all(type(side) is int for side in shape):
            raise RefusedError("an array without a shape")
        self.code, self.shape, self.raw = code.code, shape, raw
        return self


@dataclass
class PickledType:
    """A pickled NumPy type: its code, such as u1 for uint8. Byte order and alignment mean nothing for single bytes."""

    code: str


KNOWN = {
    ("numpy", "ndarray"): "array",
    ("numpy", "dtype"): "type",
    ("numpy.core.multiarray", "_reconstruct"): "empty array",
    ("numpy._core.multiarray", "_reconstruct"): "empty array",
    ("numpy.core.numeric", "_frombuffer"): "array from bytes",
    ("numpy._core.numeric", "_frombuffer"): "array from bytes",
    ("_codecs", "encode"): "bytes from text",
}
"""What a pickle may name, and what is made in its place."""


@dataclass(frozen=True)
class Global:
    """Something that a pickle named, by what is made in its place."""

    kind: str


def function_named(module: Any, name: Any) -> Global:
    """What stands for the function of that name."""
    if not isinstance(module, str) or not isinstance(name, str):
        raise RefusedError("a function without a name")
    if (module, name) not in KNOWN:
        asked = f"{module}.{name}"[:100]
        raise RefusedError(f"it asks for {asked}, which no dataset needs and which is not run")
    return Global(KNOWN[module, name])


def called(function: Any, given: Any) -> "PickledArray | PickledType | bytes":
    """What is made in place of a call."""
    kind = function.kind if isinstance(function, Global) else ""
    if not isinstance(given, tuple) or kind not in ("type", "empty array", "array from bytes", "bytes from text"):
        raise RefusedError("a call of something that is no function")
    if kind == "empty array":
        return PickledArray()
    if kind == "array from bytes":
        raw, code, shape, order = given
        return PickledArray().fill(code, shape, raw, order == "C")
    if kind == "type":
        code = given[0] if given else None
        if not isinstance(code, str | bytes) or len(code) > 20:
            raise RefusedError("a type without a name")
        return PickledType(code.decode("latin1") if isinstance(code, bytes) else code)
    text, encoding = given
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise RefusedError("bytes in another encoding than latin1")
    return text.encode("latin1")


def give_state(made: Any, state: Any) -> None:
    """Fill an array with what follows its call."""
    if isinstance(made, PickledType):
        return
    if not isinstance(made, PickledArray) or not isinstance(state, tuple):
        raise RefusedError("a state of something that has none")
    _version, shape, code, by_columns, raw = state
    made.fill(code, shape, raw, by_columns is False or by_columns == 0)
