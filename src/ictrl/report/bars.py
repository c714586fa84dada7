"""Bars: a few quantities side by side."""

from collections.abc import Mapping, Sequence

from ictrl.report.drawing import (
    WIDTH,
    Number,
    canvas,
    line,
    rectangle,
    rounded_up,
    text,
    thinned,
    ticks,
    tooltip,
    written,
)

LEFT, RIGHT, TOP, HEIGHT = 58, 12, 10, 170


def grouped_bars(
    groups: Sequence[str], series: Mapping[str, Sequence[float]], *, x_label: str, y_label: str, alt: str
) -> str:
    """A group of upright bars for each name, one of each series; the name of a series is that of its colour."""
    everything = [value for values in series.values() for value in values]
    low, high = min(0.0, *everything), rounded_up(max(0.05, *everything))
    drawing = canvas(TOP + HEIGHT + 64, alt)

    def down(y: Number) -> float:
        return TOP + (1 - (y - low) / (high - low)) * HEIGHT

    for value in ticks(low, high):
        line(drawing, LEFT, down(value), WIDTH - RIGHT, down(value), "rule")
        text(drawing, LEFT - 6, down(value) + 4, f"{value:g}", "end", fill="var(--quiet)")
    each = (WIDTH - LEFT - RIGHT) / len(groups)
    width = min(28, 0.7 * each / len(series))
    for i, name in enumerate(groups):
        middle = LEFT + (i + 0.5) * each
        for j, (colour, values) in enumerate(series.items()):
            top, bottom = sorted((down(values[i]), down(0)))
            x = middle + (j - len(series) / 2) * width
            bar = rectangle(drawing, x, top, width * 0.92, max(bottom - top, 1), colour)
            tooltip(bar, f"{colour}, {name}: {values[i]:.3f}")
        if i in thinned(range(len(groups)), 20):
            text(drawing, middle, TOP + HEIGHT + 17, name, "middle", fill="var(--quiet)")
    line(drawing, LEFT, down(0), WIDTH - RIGHT, down(0), "quiet")
    text(drawing, (LEFT + WIDTH - RIGHT) / 2, TOP + HEIGHT + 36, x_label, "middle")
    text(drawing, 12, TOP + HEIGHT / 2, y_label, "middle", transform=f"rotate(-90 12 {TOP + HEIGHT / 2:g})")
    for j, colour in enumerate(series):
        rectangle(drawing, LEFT + 110 * j, TOP + HEIGHT + 46, 12, 12, colour)
        text(drawing, LEFT + 18 + 110 * j, TOP + HEIGHT + 56, colour)
    return written(drawing)


def level_bars(rows: Sequence[tuple[str, Number, str, str]], *, alt: str) -> str:
    """Lying bars on one scale, each given as name, length, the words at its end and its colour."""
    longest = max(length for _, length, _, _ in rows)
    drawing = canvas(46 * len(rows), alt)
    for i, (name, length, words, colour) in enumerate(rows):
        text(drawing, 0, 46 * i + 13, name)
        text(drawing, WIDTH, 46 * i + 13, words, "end", font_weight="600")
        rectangle(drawing, 0, 46 * i + 20, max(1.5, length / longest * WIDTH), 16, colour)
    return written(drawing)
