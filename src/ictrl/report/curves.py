"""Curves over a common axis: accuracies after each task, variance by component."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement

from ictrl.report.drawing import WIDTH, Number, canvas, line, number, rounded_up, text, thinned, ticks, tooltip, written

LEFT, RIGHT, TOP, HEIGHT = 58, 12, 10, 210  # of the field that the curves are drawn in
LETTER = 7.6  # pixels that a letter takes, about


@dataclass(frozen=True)
class Curve:
    name: str
    points: Sequence[tuple[Number, Number]]
    colour: str
    dash: str = ""
    mark: bool = True
    """a dot at each point"""
    faint: bool = False
    """one of many, without an entry in the legend"""


def line_chart(
    curves: Sequence[Curve],
    *,
    x_label: str,
    y_label: str,
    alt: str,
    y_range: tuple[float, float] | None = None,
    x_names: Mapping[Number, str] | None = None,
) -> str:
    """The curves as SVG, with a legend below; `x_names` are the places to be named on the horizontal axis."""
    xs = [x for curve in curves for x, _ in curve.points]
    ys = [y for curve in curves for _, y in curve.points]
    x_low, x_high = (min(xs), max(xs)) if min(xs) < max(xs) else (min(xs) - 1, max(xs) + 1)
    y_low, y_high = y_range or (0.0, rounded_up(max(ys)))
    legend = _placed([curve for curve in curves if not curve.faint])
    rows = 1 + max((row for _, row, _ in legend), default=-1)
    drawing = canvas(TOP + HEIGHT + 44 + 18 * rows, alt)

    def across(x: Number) -> float:
        return LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def down(y: Number) -> float:
        return TOP + (1 - (y - y_low) / (y_high - y_low)) * HEIGHT

    values = ticks(y_low, y_high)
    for value in values:
        line(drawing, LEFT, down(value), WIDTH - RIGHT, down(value), "rule")
        text(drawing, LEFT - 6, down(value) + 4, _label(value, values), "end", fill="var(--quiet)")
    names = x_names or {x: f"{x:g}" for x in ticks(x_low, x_high)}
    places = list(names)
    for i in thinned(range(len(places)), 20):
        if x_low <= places[i] <= x_high:
            text(drawing, across(places[i]), TOP + HEIGHT + 17, names[places[i]], "middle", fill="var(--quiet)")
    text(drawing, (LEFT + WIDTH - RIGHT) / 2, TOP + HEIGHT + 36, x_label, "middle")
    middle = TOP + HEIGHT / 2
    text(drawing, 12, middle, y_label, "middle", transform=f"rotate(-90 12 {number(middle)})")
    for curve in curves:
        _draw(drawing, curve, [(across(x), down(y)) for x, y in curve.points])
    for curve, row, x in legend:
        y = TOP + HEIGHT + 56 + 18 * row
        _draw(drawing, curve, [(x, y - 4), (x + 24, y - 4)])
        text(drawing, x + 32, y, curve.name)
    return written(drawing)


def _draw(drawing: Element, curve: Curve, points: Sequence[tuple[Number, Number]]) -> None:
    group = SubElement(drawing, "g", {"stroke": f"var(--{curve.colour})", "fill": f"var(--{curve.colour})"})
    tooltip(group, curve.name)
    path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    weight = {"stroke-width": "1", "opacity": "0.45"} if curve.faint else {"stroke-width": "2"}
    dash = {"stroke-dasharray": curve.dash} if curve.dash else {}
    SubElement(group, "polyline", {"points": path, "fill": "none", "stroke-linejoin": "round", **weight, **dash})
    for x, y in points if curve.mark else ():
        SubElement(group, "circle", {"cx": number(x), "cy": number(y), "r": "2" if curve.faint else "3"})


def _placed(curves: Sequence[Curve]) -> list[tuple[Curve, int, float]]:
    """Each entry of the legend with its row and where it begins, as many in a row as fit."""
    placed, row, x = [], 0, float(LEFT)
    for curve in curves:
        width = 30 + LETTER * len(curve.name) + 14
        if x > LEFT and x + width > WIDTH:
            row, x = row + 1, float(LEFT)
        placed.append((curve, row, x))
        x += width
    return placed


def _label(value: Number, among: Sequence[Number]) -> str:
    """A tick's number, with as many digits as its neighbours."""
    digits = max(len(f"{other:g}".partition(".")[2]) for other in among)
    return f"{value:.{digits}f}" if "e" not in f"{value:g}" else f"{value:g}"
