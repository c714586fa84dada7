"""Rewriting files of earlier versions under today's names: recipes, studies and results. No figure is changed.

Comments stay with the setting that they stood before or behind, and come before it. Settings are put together by
section again, because one section of old may belong to several now.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import tomli_w

from ictrl.errors import InputError
from ictrl.recipes.bounded_toml import parse_toml
from ictrl.recipes.legacy import RECIPES, SETTINGS, flat, is_whole, renamed, results_table, unwritten, whole_recipe
from ictrl.typed_json import parse_json


@dataclass
class _Entry:
    """A key with its value, and the comments and blank lines above it."""

    key: str
    value: Any
    above: list[str] = field(default_factory=list)


def migrated_toml(text: str) -> str:
    """A recipe or a study under today's names; a file that has them already comes back as it is.

    >>> print(migrated_toml("[game]\\n# quick\\nfirst_epochs = 3\\nlearning_rate = 0.001\\n").strip())
    # quick
    [method.first]
    epochs = 3
    learning_rate = 0.001
    <BLANKLINE>
    [method.later]
    learning_rate = 0.001
    """
    table = parse_toml(text)
    if not _old_names(table):
        return text
    lines: list[str] = []
    added = [_Entry(name, value) for name, value in unwritten(table).items()] if is_whole(table) else []
    for header, entries, above in _blocks(text):
        if header:
            lines += ["", *above, header] if lines and lines[-1] else [*above, header]
            lines += _dotted(entries)
        else:
            lines += [*above, *_by_section(entries + added)]
            added = []
    return "\n".join(lines).strip("\n") + "\n"


def migrated_json(text: str) -> str:
    """A `results.json`, a published result, or a `review.json` under today's names."""
    table = parse_json(text)
    if not isinstance(table, dict):
        raise InputError("Expected results or a review that ictrl wrote but got something else.")
    if "runs" in table:  # several results in one file
        new = {**table, "runs": {name: [results_table(r) for r in runs] for name, runs in table["runs"].items()}}
    elif "cycles" in table:
        new = {**table, "recipe": whole_recipe(table["recipe"])}
        new = {("distillation" if key == "anchors" else key): value for key, value in new.items()}
    elif "memory" in table and "recipe" in table:
        new = results_table(table)
    else:
        raise InputError("Expected results or a review that ictrl wrote but got something else.")
    if new == table:
        return text
    indent = None if "\n" not in text.strip() else 1
    return json.dumps(new, indent=indent) + "\n"


def _old_names(table: dict[str, Any]) -> bool:
    lines = [line for line in table.get("lines", []) if isinstance(line, dict)]
    parts = [table, table.get("settings", {}), *(line.get("settings", {}) for line in lines)]
    return any(renamed(part) for part in parts if isinstance(part, dict))


def _blocks(text: str) -> Iterator[tuple[str, list[_Entry], list[str]]]:
    """The settings of all tables together, and each entry of a list of tables, with the comments before it."""
    plain: list[_Entry] = []
    of_list, section, entries, above, pending = "", "", plain, list[str](), ""
    listed: list[tuple[str, list[_Entry], list[str]]] = []
    for line in text.split("\n"):
        stripped = line.strip()
        if not pending and (not stripped or stripped.startswith("#")):
            above.append(line)
            continue
        if not pending and stripped.startswith("["):
            header, mark, comment = stripped.partition("#")
            above += [mark + comment] if mark else []
            name = re.sub(r"\s*\.\s*", ".", header.strip(" \t[]")) + "."
            if header.startswith("[["):
                of_list, section, entries = name, "", []
                listed.append((f"[[{name[:-1]}]]", entries, [line for line in above if line.strip()]))
                above = []
            elif of_list and name.startswith(of_list):  # a table of the list's last entry
                section, entries = name.removeprefix(of_list), listed[-1][1]
            else:
                section, entries = name, plain
            continue
        pending += line + "\n"
        try:
            found = tomllib.loads(pending)
        except tomllib.TOMLDecodeError:
            continue  # a value over several lines
        above += _comment_behind(pending, found)
        pending = ""
        for position, (key, value) in enumerate(flat(found)):
            entries.append(_Entry(section + key, value, above if position == 0 else []))
        above = []
    yield "", plain, []
    yield from listed
    if remaining := [line for line in above if line.strip()]:
        yield "", [], remaining


def _comment_behind(statement: str, found: dict[str, Any]) -> list[str]:
    """What follows a value on its line; a # within a text is none."""
    for position in (i for i, character in enumerate(statement) if character == "#"):
        with suppress(tomllib.TOMLDecodeError):
            if tomllib.loads(statement[:position]) == found:
                return [statement[position:].strip()]
    return []


def _by_section(entries: list[_Entry]) -> list[str]:
    """The entries under their new names, sections in the order in which they first come.

    Comments above the first entry of a section stand above its header, where they mostly came from.
    """
    sections: dict[str, list[str]] = {"": []}
    for entry in entries:
        comments = [line for line in entry.above if line.strip()]
        for position, target in enumerate(_targets(entry.key)):
            section, _, key = target.rpartition(".")
            shown = comments if position == 0 else []
            if section in sections:
                sections[section] += shown
            else:
                sections[section] = ["", *shown, f"[{section}]"]
            sections[section].append(f"{key} = {_value(_named(entry))}")
    return [line for lines in sections.values() for line in lines]


def _dotted(entries: list[_Entry]) -> list[str]:
    lines = []
    for entry in entries:
        lines += [line for line in entry.above if line.strip()]
        lines += [f"{target} = {_value(_named(entry))}" for target in _targets(entry.key)]
    return lines


def _named(entry: _Entry) -> Any:
    """The entry's value; where it names a recipe of version 0.1, what that one is called now."""
    names_a_recipe = entry.key in ("base", "recipe") and isinstance(entry.value, str)
    return RECIPES.get(entry.value, entry.value) if names_a_recipe else entry.value


def _targets(key: str) -> list[str]:
    """Today's names of a setting, in a study below `settings`."""
    prefix = "settings." if key.startswith("settings.") else ""
    return [prefix + target for target in SETTINGS.get(key.removeprefix(prefix), (key.removeprefix(prefix),))]


def _value(value: Any) -> str:
    if isinstance(value, dict):  # on one line, as no library writes them
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").removesuffix("\n")


def _key(key: str) -> str:
    """As TOML has it: in quotes where it needs them."""
    return tomli_w.dumps({key: 0}).removesuffix(" = 0\n")
