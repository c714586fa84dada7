"""What a review writes, read back: `review.json`, and where it stands in the notes of its learner."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ictrl.errors import InputError
from ictrl.typed_json import noted, read_json, refuse, typed


@dataclass(frozen=True)
class SeenClass:
    """What became of one class in a cycle."""

    label: int
    taken_for: int | None
    reason: str | None
    affinity: float | None = None
    margin: float | None = None
    share: float | None = None
    changed: int | str | None = None
    few: bool = False


@dataclass(frozen=True)
class Cycle:
    """Accuracy after one cycle, cycle 0 being the run as it was."""

    cycle: int
    classes: list[dict[str, Any]] = field(default_factory=list)
    memory: float | None = None
    reencoded: float | None = None
    recognised: float | None = None


def read_review(path: Path) -> dict[str, Any]:
    """What a file holds; of an older version too, in which distillation was called anchors."""
    found = read_json(path)
    try:
        found = typed(found, dict[str, Any])
        found = {"distillation": found.get("anchors", 1.0), **found}
        _check_cycles(found.get("cycles"))
        typed(found["distillation"], float, "distillation")
        typed(found.get("with_labels"), bool | None, "with_labels")
        typed(found.get("joint"), dict[str, float | None] | None, "joint")
    except ValueError as error:
        refuse(path, error)
    return found


def read_progress(notes: Mapping[str, str]) -> dict[str, Any]:
    """Where the learner of a review says that it stands: manner, measured cycles, classes reviewed since."""
    found = noted(notes, "review", dict[str, Any], None)
    if found is None:
        raise InputError("Expected a learner of a review but its notes have none: remove its folder to begin anew.")
    try:
        typed(found.get("manner"), dict[str, bool | int | float | None], "manner")
        _check_cycles(found.get("cycles"))
        _check_classes(found.get("classes"), "classes")
    except ValueError as error:
        raise InputError(f"Expected notes of a review that ictrl wrote but {error}.") from None
    return {name: found[name] for name in ("manner", "cycles", "classes")}


def _check_cycles(cycles: Any) -> None:
    """Whether these are cycles in their order; ValueError says where not."""
    for number, entry in enumerate(typed(cycles, list[dict[str, Any]], "cycles")):
        path = f"cycles.{number}"
        cycle = typed(_known(entry, Cycle), Cycle, path)
        if cycle.cycle != number:
            raise ValueError(f"{path}.cycle: expected {number} but got {cycle.cycle}")
        for protocol in ("memory", "reencoded"):
            share, first = getattr(cycle, protocol), cycles[0].get(protocol)
            if (share is None) != (first is None) or (share is not None and not 0 <= share <= 1):
                raise ValueError(f"{path}.{protocol}: expected a share from 0 to 1, in every cycle or in none")
        _check_classes(cycle.classes, f"{path}.classes")


def _check_classes(classes: Any, path: str) -> None:
    for place, entry in enumerate(typed(classes, list[dict[str, Any]], path)):
        typed(_known(entry, SeenClass), SeenClass, f"{path}.{place}")


def _known(entry: dict[str, Any], kind: Any) -> dict[str, Any]:
    """The entries that are needed; other versions have others."""
    names = {known.name for known in fields(kind)}
    return {key: value for key, value in entry.items() if key in names}
