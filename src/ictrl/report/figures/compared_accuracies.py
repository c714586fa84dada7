"""Accuracy of several runs in one chart: a colour per method, and a dash per run of the same method."""

from collections.abc import Sequence

from ictrl.report.catalogue import Figure, comparison
from ictrl.report.groups import Group, grouped, mean_note
from ictrl.report.plots import DASHES, Curve, line_chart
from ictrl.report.record import RunRecord
from ictrl.report.words import axis_begin, axis_note

FEW = 8  # curves that a chart of the usual height has room for


@comparison(order=10)
def compared_memory(runs: Sequence[RunRecord]) -> Figure | None:
    """Accuracy of every run from what it kept."""
    return _compared(runs, "memory", "Nothing but what each learner kept.")


@comparison(order=60)
def compared_reencoded(runs: Sequence[RunRecord]) -> Figure | None:
    """Accuracy of the runs that have the paper's protocol, if there are two of them."""
    return _compared(runs, "reencoded", "The paper's protocol: needs old images.")


def _compared(runs: Sequence[RunRecord], protocol: str, needs: str) -> Figure | None:
    having = [(group, dash) for group, dash in dashes(grouped(runs)) if protocol in group.runs[0].results.protocols]
    if len(having) < 2:
        return None
    found = [(group, dash, _seen(group, protocol)) for group, dash in having]
    lowest = axis_begin(min(value for _, _, seen in found for value in seen))
    told = "; ".join(f"{group.name} ends at {seen[-1]:.3f}" for group, _, seen in found)
    groups = [group for group, _ in having]
    learned = {count for group in groups for count in group.runs[0].classes_learned}
    return Figure(
        f"Accuracy of all runs, {protocol}",
        f"{needs} A colour per method; runs of the same method differ in their dashes.{mean_note(groups)}"
        f"{axis_note(lowest)}",
        alt=f"Line chart of the accuracy under {protocol} after each task: {told}.",
        drawing=line_chart(
            [
                Curve(group.name, list(zip(group.runs[0].classes_learned, seen)), group.colour, dash, shape=group.shape)
                for group, dash, seen in found
            ],
            x_label="classes learned",
            y_label=f"accuracy, {protocol}",
            y_range=(lowest, 1.0),
            x_names={count: str(count) for count in sorted(learned)},
            height=210 if len(found) <= FEW else 330,
        ),
    )


def _seen(group: Group, protocol: str) -> list[float]:
    """Accuracy after each task, the mean over seeds."""
    return [
        group.mean(lambda run: run.results.protocols[protocol].seen[t])  # noqa: B023 (called at once)
        for t in range(group.runs[0].done)
    ]


def dashes(groups: Sequence[Group]) -> list[tuple[Group, int]]:
    """Each with a dash that no earlier one of the same colour has."""
    colours = [group.colour for group in groups]
    return [(group, colours[:i].count(colours[i]) % len(DASHES)) for i, group in enumerate(groups)]
