"""Forgetting, bytes kept and seconds of learning of several runs, each in the colour of its method."""

from collections.abc import Callable, Sequence

from ictrl.report.catalogue import Figure, comparison
from ictrl.report.groups import Group, grouped, mean_note
from ictrl.report.plots import Row, row_bars
from ictrl.report.record import RunRecord
from ictrl.report.words import size

APART = 50  # the largest is so many times the smallest: on one scale the smallest could not be seen
TENFOLD = " Each line of the grid is ten times the one before."


@comparison(order=20)
def compared_forgetting(runs: Sequence[RunRecord]) -> Figure | None:
    """Mean loss on earlier tasks, from memory; None where no run has learned two tasks."""
    groups = [group for group in grouped(runs) if group.runs[0].done > 1]
    return _drawn(
        groups,
        "Forgetting of all runs",
        "Best accuracy on each earlier task less that in the end, the mean over tasks, from memory; below 0 it got "
        "better.",
        lambda run: run.results.memory.forgetting,
        lambda group, value: f"{round(value, 3) + 0.0:.3f}",  # never -0.000
    )


@comparison(order=30)
def compared_kept(runs: Sequence[RunRecord]) -> Figure | None:
    """Bytes kept besides the networks, and who keeps images."""
    groups = grouped(runs)
    return _drawn(
        groups,
        "Bytes kept by all runs",
        "Everything kept besides the networks in the end"
        + ("; “images” where training images are among it." if any(map(_keeps_images, groups)) else "."),
        lambda run: run.results.kept_bytes,
        lambda group, value: size(round(value)) + (", images" if _keeps_images(group) else ""),
    )


@comparison(order=40)
def compared_seconds(runs: Sequence[RunRecord]) -> Figure | None:
    """Seconds of learning, without measuring."""
    devices = sorted({run.results.device for run in runs})
    return _drawn(
        grouped(runs),
        "Seconds of learning",
        f"Learning all tasks, without measuring, on {' and '.join(devices)}"
        + ("." if len(devices) == 1 else ": seconds of different devices do not compare."),
        lambda run: run.results.seconds["learn"],
        lambda group, value: f"{value:,.1f} s" if value < 10 else f"{value:,.0f} s",
    )


def _keeps_images(group: Group) -> bool:
    return group.runs[0].keeps_images


def _drawn(
    groups: Sequence[Group],
    title: str,
    caption: str,
    number: Callable[[RunRecord], float],
    words: Callable[[Group, float], str],
) -> Figure | None:
    """A bar per group; on a scale of powers of ten where the largest is many times the smallest."""
    if len(groups) < 2:
        return None
    values = [group.mean(number) for group in groups]
    tenfold = min(values) > 0 and max(values) > APART * min(values) and max(values) > 1
    rows = [Row(group.name, value, words(group, value), group.colour) for group, value in zip(groups, values)]
    return Figure(
        title,
        f"{caption}{mean_note(groups)}{TENFOLD if tenfold else ''}",
        alt=f"{title}, a bar each: {'; '.join(f'{row.name} {row.words}' for row in rows)}.",
        drawing=row_bars(rows, tenfold=tenfold),
    )
