"""JSON that is read back, whoever wrote it: bounded, and checked against the types it is to have.

What is wrong is said in one line, with the place where it is: `tasks.2.0: expected a whole number but got a text`.
"""

import json
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from ictrl.errors import InputError
from ictrl.limits import TEXT_BYTES, Limit, read_regular

T = TypeVar("T")

DEEPEST = 64  # tables and lists within each other
WIDEST = 2**63  # whole numbers are below, as they are everywhere else
NAMES = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    list: "a list",
    dict: "a table",
    type(None): "null",
}


def parse_json(text: str | bytes) -> Any:
    """What a text says; ValueError, in one line, if it is no JSON or more than what anything of ours needs."""
    if problem := TEXT_BYTES.exceeded(len(text)):
        raise ValueError(problem)
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError(f"tables and lists more than {DEEPEST} deep") from None
    except UnicodeDecodeError:
        raise ValueError("no UTF-8") from None
    check_plain(value)
    return value


def check_plain(value: Any, finite: bool = True) -> None:
    """Refuse what is nested too deeply, whole numbers beyond 64 bits and, unless settings do it by name, what is not
    finite; ValueError says which."""
    level, depth = [value], 0
    while level:
        if depth > DEEPEST:
            raise ValueError(f"tables and lists more than {DEEPEST} deep")
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
            elif isinstance(item, int) and not -WIDEST <= item < WIDEST:
                raise ValueError("a whole number of more than 64 bits")
            elif finite and isinstance(item, float) and not math.isfinite(item):
                raise ValueError("a number that is not finite")
        level, depth = inner, depth + 1


def read_json(path: Path, limit: Limit = TEXT_BYTES) -> Any:
    """What a file says; an error names it."""
    try:
        return parse_json(read_regular(path, limit))
    except OSError as error:
        refuse(path, error.strerror or str(error))
    except ValueError as error:
        refuse(path, error)


def refuse(path: Path | str, reason: object) -> NoReturn:
    """The error for a file of ours that is not as it was written."""
    raise InputError(f"Expected what ictrl wrote in {path} but could not read it: {reason}.") from None


def typed(value: Any, kind: Any, path: str = "") -> Any:
    """The value if it is of that type, or a whole number where a float is; ValueError says where not.

    Types are those of JSON, unions, literals, `Any`, lists and dicts of them, and dataclasses, which are built from
    tables: a field that has a default may be missing, and there are no others.

    >>> typed({"1": [1, None]}, dict[int, list[float | None]])
    {1: [1, None]}
    >>> typed({"1": ["one"]}, dict[int, list[float | None]])
    Traceback (most recent call last):
    ValueError: 1.0: expected a number or null but got a text
    """
    if kind is Any:
        return value
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _one_of(value, get_args(kind), path)
    if origin is Literal:
        return value if value in get_args(kind) else _wrong(path, " or ".join(map(repr, get_args(kind))), value)
    if is_dataclass(kind):
        return _built(value, kind, path)
    plain = origin or kind
    if plain is float and type(value) is int:
        return value  # as it was written
    if type(value) is not plain:
        _wrong(path, NAMES[plain], value)
    inner = get_args(kind)
    if plain is list and inner:
        return [typed(item, inner[0], _below(path, i)) for i, item in enumerate(value)]
    if plain is dict and inner:
        return {_key(key, inner[0], path): typed(item, inner[1], _below(path, key)) for key, item in value.items()}
    return value


def _one_of(value: Any, kinds: tuple[Any, ...], path: str) -> Any:
    """The value by the first of several types that it may have; a table within is described by its own error."""
    problem = None
    for kind in kinds:
        try:
            return typed(value, kind, path)
        except ValueError as error:
            matching = isinstance(value, dict) and (is_dataclass(kind) or (get_origin(kind) or kind) is dict)
            matching |= isinstance(value, list) and (get_origin(kind) or kind) is list
            problem = error if matching else problem
    if problem is not None:
        raise problem
    _wrong(path, " or ".join(NAMES.get(get_origin(kind) or kind, "a table") for kind in kinds), value)


def _built(value: Any, kind: Any, path: str) -> Any:
    if type(value) is not dict:
        _wrong(path, "a table", value)
    hints = get_type_hints(kind)
    known = {field.name: field for field in fields(kind)}
    for key in value:
        if key not in known:
            raise ValueError(f"{_below(path, key)}: expected no such entry")
    found = {}
    for name, field in known.items():
        if name in value:
            found[name] = typed(value[name], hints[name], _below(path, name))
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{_below(path, name)}: expected an entry but got none")
    return kind(**found)


def _key(key: str, kind: Any, path: str) -> Any:
    """Keys are texts in JSON; those that are labels with us are whole numbers."""
    if kind is not int:
        return key
    digits = key.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20 and -WIDEST <= int(key) < WIDEST):
        raise ValueError(f"{_below(path, key)}: expected the key to be a whole number")
    return int(key)


def _below(path: str, key: object) -> str:
    shown = str(key)[:60]
    return f"{path}.{shown}" if path else shown


def _wrong(path: str, expected: str, value: Any) -> NoReturn:
    got = NAMES.get(type(value), type(value).__name__)
    raise ValueError(f"{path + ': ' if path else ''}expected {expected} but got {got}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name}, which is no number in JSON")


def noted(notes: Mapping[str, str], key: str, kind: Any, otherwise: Any) -> Any:
    """What a learner's notes hold under a key, as JSON of that type; what else if there is no such note."""
    if key not in notes:
        return otherwise
    try:
        return typed(parse_json(notes[key]), kind)
    except ValueError as error:
        raise InputError(f"Expected notes of a learner that ictrl wrote but its {key!r} has {error}.") from None
