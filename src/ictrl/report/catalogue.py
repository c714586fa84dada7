"""The catalogue of figures: what the report can show, and how a figure enters it.

A figure is a function from a run's record to a chart, or to None where the run does not have the numbers. It enters
itself, so that a new one is a new file in `report/figures/` and nothing else:

    @figure(section="accuracy", order=30)
    def hardest_task(run: RunRecord) -> Figure | None:
        ...

Its name is the function's: the file of this one is `hardest-task.svg`. Outside of the package it needs only to be
imported before a report is written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from matplotlib.figure import Figure as Drawing

from ictrl.errors import InputError
from ictrl.report.record import RunRecord
from ictrl.report.thumbnails import PictureTable

SECTIONS = ("accuracy", "classes", "confusion", "training", "structure", "pictures", "review", "cost")
"""Parts of the page about a run, in this order."""


@dataclass(frozen=True)
class Figure:
    """A chart with what one should know to read it."""

    title: str
    caption: str
    alt: str
    """what is to be seen, in words, for those who cannot"""
    drawing: Drawing
    """by matplotlib: `plots` has charts in the house style, `canvas` an empty one"""


FigureOf = Callable[[RunRecord], Figure | PictureTable | None]
ComparisonOf = Callable[[Sequence[RunRecord]], Figure | None]
Function = TypeVar("Function", FigureOf, ComparisonOf)


@dataclass(frozen=True)
class Entry(Generic[Function]):
    """A figure as the catalogue has it."""

    draw: Function
    order: int
    section: str = "comparison"


FIGURES: dict[str, Entry[FigureOf]] = {}
"""Figures of one run, by name."""
COMPARISONS: dict[str, Entry[ComparisonOf]] = {}
"""Figures of several runs side by side, by name."""


def figure(section: str, order: int = 100) -> Callable[[FigureOf], FigureOf]:
    """Enter a figure of one run, in a section of the page; within it, those of lower order come first."""
    if section not in SECTIONS:
        raise InputError(f"Expected a section of the report ({', '.join(SECTIONS)}) but got {section!r}.")

    def enter(function: FigureOf) -> FigureOf:
        FIGURES[_name(function)] = Entry(function, order, section)
        return function

    return enter


def comparison(order: int = 100) -> Callable[[ComparisonOf], ComparisonOf]:
    """Enter a figure of several runs, which is drawn where a page has more than one."""

    def enter(function: ComparisonOf) -> ComparisonOf:
        COMPARISONS[_name(function)] = Entry(function, order)
        return function

    return enter


def figures_of(section: str) -> dict[str, FigureOf]:
    """The figures of a section by name, in the order in which the page shows them."""
    return _ordered({name: entry for name, entry in FIGURES.items() if entry.section == section})


def comparisons() -> dict[str, ComparisonOf]:
    """The figures of several runs by name, in the order in which the page shows them."""
    return _ordered(COMPARISONS)


def _ordered(entries: dict[str, Entry[Function]]) -> dict[str, Function]:
    return {name: entry.draw for name, entry in sorted(entries.items(), key=lambda item: (item[1].order, item[0]))}


def _name(function: FigureOf | ComparisonOf) -> str:
    """The name of a figure, which must be new unless the same function is defined once more."""
    name = function.__name__.replace("_", "-")
    entry: Entry[FigureOf] | Entry[ComparisonOf] | None = FIGURES.get(name) or COMPARISONS.get(name)
    if entry is not None and entry.draw.__module__ != function.__module__:
        raise InputError(
            f"Expected a figure of a new name but {entry.draw.__module__} has a {name!r} already: rename the function."
        )
    return name
