"""Each class of a run in numbers: how many images it has, how many are recognised, and what it is taken for."""

from dataclasses import dataclass

from ictrl.report.record import RunRecord


@dataclass(frozen=True)
class ClassRow:
    """A class after the newest task that was measured."""

    name: str
    task: int
    """that brought it, counted from 1"""
    images: int | None
    """it was learned from; None where nobody noted it"""
    tested: int
    """test images"""
    accuracy: dict[str, float]
    """share of these that is recognised among all classes, under each protocol"""
    taken_for: str
    """the class that most of the others are taken for from memory, with their number; empty if there are none"""


def class_rows(run: RunRecord) -> list[ClassRow]:
    """The classes in the order of learning; none where results.json has no confusion matrix."""
    counts = {name: found.confusion for name, found in run.results.protocols.items() if found.confusion}
    if "memory" not in counts:
        return []
    labels = sorted(run.classes)
    places = {label: place for place, label in enumerate(labels)}
    rows = []
    for number, task in enumerate(run.tasks, start=1):
        for label in task:
            place = places[label]
            tested = sum(counts["memory"][place].values())
            others = {other: n for other, n in counts["memory"][place].items() if other != place and n}
            most = max(others, key=lambda other: (others[other], -other), default=None)
            rows.append(
                ClassRow(
                    run.class_name(label),
                    number,
                    run.facts[label].images if label in run.facts else None,
                    tested,
                    {name: found[place].get(place, 0) / max(1, tested) for name, found in counts.items()},
                    f"{run.class_name(labels[most])} ({others[most]})" if most is not None else "",
                )
            )
    return rows
