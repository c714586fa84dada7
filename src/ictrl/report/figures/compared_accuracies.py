"""Accuracy of several runs in one chart: a colour per method, and a dash per run of the same method."""

from collections.abc import Sequence

from ictrl.report.catalogue import Figure, comparison
from ictrl.report.palette import method_colour
from ictrl.report.plots import DASHES, Curve, line_chart
from ictrl.report.record import RunRecord
from ictrl.report.words import axis_begin, axis_note


@comparison(order=10)
def compared_memory(runs: Sequence[RunRecord]) -> Figure | None:
    """Accuracy of every run from what it kept."""
    return _compared(runs, "memory", "Nothing but what each learner kept.")


@comparison(order=20)
def compared_reencoded(runs: Sequence[RunRecord]) -> Figure | None:
    """Accuracy of the runs that have the paper's protocol, if there are two of them."""
    return _compared(runs, "reencoded", "The paper's protocol: needs old images.")


def _compared(runs: Sequence[RunRecord], protocol: str, needs: str) -> Figure | None:
    found = [
        (run, dash, run.results.protocols[protocol]) for run, dash in dashes(runs) if protocol in run.results.protocols
    ]
    if len(found) < 2:
        return None
    lowest = axis_begin(min(value for _, _, scores in found for value in scores.seen))
    told = "; ".join(f"{run.name} ends at {scores.last:.3f}" for run, _, scores in found)
    return Figure(
        f"Accuracy of all runs, {protocol}",
        f"{needs} A colour per method; runs of the same method differ in their dashes.{axis_note(lowest)}",
        alt=f"Line chart of the accuracy under {protocol} after each task: {told}.",
        drawing=line_chart(
            [
                Curve(
                    f"{run.method}: {run.name}",
                    list(zip(run.classes_learned, scores.seen)),
                    method_colour(run.method),
                    dash,
                )
                for run, dash, scores in found
            ],
            x_label="classes learned",
            y_label=f"accuracy, {protocol}",
            y_range=(lowest, 1.0),
            x_names={count: str(count) for count in sorted({n for run, _, _ in found for n in run.classes_learned})},
        ),
    )


def dashes(runs: Sequence[RunRecord]) -> list[tuple[RunRecord, int]]:
    """Each run with a dash that no earlier one of the same colour has."""
    colours = [method_colour(run.method) for run in runs]
    return [(run, colours[:i].count(colours[i]) % len(DASHES)) for i, run in enumerate(runs)]
