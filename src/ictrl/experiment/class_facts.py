"""What is known about each class of a learner: since when, from how many pictures, how well it is told.

The facts lie as JSON in the notes of a saved learner, under "classes". Runs write them after each task, teaching adds
those of new classes, forgetting drops them. Files that were written before have none.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ictrl.data import Task
from ictrl.errors import InputError
from ictrl.typed_json import noted, typed

CLASSES, NAMES = "classes", "class_names"  # of the notes
HELD_OUT = "held-out pictures"


@dataclass(frozen=True)
class ClassFacts:
    """All that is noted of a class besides its name; None where nobody noted it."""

    since: str | None = None
    """when it was learned, as ISO 8601 in UTC"""
    task: int | None = None
    """of the run that learned it, counted from 1"""
    images: int | None = None
    """that it was learned from"""
    accuracy: float | None = None
    """share of the images below that are recognised"""
    tested: int | None = None
    """images that this was measured on"""
    measured_on: str | None = None
    """what they were: test images of a run, or pictures held out while it was taught"""
    among: int | None = None
    """classes that were known when it was measured"""


Facts = dict[int, ClassFacts]
"""by label"""


def now() -> str:
    """The time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def read_facts(notes: Mapping[str, str], labels: Iterable[int]) -> Facts:
    """What the notes say of these classes; nothing for those that they do not mention."""
    found: dict[int, dict[str, Any]] = noted(notes, CLASSES, dict[int, dict[str, Any]], {})
    known = set(ClassFacts.__dataclass_fields__)
    tables = {
        label: {key: value for key, value in found.get(label, {}).items() if key in known}  # later versions note more
        for label in labels
    }
    try:
        return {label: typed(table, ClassFacts, str(label)) for label, table in tables.items()}
    except ValueError as error:
        raise InputError(f"Expected notes of a learner that ictrl wrote but its {CLASSES!r} has {error}.") from None


def written(facts: Facts) -> str:
    """As the notes have it."""
    return json.dumps({str(label): asdict(found) for label, found in facts.items()})


def after_task(
    before: Facts, task: Task, number: int, confusion: Sequence[Mapping[int, int]], measured_on: str
) -> Facts:
    """Facts once a run has learned its task of that number and measured all classes again.

    The confusion has a row per class known by then, labels ascending: how often it was taken for which.
    """
    new = {label: ClassFacts(now(), number, int((task.labels == label).sum())) for label in task.classes}
    labels = sorted({**before, **new})
    found = {}
    for place, (label, row) in enumerate(zip(labels, confusion, strict=True)):
        facts, tested = new.get(label) or before[label], sum(row.values())
        accuracy = round(row.get(place, 0) / tested, 6) if tested else None
        found[label] = replace(facts, accuracy=accuracy, tested=tested, measured_on=measured_on, among=len(labels))
    return found
