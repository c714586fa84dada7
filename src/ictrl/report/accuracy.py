"""Accuracy after each task, under both protocols, with both floors."""

from itertools import accumulate

from ictrl.report.curves import Curve, line_chart
from ictrl.report.drawing import RUN_COLOURS, Figure
from ictrl.report.reading import RunRecord

CURVES = {
    "memory": ("memory", ""),
    "reencoded": ("reencoded", "7 3"),
    "floor": ("floor: untrained", "2 3"),
    "frozen": ("floor: frozen after task 1", "8 3 2 3"),
}


def accuracy(run: RunRecord) -> Figure:
    present = [name for name in CURVES if name in run.results]
    learned = classes_learned(run)
    seen = {name: run.results[name]["seen"] for name in present}
    lowest = axis_begin(min(value for values in seen.values() for value in values))
    curves = [Curve(CURVES[name][0], list(zip(learned, seen[name])), name, CURVES[name][1]) for name in present]
    told = "; ".join(f"{CURVES[name][0]} from {seen[name][0]:.3f} to {seen[name][-1]:.3f}" for name in present)
    return Figure(
        "accuracy",
        "Accuracy over all classes seen so far",
        "memory: nothing but what the learner stored. reencoded: the paper's protocol, which needs all old images. The "
        "floors are re-encoded: the same networks untrained, and never trained again after the first task."
        + _axis_note(lowest),
        line_chart(
            curves,
            x_label="classes learned",
            y_label="accuracy",
            y_range=(lowest, 1.0),
            x_names={float(count): str(count) for count in learned},
            alt=f"Line chart of the accuracy after each of {run.done} tasks: {told}.",
        ),
    )


def compared(runs: list[RunRecord], protocol: str) -> Figure:
    """One curve a run."""
    lowest = axis_begin(min(value for run in runs for value in run.results[protocol]["seen"]))
    curves = [
        Curve(
            run.name,
            list(zip(classes_learned(run), run.results[protocol]["seen"])),
            f"run-{i % RUN_COLOURS}",
            dash=("", "7 3", "2 3", "8 3 2 3")[i // RUN_COLOURS % 4],
        )
        for i, run in enumerate(runs)
    ]
    needs = {"memory": "Nothing but what each learner stored.", "reencoded": "The paper's protocol: needs old images."}
    told = "; ".join(f"{run.name} ends at {run.results[protocol]['last']:.3f}" for run in runs)
    return Figure(
        f"compared-{protocol}",
        f"Accuracy of all runs, {protocol}",
        needs[protocol] + _axis_note(lowest),
        line_chart(
            curves,
            x_label="classes learned",
            y_label=f"accuracy, {protocol}",
            y_range=(lowest, 1.0),
            alt=f"Line chart of the accuracy under {protocol} after each task: {told}.",
        ),
    )


def classes_learned(run: RunRecord) -> list[int]:
    return list(accumulate(len(task) for task in run.tasks))


def axis_begin(least: float) -> float:
    """0, or for high accuracies as much as leaves the curves apart.

    >>> axis_begin(0.3), axis_begin(0.97)
    (0.0, 0.9)
    """
    return 0.0 if least < 0.55 else int(10 * (least - 0.02)) / 10


def _axis_note(lowest: float) -> str:
    return f" The axis begins at {lowest:g}." if lowest else ""
