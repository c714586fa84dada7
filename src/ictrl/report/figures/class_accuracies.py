"""Accuracy on each class after the last task: bars with names or, of many classes, one beside the other."""

import numpy as np
from matplotlib.figure import Figure as Drawing

from ictrl.report.catalogue import Figure, figure
from ictrl.report.class_rows import ClassRow, class_rows
from ictrl.report.house_style import canvas, mark_heights, name_axes
from ictrl.report.palette import LIGHT
from ictrl.report.plots import Row, row_bars
from ictrl.report.record import RunRecord
from ictrl.report.svg import tooltip

NAMED = 20  # classes that have a line each, with their names
WORST = 5  # classes that the caption names


@figure(section="classes", order=10)
def class_accuracy(run: RunRecord) -> Figure | None:
    """Share of each class's test images that is recognised from memory; None where no confusion matrix was kept."""
    rows = class_rows(run)
    if not rows:
        return None
    lowest = sorted(rows, key=lambda row: row.accuracy["memory"])[:WORST]
    told = ", ".join(f"{row.name} ({row.accuracy['memory']:.3f})" for row in lowest)
    mean = np.mean([row.accuracy["memory"] for row in rows])
    many = len(rows) > NAMED
    order = "One bar per class in the order of learning, lines between tasks. " if many else ""
    return Figure(
        "Accuracy of each class, from memory",
        f"{order}Mean of the classes: {mean:.3f}. {'Lowest: ' + told + '.' if len(rows) > 2 else ''}".strip(),
        alt=f"Bar chart of the accuracy of {len(rows)} classes from memory, {mean:.3f} on average; lowest {told}. The "
        "table below has all of them.",
        drawing=_side_by_side(rows)
        if many
        else row_bars(
            [Row(row.name, row.accuracy["memory"], f"{row.accuracy['memory']:.3f}", "memory") for row in rows], most=1.0
        ),
    )


def _side_by_side(rows: list[ClassRow]) -> Drawing:
    """An upright bar per class, without names; tasks by number where they begin."""
    drawing, axes = canvas(170)
    for i, row in enumerate(rows):
        accuracy = row.accuracy["memory"]
        bar = axes.bar(i + 0.5, accuracy, width=0.8, color=LIGHT["memory"])
        bar[0].set_gid(tooltip(f"{row.name}, task {row.task}: {accuracy:.3f}"))
    begins = [i for i, row in enumerate(rows) if i == 0 or row.task != rows[i - 1].task]
    axes.vlines(begins[1:], 0, 1, color=LIGHT["quiet"], linewidth=1, linestyle=(0, (2, 2)))
    axes.set_xlim(0, len(rows))
    middles = [(begin + end) / 2 for begin, end in zip(begins, [*begins[1:], len(rows)])]
    step = -(-len(begins) // 20)
    axes.set_xticks(middles[::step], [str(rows[i].task) for i in begins[::step]])
    mark_heights(axes, 0.0, 1.0, rounded=False)
    name_axes(axes, "task that brought the class", "accuracy")
    return drawing
