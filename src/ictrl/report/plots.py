"""Charts in the house style: curves, bars and maps.

They return matplotlib's own figure, to which more can be added. A chart that is none of these begins with
`house_style.canvas`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray

from ictrl.report.house_style import (
    LEFT,
    NAMED,
    RIGHT,
    WIDTH,
    Number,
    canvas,
    canvas_with_legend,
    legend,
    mark_heights,
    name_axes,
    short,
    thinned,
)
from ictrl.report.palette import LIGHT
from ictrl.report.svg import tooltip

DASHES: tuple[Any, ...] = ("solid", (0, (3.5, 1.5)), (0, (1, 1.5)), (0, (4, 1.5, 1, 1.5)))
SHADE = (37, 115, 181)  # of maps, over whatever lies behind: white on paper, dark at night
WIDEST = 118  # points beside a map, at most, for the names of its rows
DARK_ENOUGH = 0.75  # from this shade on, letters must be white
BAR = 46  # points that a lying bar and its name take
LINE, SMALL_LETTER, LONGEST_ROW = 21, 6.6, 24  # points of a bar that has its name before it, of a letter; letters


@dataclass(frozen=True)
class Curve:
    """One line of a chart."""

    name: str
    points: Sequence[tuple[Number, Number]]
    colour: str
    """its name in the palette"""
    dash: int = 0
    """which of the `DASHES`"""
    mark: bool = True
    """a dot at each point"""
    faint: bool = False
    """one of many, without an entry in the legend"""
    shape: str = "o"
    """of its dots, as matplotlib calls it"""


def line_chart(
    curves: Sequence[Curve],
    *,
    x_label: str,
    y_label: str,
    y_range: tuple[Number, Number] | None = None,
    x_names: Mapping[Number, str] | None = None,
    height: Number = 210,
) -> Drawing:
    """The curves, with a legend below; `x_names` are the places to be named on the horizontal axis."""
    names = [curve.name for curve in curves if not curve.faint]
    drawing, axes = canvas_with_legend(height, names)
    lines = []
    for curve in curves:
        look: dict[str, Any] = {"linewidth": 1.0, "markersize": 4.0, "alpha": 0.45} if curve.faint else {}
        lines += axes.plot(
            *zip(*curve.points),
            color=LIGHT[curve.colour],
            linestyle=DASHES[curve.dash],
            marker=curve.shape if curve.mark else "",
            gid=tooltip(curve.name),
            clip_on=False,  # a dot on the edge is a whole dot
            **look,
        )
    ys = [y for curve in curves for _, y in curve.points]
    mark_heights(axes, *(y_range or (0.0, max(ys) or 1.0)), rounded=y_range is None)
    xs = [x for curve in curves for x, _ in curve.points]
    axes.set_xlim((min(xs), max(xs)) if min(xs) < max(xs) else (min(xs) - 1, max(xs) + 1))
    if x_names is not None:
        places = thinned(list(x_names), NAMED)
        axes.set_xticks(places, [x_names[place] for place in places])
    name_axes(axes, x_label, y_label)
    legend(drawing, [line for line, curve in zip(lines, curves) if not curve.faint], names)
    return drawing


def grouped_bars(
    groups: Sequence[str], series: Mapping[str, Sequence[Number]], *, x_label: str, y_label: str
) -> Drawing:
    """A group of upright bars for each name, one of each series; the name of a series is that of its colour."""
    drawing, axes = canvas_with_legend(170, list(series))
    widest = 28 * len(groups) / (WIDTH - LEFT - RIGHT)  # 28 points
    width = min(widest, 0.7 / len(series))
    drawn = []
    for j, (name, values) in enumerate(series.items()):
        middles = np.arange(len(groups)) + (j - (len(series) - 1) / 2) * width
        bars = axes.bar(middles, values, width=0.92 * width, color=LIGHT[name])
        drawn.append(bars[0])
        for bar, group, value in zip(bars, groups, values):
            bar.set_gid(tooltip(f"{name}, {group}: {value:.3f}"))
    everything = [value for values in series.values() for value in values]
    mark_heights(axes, min(0.0, *everything), max(0.05, *everything), rounded=True)
    axes.axhline(0, color=LIGHT["quiet"], linewidth=1)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    places = thinned(range(len(groups)), NAMED)
    axes.set_xticks(places, [groups[i] for i in places])
    name_axes(axes, x_label, y_label)
    legend(drawing, drawn, list(series))
    return drawing


def level_bars(rows: Sequence[tuple[str, Number, str, str]]) -> Drawing:
    """Lying bars on one scale, each given as name, length, the words at its end and its colour."""
    drawing, axes = canvas(BAR * len(rows), left=0, below=0)
    axes.set_axis_off()
    longest = max(length for _, length, _, _ in rows) or 1
    axes.set(xlim=(0, longest), ylim=(BAR * len(rows), 0))
    for i, (name, length, words, colour) in enumerate(rows):
        axes.text(0, BAR * i + 13, name)
        axes.text(longest, BAR * i + 13, words, ha="right", weight=700)
        seen = max(length, longest * 1.5 / WIDTH)  # something is to be seen even of next to nothing
        axes.barh(BAR * i + 28, seen, height=16, color=LIGHT[colour])
    return drawing


@dataclass(frozen=True)
class Row:
    """A lying bar with its name before it and words behind it."""

    name: str
    value: Number
    words: str
    colour: str
    """its name in the palette"""


def row_bars(rows: Sequence[Row], *, tenfold: bool = False, most: Number = 0) -> Drawing:
    """Many lying bars on one scale, a line each; with `tenfold`, on one of powers of ten, which the grid marks.

    The scale reaches as far as the longest bar, and at least as far as `most`.
    """
    names = [short(row.name, LONGEST_ROW) for row in rows]
    left, behind = (12 + SMALL_LETTER * max(map(len, words)) for words in (names, [row.words for row in rows]))
    field, height = WIDTH - left - RIGHT, LINE * len(rows)
    ends = [math.log10(row.value) if tenfold else row.value for row in rows]
    low = math.floor(min(ends) - 0.1) if tenfold else min(0, *ends)
    grid = [*range(int(low), int(max(ends)) + 1)] if tenfold else [0]
    point = (max(*grid, *ends, most) - low or 1) / (field - behind)  # in units of the scale
    drawing, axes = canvas(height, left=left, below=0)
    axes.set_axis_off()
    axes.set(xlim=(0, field), ylim=(height, 0))  # in points
    axes.vlines([(line - low) / point for line in grid], 0, height, color=LIGHT["rule"], linewidth=1, zorder=0)
    zero = (grid[0] - low) / point
    text: dict[str, Any] = {"size": 11, "va": "center_baseline"}
    for i, (row, name, end) in enumerate(zip(rows, names, ends)):
        y, x = LINE * (i + 0.5), (end - low) / point
        width = x - zero if abs(x - zero) > 1.5 else 1.5  # something is to be seen even of next to nothing
        bar = axes.barh(y, width, left=zero, height=13, color=LIGHT[row.colour])
        bar[0].set_gid(tooltip(f"{row.name}: {row.words}"))
        axes.text(-6, y, name, ha="right", **text)
        axes.text(max(x, zero) + 6, y, row.words, **text)
    return drawing


def heat_map(
    values: NDArray[np.floating],
    blocks: Sequence[tuple[str, int]],
    *,
    x_label: str,
    y_label: str,
    words: Sequence[Sequence[str]] | None = None,
    root: bool = False,
) -> Drawing:
    """A square of numbers from 0 to 1, each as a shade.

    `blocks` are the names of the rows, and of the columns, each with how many it covers; `words` are written into the
    cells. With `root`, a shade grows with the square root of its value, so that small ones can be seen.
    """
    side, names = len(values), [short(name) for name, _ in blocks]
    longest = max(map(len, names))
    left = min(WIDEST, 32 + 7 * longest)
    turned = longest > 2  # names of columns
    below = 14 + 5 * longest if turned else 20
    field = WIDTH - left - RIGHT
    drawing, axes = canvas(field, left, below + 22)
    axes.set_axis_off()  # words are as good as ticks here, and cost a third
    shades = np.sqrt(values) if root else values
    axes.imshow(_shaded(shades), interpolation="none", extent=(0, side, side, 0))
    sizes = np.array([size for _, size in blocks])
    middles = np.cumsum(sizes) - sizes / 2
    point = side / field  # in the map's own units
    quiet: dict[str, Any] = {"size": 11, "color": LIGHT["quiet"]}
    slant: dict[str, Any] = {"ha": "right", "rotation": 45, "rotation_mode": "anchor"} if turned else {"ha": "center"}
    for i in thinned(range(len(names)), NAMED):
        axes.text(-6 * point, middles[i], names[i], ha="right", va="center_baseline", **quiet)
        axes.text(middles[i], side + (10 if turned else 14) * point, names[i], **slant, **quiet)
    for i, row in enumerate(words or ()):
        for j, word in enumerate(row):
            if word:
                ink = "#ffffff" if shades[i, j] > DARK_ENOUGH else LIGHT["ink"]
                axes.text(j + 0.5, i + 0.5, word, ha="center", va="center_baseline", size=11, color=ink)
    # a line below: what the columns are, and the key of shades
    foot, end = side + (below + 16) * point, side - 12 * point
    key = _shaded(np.linspace(0, 1, 96)[None] ** (0.5 if root else 1))
    axes.imshow(key, interpolation="none", extent=(end - 96 * point, end, foot, foot - 10 * point), clip_on=False)
    axes.text(end - 102 * point, foot, "0", ha="right", **quiet)
    axes.text(end + 5 * point, foot, "1", **quiet)
    axes.text(0, foot, x_label)
    axes.text((12 - left) * point, side / 2, y_label, ha="center", rotation=90, rotation_mode="anchor")
    axes.set(xlim=(0, side), ylim=(side, 0), aspect="auto")
    return drawing


def _shaded(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Pixels of one colour, more or less transparent."""
    pixels = np.empty((*values.shape, 4), np.uint8)
    pixels[..., :3], pixels[..., 3] = SHADE, np.round(255 * np.clip(values, 0, 1))
    return pixels
