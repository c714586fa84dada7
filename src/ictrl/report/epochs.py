"""The epochs of a run, as its log has them: for training curves."""

import json
from pathlib import Path
from typing import Any


def read_epochs(path: Path) -> tuple[list[dict[str, Any]] | None, int]:
    """The lines of a log, and how many cannot be read; a last one that a killed process left half-way is none."""
    if not path.exists():
        return None, 0
    *lines, last = path.read_text(encoding="utf-8", errors="replace").split("\n")
    found = [_epoch(line) for line in lines]
    return [entry for entry in [*found, _epoch(last)] if entry], found.count(None)


def _epoch(line: str) -> dict[str, Any] | None:
    """The numbers of an epoch; None if the line is not one of a log."""
    try:
        entry = json.loads(line)
        numbers = {name: value for name, value in entry.items() if type(value) in (int, float)}
    except (ValueError, AttributeError, RecursionError):
        return None
    return numbers if type(numbers.get("task")) is int and type(numbers.get("epoch")) is int else None
