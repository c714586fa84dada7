"""Words and numbers as the page shows them."""

from typing import Any

from markupsafe import Markup, escape

from ictrl.experiment.findings import PLACE

TITLES = {"memory": "memory", "reencoded": "reencoded", "untrained": "untrained floor", "frozen": "frozen floor"}
"""What protocols and floors are called."""


def size(count: int) -> str:
    """Bytes for people.

    >>> size(80), size(320160), size(153600000)
    ('80 bytes', '320 kB', '153.6 MB')
    """
    if count < 1000:
        return f"{count} bytes"
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"


def printable(name: str) -> str:
    """A name with a mark in place of every letter that cannot be printed: names come from folders, a stranger's."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in name)


def number(table: dict[str, Any], path: str, form: str = ".3f") -> Markup:
    """A number of `results.json` as the page shows it, with the whole of it and where it stands for whoever checks.

    >>> number({"memory": {"last": 0.97531}}, "memory.last")
    Markup('<data value="0.97531" data-key="memory.last">0.975</data>')
    """
    value: Any = table
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return Markup('<data value="{}" data-key="{}">{}</data>').format(value, path, format(value, form))


def verdict_numbers(text: str, table: dict[str, Any]) -> Markup:
    """A verdict with its numbers, each marked with where it stands in `results.json`.

    >>> verdict_numbers("ends at {memory.last} & more", {"memory": {"last": 0.97531}})
    Markup('ends at <data value="0.97531" data-key="memory.last">0.975</data> &amp; more')
    """
    parts = PLACE.split(text)  # words and places in turn
    return Markup("").join(number(table, part) if i % 2 else coded(part) for i, part in enumerate(parts))


def coded(text: str) -> Markup:
    """Words with what stands between backticks as code.

    >>> coded("`ictrl resume a<b` goes on")
    Markup('<code>ictrl resume a&lt;b</code> goes on')
    """
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one that has no other end is a backtick
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in enumerate(parts)
    )


def axis_begin(least: float) -> float:
    """Where an axis of accuracies begins: at 0 or, where all are high, at as much as keeps the curves apart.

    >>> axis_begin(0.3), axis_begin(0.97)
    (0.0, 0.9)
    """
    return 0.0 if least < 0.55 else int(10 * (least - 0.02)) / 10


def axis_note(begin: float) -> str:
    """What a caption says of an axis that does not begin at 0."""
    return f" The axis begins at {begin:g}." if begin else ""
