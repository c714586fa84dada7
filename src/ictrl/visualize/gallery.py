"""The gallery: what learners draw of the same classes, side by side; by class, by direction, and after every task.

Each picture follows from the learner, its class and a seed alone: the same run gives the same sheet, and a class is
drawn the same whichever others are shown with it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from ictrl.errors import InputError
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import Draws, DrawsFeatures, ask, with_seed
from ictrl.shapes import UInt8
from ictrl.visualize.titled_sheet import Panel, Pictures, Row

BEYOND = 8  # directions that are shown of a class, the strongest first


@dataclass(frozen=True)
class Artist:
    """A learner that draws, with what it is to be called."""

    learner: Learner[Any]
    names: Mapping[int, str]
    """of its classes, by label"""
    title: str
    subtitle: str = ""

    def draw(self, name: str, n: int, seed: int, direction: int | None = None) -> Pictures | None:
        """Pictures of the class of that name; None if it does not know it."""
        label = next((label for label, own in self.names.items() if own == name), None)
        if label is None:
            return None
        artist = ask(with_seed(self.learner, seed), Draws, "draw")
        return artist.sample(self._given(label), n, direction)

    def directions(self, name: str) -> int:
        """How many directions it keeps of a class."""
        features = ask(self.learner, DrawsFeatures, "draw along directions")
        label = next((label for label, own in self.names.items() if own == name), None)
        return 0 if label is None else len(features.recall(self._given(label)).direction_means)

    def _given(self, label: int) -> int | str:
        """A class as the learner was taught it."""
        return self.learner.class_names[label] if self.learner._by_name else label


def classes_of(artists: Sequence[Artist]) -> list[str]:
    """Names of all classes, in the order of the first learner and then of the others; learners that have nothing in
    common with the first do not belong on one sheet."""
    first = artists[0]
    for other in artists[1:]:
        if not set(other.names.values()) & set(first.names.values()):
            raise InputError(
                f"Expected runs that share classes but {first.subtitle or first.title} knows {_few(first.names)} and "
                f"{other.subtitle or other.title} knows {_few(other.names)}: make a sheet of each."
            )
    return list(dict.fromkeys(name for artist in artists for name in artist.names.values()))


def _few(names: Mapping[int, str]) -> str:
    shown = list(names.values())
    return ", ".join(shown[:3]) + (" …" if len(shown) > 3 else "")


def by_class(artist: Artist, classes: Sequence[str], n: int, seed: int) -> Panel:
    """A row per class: samples of it."""
    rows = [Row(name, [artist.draw(name, n, seed)]) for name in classes]
    return Panel(artist.title, artist.subtitle, [""], rows)


def by_direction(artist: Artist, classes: Sequence[str], n: int, seed: int) -> Panel:
    """A row per class, a column per principal direction, the strongest first."""
    kept = {name: artist.directions(name) for name in classes}
    shown = min(BEYOND, max(kept.values()))
    rows = [
        Row(name, [artist.draw(name, n, seed, i) if i < kept[name] else None for i in range(shown)]) for name in classes
    ]
    return Panel(artist.title, artist.subtitle, [f"direction {i + 1}" for i in range(shown)], rows)


def by_task(states: Iterable[tuple[str, Artist]], classes: Sequence[str], n: int, seed: int) -> Panel:
    """A row per class, a column per state of one learner, such as after every task; from the same random numbers in
    every state, so that what changes is the learner.

    States are opened one after another, as they come.
    """
    columns: list[str] = []
    cells: dict[str, list[Pictures | None]] = {name: [] for name in classes}
    last = None
    for head, last in states:
        columns.append(head)
        for name in classes:
            cells[name].append(last.draw(name, n, seed))
    assert last is not None
    return Panel(last.title, last.subtitle, columns, [Row(name, cells[name]) for name in classes])


def compared(panel: Panel, nearest: Callable[[Pictures], Pictures]) -> Panel:
    """The same panel with another picture below each of its own, such as the nearest training image."""
    rows = [
        replace(row, below=[None if cell is None else nearest(cell) for cell in row.cells], below_name="nearest")
        for row in panel.rows
    ]
    return replace(panel, rows=rows)


def nearest_of(images: UInt8[Tensor, "m c h w"]) -> Callable[[Pictures], Pictures]:
    """A function that gives the nearest of some images to each picture."""
    from ictrl.visualize.nearest_images import nearest_images

    return lambda pictures: images[nearest_images(pictures, images)[0]]
