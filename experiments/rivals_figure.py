"""The figure of docs/rivals.md: accuracy against kilobytes kept, all methods, each in its own colour."""

import statistics
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from label_places import SIZE, Label, Point, spread
from matplotlib.axes import Axes
from publish_wide import by_label
from publish_wide import read as read_wide
from rivals_rows import Row

from ictrl.report.house_style import canvas, house_style, mark_heights, name_axes
from ictrl.report.palette import LIGHT, method_colour
from ictrl.report.svg import to_svg, tooltip

ALT = (
    "Last accuracy on CIFAR-10 in five tasks against kilobytes kept, in equal ratios: every method as a dot, "
    "or as a line over its buffers of 200, 500 and 2,000 images, and wide memory as a line over its readings."
)
OURS = {
    "best-cifar10-5": "wide",
    "best-cifar10-5-large": "wide, large",
    "small-cifar10-5": "wide, small",
    "ictrl-cifar10-5": "ictrl",
    "paper-cifar10-5": "ictrl, the paper's recipe",
}
SMALLEST = 1.0  # kilobytes: what keeps less keeps nothing but the labels' names
BREAK, STEP = (
    1.8,
    2.5,
)  # ratios: from the smallest to the break of the axis, from there to "nothing", and to the left end
RIGHT_END = 330_000.0
FAR = 13.0  # points from which on a stroke leads from a label to its dot

Series = tuple[str, str, list[Point]]


def series(rows: Sequence[Row]) -> list[Series]:
    """Name, method and points (kilobytes, last accuracy) of everything that is drawn; buffers of a method together."""
    found: dict[str, Series] = {}
    for row in rows:
        name = OURS[row.line.recipe.name] if row.ours else row.method
        point = (row.mean("kept_bytes") / 1000, statistics.mean(results.memory.last for results in row.runs))
        found.setdefault(name, (name, row.method, []))[2].append(point)
    return list(found.values())


def readings() -> list[Point]:
    """Those readings of wide memory that no smaller one surpasses."""
    front: list[Point] = []
    for label, lines in by_label(read_wide("curve")):
        last = statistics.mean(line["last"] for line in lines)
        if "no shifts" not in label and (not front or last > front[-1][1]):
            front.append((lines[0]["kept_bytes"] / 1000, last))
    return front


def figure(rows: Sequence[Row]) -> bytes:
    """Last accuracy against kilobytes kept, as an SVG file."""
    drawn = [*series(rows), ("wide, other readings", "wide", readings())]
    broken = min(kept for _, _, points in drawn for kept, _ in points if kept > SMALLEST) / BREAK
    nothing = broken / STEP
    drawn = [
        (name, method, [(kept if kept > SMALLEST else nothing, last) for kept, last in points])
        for name, method, points in drawn
    ]
    with house_style():
        drawing, axes = canvas(380)
        axes.set(xscale="log", xlim=(nothing / STEP, RIGHT_END))
        axes.set_xticks([nothing, 100, 1000, 10_000, 100_000], ["nothing", "100", "1,000", "10,000", "100,000"])
        axes.minorticks_off()
        axes.axvline(broken, color=LIGHT["quiet"], linewidth=1, linestyle=(0, (1, 3)))
        mark_heights(axes, 0.0, max(last for _, _, points in drawn for _, last in points), rounded=True)
        for name, method, points in drawn:
            plain = name == "wide, other readings"
            axes.plot(
                *zip(*points),
                color=LIGHT[method_colour(method)],
                marker="" if plain else "o",
                markersize=7 if method in ("wide", "ictrl") else 4.5,
                linewidth=1.2,
                alpha=0.6 if plain else 1.0,
                gid=tooltip(name),
            )
        write_labels(axes, drawn, broken)
        name_axes(axes, "kilobytes kept besides the networks", "last accuracy, memory")
        return to_svg(drawing, ALT, "rivals-").file


def write_labels(axes: Axes, drawn: Sequence[Series], broken: float) -> None:
    """The name of every series beside one of its dots, in its colour."""
    field = axes.get_window_extent()
    places = [axes.transData.transform(points) - (field.x0, field.y0) for _, _, points in drawn]  # a point is a pixel
    obstacles = [spot for dots in places for spot in along(dots)] + rules(axes, broken)
    labels = [Label(name, [tuple(dot) for dot in dots]) for (name, _, _), dots in zip(drawn, places)]
    for label, place, (_, method, _) in zip(labels, spread(labels, obstacles, (field.width, field.height)), drawn):
        (x, y), (width, height) = place.middle, label.half
        colour = LIGHT[method_colour(method)]
        axes.annotate(label.words, (x, y), xycoords="axes points", ha="center", va="center", size=SIZE, color=colour)
        nearest = np.clip(place.dot, (x - width, y - height), (x + width, y + height))
        if np.hypot(*(nearest - place.dot)) > FAR:
            ends = np.stack([nearest, place.dot]) / (field.width, field.height)
            axes.plot(*ends.T, color=colour, linewidth=0.6, transform=axes.transAxes)


def rules(axes: Axes, broken: float) -> list[Point]:
    """Places on the lines of the grid, few, since words may cross them, and on that where the axis is broken."""
    spots = [(x, y) for y in axes.get_yticks() for x in np.geomspace(*axes.get_xlim(), 16)]
    spots += [(broken, y) for y in np.linspace(*axes.get_ylim(), 60)]
    field = axes.get_window_extent()
    return [tuple(spot) for spot in axes.transData.transform(spots) - (field.x0, field.y0)]


def along(dots: np.ndarray) -> list[Point]:
    """The dots, and places between each and the next."""
    between = [
        tuple(spot)
        for one, other in pairwise(dots)
        for spot in np.linspace(one, other, max(2, int(np.hypot(*(other - one)) / 6)))
    ]
    return between or [tuple(dot) for dot in dots]
