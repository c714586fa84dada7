"""Recipes as nested tables, which is what TOML and JSON hold: built, checked, changed, compared, written.

An unknown name, a value of another type or out of range is refused with the setting's full name.
"""

import difflib
import json
from dataclasses import asdict, fields, is_dataclass, replace
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from ictrl.config import METHODS, Recipe
from ictrl.errors import ConfigError
from ictrl.recipes.legacy import RECIPES, flat

T = TypeVar("T")

DECIDES_NOTHING = (
    *("name", "description", "stream.root", "stream.cache"),
    *("run.keep_pictures", "run.wait_minutes", "run.checkpoint."),
)
"""How settings begin that change no result."""


def recipe_from_table(table: dict[str, Any]) -> Recipe:
    """A recipe from nested tables, as TOML or JSON hold them; an unknown key or a wrong type is refused by name."""
    method = table.get("method", {})
    name = method.get("name", Recipe().method.name) if isinstance(method, dict) else None
    if name is not None and (not isinstance(name, str) or name not in METHODS):
        raise ConfigError(
            f"Expected method.name to be one of {', '.join(METHODS)} but got {name!r}"
            f"{did_you_mean(str(name), list(METHODS))}: a method of your own is known once its module is imported."
        )
    base = Recipe() if name is None else Recipe(method=METHODS[name]())
    if isinstance(method, dict):
        table = {**table, "method": {key: value for key, value in method.items() if key != "name"}}
    return _over(base, table, "")


def recipe_to_table(recipe: Recipe) -> dict[str, Any]:
    """The inverse of `recipe_from_table`, every default spelled out; tuples as lists, which is what files have."""
    table: dict[str, Any] = asdict(
        recipe, dict_factory=lambda pairs: {k: list(v) if isinstance(v, tuple) else v for k, v in pairs}
    )
    return {**table, "method": {"name": recipe.method.name, **table["method"]}}


def recipe_with(recipe: Recipe, settings: dict[str, Any]) -> Recipe:
    """The recipe with some settings changed, given as nested tables.

    >>> recipe_with(Recipe(), {"method": {"later": {"epochs": 3}}}).method.later.epochs
    3
    """
    return recipe_from_table(changed(recipe_to_table(recipe), settings))


def differences(one: Recipe, other: Recipe) -> list[str]:
    """The settings that decide results and differ, as `name: this → that`; where the data lies decides none."""
    first, second = ({**dict.fromkeys(both), **found} for both, found in _aligned(one, other))
    return [f"{key}: {first[key]} → {second[key]}" for key in first if first[key] != second[key]]


def _aligned(one: Recipe, other: Recipe) -> list[tuple[list[str], dict[str, Any]]]:
    ignored = (*DECIDES_NOTHING, "run.device")
    tables = [
        {key: value for key, value in flat(recipe_to_table(recipe)) if not key.startswith(ignored)}
        for recipe in (one, other)
    ]
    both = list(dict.fromkeys(key for table in tables for key in table))
    return [(both, table) for table in tables]


def without_place(recipe: Recipe) -> Recipe:
    """The recipe without where the data lay on one machine."""
    return replace(recipe, stream=replace(recipe.stream, root=None))


def beginning(recipe: Recipe) -> str:
    """A text that is the same for all recipes whose runs do the same until the end of their first task."""
    kept = {key: value for key, value in flat(_without_later(recipe)) if not key.startswith(DECIDES_NOTHING)}
    return json.dumps({"method": recipe.method.name, **kept}, sort_keys=True)


def _without_later(config: Any) -> dict[str, Any]:
    """A dataclass as nested tables, without the settings that only later tasks use."""
    values = {f.name: getattr(config, f.name) for f in fields(config) if not f.metadata.get("used_later")}
    return {name: _without_later(value) if is_dataclass(value) else value for name, value in values.items()}


def to_toml(recipe: Recipe) -> str:
    """The recipe as TOML, every default spelled out."""
    import tomli_w  # not needed to load a learner

    table = recipe_to_table(recipe)
    for name, value in flat(table):
        numbers = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(number, int) and not -(2**63) <= number < 2**63 for number in numbers):
            raise ConfigError(f"Expected whole numbers of at most 64 bits but {name} has more: choose a smaller one.")
        try:
            str(value).encode()
        except UnicodeEncodeError:
            raise ConfigError(
                f"Expected texts that a file in UTF-8 can hold but {name} is {value!r}: rename what it names."
            ) from None
    return tomli_w.dumps(_without_none(table))


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    """TOML has no null; settings that may be none are read as the text that says so."""
    return {
        key: _without_none(value) if isinstance(value, dict) else "none" if value is None else value
        for key, value in table.items()
    }


def changed(base: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """The table over its base. Another method than the base's takes over the settings that both have."""
    new, old = (part.get("method", {}) for part in (table, base))
    if isinstance(new, dict) and isinstance(old, dict):  # what is no table is refused later, by name
        name = new.get("name")
        if isinstance(name, str) and name in METHODS and name != old.get("name", Recipe().method.name):
            base = {**base, "method": _known(METHODS[name](), old)}
    return merged(base, table)


def _known(config: Any, table: dict[str, Any]) -> dict[str, Any]:
    """What a table says of the settings that there are."""
    there = {f.name: getattr(config, f.name) for f in fields(config)}
    # "rule" is a batch by the number of old classes that only the game replays
    kept = {key: value for key, value in table.items() if key in there and value != "rule"}
    return {
        key: _known(there[key], value) if is_dataclass(there[key]) and isinstance(value, dict) else value
        for key, value in kept.items()
    }


def merged(base: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """The table over its base, key by key where both have a table."""
    pairs = {key: (base[key], value) for key, value in table.items() if key in base}
    tables = {key: merged(*pair) for key, pair in pairs.items() if all(isinstance(item, dict) for item in pair)}
    return {**base, **table, **tables}


def _over(base: T, table: dict[str, Any], path: str) -> T:
    """The settings with those of the table in their place."""
    known = {f.name: f for f in fields(base)}  # type: ignore[arg-type]
    values = {}
    for key, value in table.items():
        if key not in known:
            inner = [
                f"{name}.{key}" for name in known if is_dataclass(part := getattr(base, name)) and hasattr(part, key)
            ]
            guess = f" (did you mean {inner[0]!r}?)" if inner else did_you_mean(key, list(known))
            raise ConfigError(f"Expected a known setting but got {path + key!r}{guess}.")
        if is_dataclass(inner := getattr(base, key)):
            if not isinstance(value, dict):
                raise ConfigError(f"Expected {path + key} to be a table but got {value!r}.")
            values[key] = _over(inner, value, f"{path}{key}.")
        else:
            values[key] = _coerce(known[key].type, value, path + key)
    try:
        return replace(base, **values)  # type: ignore[type-var]
    except ConfigError as error:  # a stage does not know whether it is the first
        raise ConfigError(f"{str(error).rstrip('.')} ({path.rstrip('.')})." if path else str(error)) from None


def _coerce(kind: Any, value: Any, path: str) -> Any:
    """The value if it is of the annotated type; whole numbers serve as floats, lists as tuples, "none" as None."""
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if type(None) in options and value in (None, "none"):  # before the texts, of which "none" is one
        return None
    for option in options:
        if get_origin(option) is Literal and value in get_args(option) and not isinstance(value, bool):
            return value
        if get_origin(option) is tuple and isinstance(value, list | tuple):
            return tuple(_coerce(get_args(option)[0], item, f"{path}[{i}]") for i, item in enumerate(value))
        if option is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if option in (int, str, bool) and type(value) is option:
            return value
    words = [" or ".join(map(repr, get_args(o))) if get_origin(o) is Literal else _word(o) for o in options]
    raise ConfigError(f"Expected {path} to be {' or '.join(words)} but got {value!r}.")


def _word(option: Any) -> str:
    if get_origin(option) is tuple:
        return "a list, of which each is " + _word(get_args(option)[0])
    return {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}.get(option, '"none"')


def did_you_mean(word: str, known: list[str]) -> str:
    """The known name that a mistyped one may stand for, in brackets; of a recipe's old name, its new one."""
    now = RECIPES.get(word)
    close = [now] if now in known else difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
