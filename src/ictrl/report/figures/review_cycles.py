"""Accuracy cycle by cycle of a review, against the joint model."""

from ictrl.experiment.results import PROTOCOLS
from ictrl.report.catalogue import Figure, figure
from ictrl.report.plots import Curve, line_chart
from ictrl.report.record import RunRecord
from ictrl.report.words import axis_begin, axis_note


@figure(section="review", order=10)
def review(run: RunRecord) -> Figure | None:
    """Accuracy after each cycle; None where nothing was reviewed."""
    if run.review is None or not run.review["cycles"]:
        return None
    cycles, joint = run.review["cycles"], run.review.get("joint") or {}
    numbers = [cycle["cycle"] for cycle in cycles]
    protocols = [protocol for protocol in PROTOCOLS if cycles[0].get(protocol) is not None]
    ends = (numbers[0], max(numbers[-1], numbers[0] + 1))
    curves = [
        *(Curve(name, [(cycle["cycle"], cycle[name]) for cycle in cycles], name) for name in protocols),
        *(
            Curve(f"joint model, {name}", [(x, joint[name]) for x in ends], name, dash=2, mark=False)
            for name in protocols
            if joint.get(name) is not None
        ),
    ]
    lowest = axis_begin(min(y for curve in curves for _, y in curve.points))
    told = "; ".join(f"{name} from {cycles[0][name]:.3f} to {cycles[-1][name]:.3f}" for name in protocols)
    held = run.review["distillation"]
    return Figure(
        "Accuracy after each cycle",
        "Accuracy over all classes after each cycle of review, in which every class is seen once more, "
        f"{'with' if run.review.get('with_labels') else 'without'} labels"
        + (f" and with {held:g} times the recipe's distillation" if held != 1 else "")
        + f".{axis_note(lowest)}",
        alt=f"Line chart of the accuracy after each of {numbers[-1]} cycles of review: {told}.",
        drawing=line_chart(
            curves,
            x_label="cycles of review",
            y_label="accuracy",
            y_range=(lowest, 1.0),
            x_names={number: str(number) for number in numbers},
        ),
    )
