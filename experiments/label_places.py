"""Places for words beside the points of a chart, such that they cover neither each other nor what is drawn.

Each label tries places around its points, near ones first, and takes the one that covers least; then all of them look
again, now that they know where the others are. Nothing is random, and words are measured by their letters.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LETTER, HEIGHT = 6.0, 12.0  # points that a letter takes at this size, and a line of them
SIZE = 10
REACHES = (5, 9, 15, 24, 36, 50, 66)  # points from a dot to its label
CLEAR = 4  # points around it
DIRECTIONS = 16
ROUNDS = 4
STEPS = 12  # points of a line between a dot and its words

Point = tuple[float, float]


@dataclass(frozen=True)
class Place:
    """Where the middle of a label is, and the dot it belongs to."""

    middle: Point
    dot: Point


@dataclass(frozen=True)
class Label:
    """Words for a series of dots; any of them may carry the label."""

    words: str
    dots: Sequence[Point]

    @property
    def half(self) -> Point:
        """Half its width and height."""
        return LETTER * len(self.words) / 2, HEIGHT / 2

    def places(self) -> Iterable[tuple[float, Place]]:
        """Every place it may take, with what its distance costs."""
        width, height = self.half
        for x, y in self.dots:
            for reach in REACHES:
                for i in range(DIRECTIONS):
                    cos, sin = (f(2 * math.pi * i / DIRECTIONS) for f in (math.cos, math.sin))
                    yield reach / 4, Place((x + cos * (reach + width), y + sin * (reach + height)), (x, y))


def spread(labels: Sequence[Label], obstacles: Sequence[Point], field: Point) -> list[Place]:
    """A place for each label within a field of this width and height, clear of the obstacles as far as it goes."""
    chosen: dict[int, Place] = {}
    for _ in range(ROUNDS):
        for i, label in enumerate(labels):
            others = [(labels[j], place) for j, place in chosen.items() if j != i]
            costs = [
                (cost + _covered(label, place, others, obstacles, field), n, place)
                for n, (cost, place) in enumerate(label.places())
            ]
            chosen[i] = min(costs)[2]
    return [chosen[i] for i in range(len(labels))]


def _covered(
    label: Label, place: Place, others: Sequence[tuple[Label, Place]], obstacles: Sequence[Point], field: Point
) -> float:
    """What a label would cover there, and how far it would stick out."""
    (x, y), (width, height) = place.middle, label.half
    outside = max(0.0, width - x, x + width - field[0]) + max(0.0, height - y, y + height - field[1])
    cost = 100 * outside
    for other, its in others:
        wide, high = width + other.half[0] - abs(x - its.middle[0]), height + other.half[1] - abs(y - its.middle[1])
        cost += 10 + wide * high if wide > 0 and high > 0 else 0.0
        cost += 4 * (_crossed(place, other, its) + _crossed(its, label, place))
    return cost + 6 * sum(abs(x - a) < width + CLEAR and abs(y - b) < height + CLEAR for a, b in obstacles)


def _crossed(leader: Place, label: Label, place: Place) -> int:
    """At how many of some points the line from a dot to its words runs through other words."""
    (x, y), (width, height), (a, b) = place.middle, label.half, leader.dot
    along = [(a + (leader.middle[0] - a) * t / STEPS, b + (leader.middle[1] - b) * t / STEPS) for t in range(STEPS)]
    return sum(abs(x - c) < width and abs(y - d) < height for c, d in along)
