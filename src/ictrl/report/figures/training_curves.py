"""Training curves: every term that was reported, epoch by epoch through all tasks."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ictrl.report.catalogue import Figure, figure
from ictrl.report.house_style import LEFT, RIGHT, ROW, TOP, WIDTH, legend, thinned
from ictrl.report.palette import LIGHT
from ictrl.report.record import RunRecord
from ictrl.report.svg import tooltip

HEIGHT, TITLE, BETWEEN, BELOW = 76, 20, 10, 40  # points of a panel, above it, below it, and below all of them
GAP = 54  # points between two columns: the numbers of the right one
ALONE = 3  # panels that stand in one column
POINTS = 240  # of a curve, at most: of longer ones each point is the mean of several epochs
NUMBERED = 10  # tasks with a number below each panel
PLAYERS = {"": "memory", "encoder": "memory", "decoder": "reencoded"}
"""Colours of the curves: both players' values of the same term share a panel."""

Point = tuple[float, float]
Points = Sequence[Point]


@figure(section="training", order=10)
def training(run: RunRecord) -> Figure | None:
    """What each epoch came to, a panel per term; None where nothing was trained in epochs, or nothing was noted."""
    lines = run.metrics or []
    segments = _segments(lines)
    if not segments:
        return None
    panels: dict[str, dict[str, dict[int, list[Point]]]] = {}
    for name, tasks in segments.items():
        player, _, term = name.rpartition(".")
        panels.setdefault(term if player in PLAYERS else name, {})[player if player in PLAYERS else ""] = tasks
    epochs = {task: len(list(lines)) for task, lines in groupby(lines, key=lambda line: line["task"])}
    whole, several = sum(epochs.values()), len(epochs) > 1
    told = ", ".join(f"{name} {_ends(list(tasks.values()))}" for name, tasks in segments.items())
    per = math.ceil(whole / POINTS)
    joined = "" if per == 1 else f" Each point is the mean of up to {per} epochs."
    borders = " Lines stand where a task begins, and tasks are numbered below." if several else ""
    both = " Encoder and decoder play for the same terms." if _both(panels) else ""
    return Figure(
        "Training, epoch by epoch",
        f"What the method reports after each epoch, by the names of metrics.jsonl: {_counted(epochs)}.{borders}{both}"
        f"{joined}",
        alt=f"Curves of {len(segments)} terms over {whole} epochs, first to last: {told}.",
        drawing=_drawn(panels, epochs),
    )


def _segments(lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, list[Point]]]:
    """Each term's points in each task, epochs counted through from 0; what is no number is left out."""
    per = math.ceil(len(lines) / POINTS)
    found: dict[str, dict[int, list[Point]]] = {}
    begin = 0
    for task, group in groupby(lines, key=lambda line: line["task"]):
        own = list(group)
        for name in dict.fromkeys(key for line in own for key in line if key not in ("task", "epoch")):
            for i in range(0, len(own), per):
                values = [line[name] for line in own[i : i + per] if math.isfinite(line.get(name, math.nan))]
                if values:
                    place = begin + i + (min(per, len(own) - i)) / 2
                    found.setdefault(name, {}).setdefault(task, []).append((place, math.fsum(values) / len(values)))
        begin += len(own)
    # a term of a later task alone is 0 before there is one
    return {name: tasks for name, tasks in found.items() if any(y for points in tasks.values() for _, y in points)}


def _drawn(panels: Mapping[str, Mapping[str, Mapping[int, list[Point]]]], epochs: Mapping[int, int]) -> Drawing:
    """The panels in one column, or many in two, over one axis of epochs."""
    columns = 1 if len(panels) <= ALONE else 2
    rows = -(-len(panels) // columns)
    both = _both(panels)
    one = TITLE + HEIGHT + BETWEEN
    whole = TOP + rows * one + BELOW + (ROW if both else 0)
    field = (WIDTH - LEFT - RIGHT - GAP * (columns - 1)) / columns
    drawing = Drawing(figsize=(WIDTH / 72, whole / 72), dpi=72, frameon=False)
    for i, (term, players) in enumerate(panels.items()):
        row, column = divmod(i, columns)
        left, top = LEFT + column * (field + GAP), TOP + row * one + TITLE
        axes = drawing.add_axes((left / WIDTH, 1 - (top + HEIGHT) / whole, field / WIDTH, HEIGHT / whole))
        axes.patch.set_visible(False)
        drawing.text(left / WIDTH, 1 - (top - 6) / whole, term, size=12, va="baseline")
        last = i + columns >= len(panels)
        _panel(axes, players, epochs, numbered=last)
        if last:
            words = "task" if len(epochs) > 1 else "epoch"
            drawing.text((left + field / 2) / WIDTH, 1 - (top + HEIGHT + 36) / whole, words, ha="center", va="baseline")
    if both:
        names = ["encoder", "decoder"]
        legend(drawing, [Line2D([], [], color=LIGHT[PLAYERS[name]]) for name in names], names)
    return drawing


def _panel(
    axes: Axes, players: Mapping[str, Mapping[int, list[Point]]], epochs: Mapping[int, int], numbered: bool
) -> None:
    """One term's curves: a piece per task, because a task begins anew."""
    ys = []
    for player, tasks in players.items():
        for points in tasks.values():
            ys += [y for _, y in points]
            axes.plot(
                *zip(*points),
                color=LIGHT[PLAYERS[player]],
                linewidth=1.5,
                marker="o" if len(points) == 1 else "",
                markersize=4.0,
                gid=tooltip(player) if player else None,
            )
    ends = [sum(list(epochs.values())[: i + 1]) for i in range(len(epochs))]
    axes.set_xlim(0, ends[-1])
    ticks = MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]).tick_values(min(ys), max(ys))
    axes.set_yticks(ticks)
    axes.set_ylim(ticks[0], ticks[-1])
    axes.ticklabel_format(axis="y", style="plain", useOffset=False)
    if len(epochs) > 1:
        axes.vlines(ends[:-1], *axes.get_ylim(), color=LIGHT["quiet"], linewidth=1, linestyle=(0, (2, 2)))
        places = thinned(range(len(ends)), NUMBERED)
        middles = [end - width / 2 for end, width in zip(ends, epochs.values())]
        axes.set_xticks([middles[i] for i in places], [str(list(epochs)[i]) for i in places])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    if not numbered:
        axes.tick_params(labelbottom=False)


def _both(panels: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether there is anything of two players."""
    return bool({"encoder", "decoder"} & {player for players in panels.values() for player in players})


def _ends(tasks: Sequence[Points]) -> str:
    """The first and the last value of a term in words."""
    return f"from {tasks[0][0][1]:.3g} to {tasks[-1][-1][1]:.3g}"


def _counted(epochs: Mapping[int, int]) -> str:
    """Epochs of each task, shortly.

    >>> _counted({1: 60}), _counted({1: 60, 2: 40, 3: 40}), _counted({1: 5, 2: 6, 3: 2}), _counted({1: 5, 2: 5})
    ('60 epochs of task 1', '60 epochs of task 1, 40 of each later one', '5 epochs of task 1, 2 to 6 of each later \
one', '5 epochs of each task')
    """
    (first, count), *others = epochs.items()
    begin, later = f"{count} epoch{'s' * (count != 1)} of", [own for _, own in others]
    if not later:
        return f"{begin} task {first}"
    if {*later} == {count}:
        return f"{begin} each task"
    least, most = min(later), max(later)
    return f"{begin} task {first}, {least if least == most else f'{least} to {most}'} of each later one"
