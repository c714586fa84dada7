"""TOML that may come from a stranger: what would keep its parser busy for ever is refused before and after."""

import re
import tomllib
from typing import Any

from ictrl.typed_json import DEEPEST, check_plain

# so many words joined by dots: each takes the parser as long as all before it
DOTTED = re.compile(r"(?<![\w\"'-])(?>(?:[\w-]+|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*')[ \t]*\.[ \t]*){50}", re.ASCII)


def parse_toml(text: str) -> dict[str, Any]:
    """What a text says; ValueError, in one line, if it is no TOML or more than what any recipe needs."""
    if DOTTED.search(text):
        raise ValueError("a key of more than 50 parts")
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"tables and lists more than {DEEPEST} deep") from None
    check_plain(table, finite=False)
    return table
