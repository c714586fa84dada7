"""Accuracy cycle by cycle of a review, against the joint model."""

from ictrl.experiment.evaluation import PROTOCOLS
from ictrl.report.accuracy import axis_begin
from ictrl.report.curves import Curve, line_chart
from ictrl.report.drawing import Figure
from ictrl.report.reading import RunRecord


def review(run: RunRecord) -> Figure | None:
    """None where nothing was reviewed."""
    if run.review is None or not run.review["cycles"]:
        return None
    cycles, joint = run.review["cycles"], run.review.get("joint")
    last = cycles[-1]["cycle"]
    curves = [
        Curve(protocol, [(cycle["cycle"], cycle[protocol]) for cycle in cycles], protocol) for protocol in PROTOCOLS
    ]
    if joint:
        ends = (cycles[0]["cycle"], max(last, cycles[0]["cycle"] + 1))
        curves += [
            Curve(f"joint model, {protocol}", [(x, joint[protocol]) for x in ends], protocol, "3 3", mark=False)
            for protocol in PROTOCOLS
        ]
    lowest = axis_begin(min(y for curve in curves for _, y in curve.points))
    told = "; ".join(f"{name} from {cycles[0][name]:.3f} to {cycles[-1][name]:.3f}" for name in PROTOCOLS)
    with_labels = run.review.get("with_labels", False)
    return Figure(
        "review",
        "Review",
        f"Accuracy over all classes after each cycle of review, in which every class is seen once more, "
        f"{'with' if with_labels else 'without'} labels." + (f" The axis begins at {lowest:g}." if lowest else ""),
        line_chart(
            curves,
            x_label="cycles of review",
            y_label="accuracy",
            y_range=(lowest, 1.0),
            x_names={cycle["cycle"]: str(cycle["cycle"]) for cycle in cycles},
            alt=f"Line chart of the accuracy after each of {last} cycles of review: {told}.",
        ),
    )
