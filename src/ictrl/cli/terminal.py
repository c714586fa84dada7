"""Texts of strangers on a terminal: names of classes and files, and errors that quote them, cannot steer it.

A name may hold escape sequences that move the cursor or set the window's title, line breaks that forge a line of
output, or marks that turn the direction of writing around. JSON is exact: there these are written as JSON has them.
"""

import logging
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

JOINERS = "\u200c\u200d"  # within words of some languages, and within emoji


def shown(text: object) -> str:
    r"""One line of text, with an escape in place of whatever is no letter, mark, number, sign or space.

    >>> shown("cat\x1b[2J"), shown("Persian \u200c cat"), shown("two\nlines")
    ('cat\\x1b[2J', 'Persian \u200c cat', 'two\\nlines')
    """
    return "".join(_shown(letter) for letter in str(text))


def _shown(letter: str) -> str:
    category = unicodedata.category(letter)
    if (category[0] == "C" and letter not in JOINERS) or category in ("Zl", "Zp"):
        return letter.encode("unicode_escape").decode()
    return letter


def shown_lines(text: str) -> str:
    """A text whose lines are our own, each as `shown` has it."""
    return "\n".join(map(shown, text.split("\n")))


def tell(line: object, end: str = "\n") -> None:
    """One line on stderr."""
    print(shown(line), file=sys.stderr, end=end)


class _Told(logging.Handler):
    """Prints what is logged as `tell` prints it, after its level."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(f"{record.levelname.lower()}: {record.getMessage()}")


@contextmanager
def log_told() -> Iterator[None]:
    """Within it the library's warnings are lines like all others."""
    logger, handler = logging.getLogger("ictrl"), _Told()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class SafeConsole(Console):
    """A console that prints texts as they are, but none that steers the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(shown_lines(text), **options)
