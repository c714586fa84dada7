"""The look of every chart: a canvas of fixed width with fixed places, matplotlib's settings, axes and legends.

A chart is 440 points wide, so that on a phone its words are still large enough to read, and nothing is laid out by
measuring words: the page has a font of its own.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from cycler import cycler
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator

from ictrl.report.palette import LIGHT

WIDTH, LEFT, RIGHT, TOP = 440, 58, 12, 10  # points, of the drawing and around the field that is drawn in
ROW, LETTER = 18, 7.6  # points that a row of the legend and one of its letters take
LONGEST = 44  # letters of a name in the legend
NAMED = 20  # names that fit along an axis

Number = int | float

STYLE: dict[Any, Any] = {
    # a user's own settings of matplotlib change no report
    **{name: value for name, value in matplotlib.rcParamsDefault.items() if not name.startswith("backend")},
    "axes.axisbelow": True,
    "axes.edgecolor": LIGHT["quiet"],
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": LIGHT["ink"],
    "axes.prop_cycle": cycler(
        color=[LIGHT[name] for name in ("memory", "reencoded", "untrained", "frozen", "method-2", "method-3")]
    ),
    **{f"axes.spines.{side}": False for side in ("left", "right", "top", "bottom")},
    "figure.facecolor": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib; the page has a font of its own
    "font.size": 12,
    "grid.color": LIGHT["rule"],
    "grid.linewidth": 1.0,
    "image.composite_image": False,
    "legend.borderaxespad": 0.0,
    "legend.borderpad": 0.0,
    "legend.columnspacing": 1.2,
    "legend.fontsize": 12,
    "legend.frameon": False,
    "legend.labelspacing": 0.4,
    "lines.linewidth": 2.0,
    "lines.markersize": 6.0,
    "svg.fonttype": "none",  # words stay words
    "svg.hashsalt": "ictrl",  # the same chart is the same text
    "text.color": LIGHT["ink"],
    "text.parse_math": False,  # a dollar in the name of a class is a dollar
    **{f"{axis}tick.color": LIGHT["quiet"] for axis in "xy"},
    **{f"{axis}tick.labelcolor": LIGHT["quiet"] for axis in "xy"},
    **{f"{axis}tick.labelsize": 12 for axis in "xy"},
    **{f"{axis}tick.major.pad": 6.0 for axis in "xy"},
    **{f"{axis}tick.major.size": 0.0 for axis in "xy"},
}


@contextmanager
def house_style() -> Iterator[None]:
    """Whatever is drawn within looks like the rest of the report."""
    with matplotlib.rc_context(STYLE):
        yield


def canvas(height: Number = 210, left: Number = LEFT, below: Number = 48) -> tuple[Drawing, Axes]:
    """An empty chart whose field is `height` points high, with room for names on the left and below."""
    whole = TOP + height + below
    drawing = Drawing(figsize=(WIDTH / 72, whole / 72), dpi=72, frameon=False)
    axes = drawing.add_axes((left / WIDTH, below / whole, (WIDTH - left - RIGHT) / WIDTH, height / whole))
    axes.patch.set_visible(False)
    return drawing, axes


def canvas_with_legend(height: Number, names: Sequence[str]) -> tuple[Drawing, Axes]:
    """An empty chart with room for a legend of these names; `legend` puts it there."""
    return canvas(height, below=48 + ROW * -(-len(names) // _columns(names)))


def legend(drawing: Drawing, artists: Sequence[Artist], names: Sequence[str]) -> None:
    """What each artist is called, in as many columns as fit below the chart."""
    drawing.legend(
        handles=artists,
        labels=[_abridged(name) for name in names],
        loc="lower left",
        bbox_to_anchor=(LEFT / WIDTH, 0),
        ncols=_columns(names),
    )


def name_axes(axes: Axes, x_label: str, y_label: str) -> None:
    """What both axes count, at places that do not depend on the width of numbers, which need not be measured then."""
    field = axes.get_window_extent()
    axes.set_xlabel(x_label, va="baseline")
    axes.xaxis.set_label_coords(0.5, -36 / field.height)
    axes.set_ylabel(y_label)
    axes.yaxis.set_label_coords((12 - field.x0) / field.width, 0.5)


def mark_heights(axes: Axes, low: Number, high: Number, *, rounded: bool) -> None:
    """Round numbers along the vertical axis, which goes from the first to the last of them if it is to be rounded."""
    ticks = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    low, high = (ticks[0], ticks[-1]) if rounded else (low, high)
    slack = 1e-9 * (high - low)
    axes.set_yticks([tick for tick in ticks if low - slack <= tick <= high + slack])
    axes.set_ylim(low, high)
    axes.ticklabel_format(axis="y", style="plain", useOffset=False)


def short(name: str, longest: int = 12) -> str:
    """A name that fits beside an axis.

    >>> short("a rather long name"), short("cat")
    ('a rather lo…', 'cat')
    """
    return name if len(name) <= longest else name[: longest - 1] + "…"


def thinned(items: Sequence[Any], most: int) -> list[Any]:
    """Every second, third … of the items, so that at most so many are left."""
    return list(items[:: max(1, -(-len(items) // most))])


def _abridged(name: str) -> str:
    """A name that fits into a legend, with both its ends: paths differ in the last part."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[1 - LONGEST // 2 :]}"


def _columns(names: Sequence[str]) -> int:
    """Columns of a legend of these names."""
    widest = 44 + LETTER * max((len(_abridged(name)) for name in names), default=0)
    return max(1, min(len(names), int((WIDTH - LEFT) / widest)))
