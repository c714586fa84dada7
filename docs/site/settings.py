"""The tables of all settings, from the dataclasses in `ictrl.config`: names, defaults, what their docstrings say."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from ictrl.config import Recipe

MARK = "<!-- all settings -->"
SOURCE = Path(__file__).parents[2] / "src"
STAGES = ("first", "later")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the tables where a page asks for them."""
    return markdown.replace(MARK, "\n".join(tables(Recipe()))) if MARK in markdown else markdown


def tables(recipe: Recipe) -> Iterator[str]:
    """A heading and a table for each section; the stages of training share one, with a default for each."""
    documented = griffe.load("ictrl.config", search_paths=[str(SOURCE)], resolve_aliases=False)
    sections = dict(walk(recipe, ()))
    for path, section in sections.items():
        leaves = [field.name for field in dataclasses.fields(section) if not nested(getattr(section, field.name))]
        if not leaves or path[1:2] == STAGES[1:]:
            continue
        shown = [section]
        name = f"[{'.'.join(path)}]" if path else "At the top of the file"
        if path[1:2] == STAGES[:1]:
            name += f" and [{'.'.join((path[0], STAGES[1], *path[2:]))}]"
            shown.append(sections[(path[0], STAGES[1], *path[2:])])
        defaults = ["default"] if len(shown) == 1 else list(STAGES)
        yield f"\n## {name}\n"
        yield f"| setting | {' | '.join(defaults)} | meaning |\n|---|{'---|' * len(defaults)}---|"
        for leaf in leaves:
            values = " | ".join(written(getattr(one, leaf)) for one in shown)
            yield f"| `{leaf}` | {values} | {meaning(documented, type(section), leaf)} |"


def walk(section: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, section
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if nested(value):
            yield from walk(value, (*path, field.name))


def nested(value: Any) -> bool:
    return dataclasses.is_dataclass(value)


def meaning(documented: griffe.Object | griffe.Alias, owner: type, name: str) -> str:
    """What the class that defines the setting, or one that it inherits from, says about it."""
    for kind in owner.__mro__:
        found = documented.members.get(kind.__name__)
        if found is not None and name in found.members and (text := found.members[name].docstring) is not None:
            return " ".join(text.value.split()).replace("|", "\\|")
    return ""


def written(value: Any) -> str:
    """A default as a recipe would have it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{list(value)}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value:g}`"
