"""Entries of a study that stand for several lines: names in braces take each of the values in turn."""

from itertools import product
from typing import Any

from ictrl.errors import ConfigError


def filled_in(entry: Any) -> list[Any]:
    """The lines that one entry stands for: one for each combination of the values that `each` gives.

    >>> [line["label"] for line in filled_in({"label": "{a} {b}", "each": {"a": [1, 2], "b": ["x", "y"]}})]
    ['1 x', '1 y', '2 x', '2 y']
    """
    if not isinstance(entry, dict) or "each" not in entry:
        return [entry]
    each = entry["each"]
    if (
        not isinstance(each, dict)
        or not each
        or not all(isinstance(values, list) and values for values in each.values())
    ):
        raise ConfigError(f"Expected each to name lists of values, as in {{ images = [200, 500] }}, but got {each!r}.")
    rest = {key: value for key, value in entry.items() if key != "each"}
    return [_replaced(rest, dict(zip(each, values))) for values in product(*each.values())]


def _replaced(item: Any, values: dict[str, Any]) -> Any:
    """An entry with values in the place of their names; a text that is nothing but one becomes the value itself."""
    if isinstance(item, dict):
        return {key: _replaced(value, values) for key, value in item.items()}
    if not isinstance(item, str):
        return item
    alone = item.removeprefix("{").removesuffix("}")
    if item == f"{{{alone}}}" and alone in values:
        return values[alone]
    for name, value in values.items():
        item = item.replace(f"{{{name}}}", str(value))
    return item
