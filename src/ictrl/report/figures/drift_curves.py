"""Drift of each class, task by task: how far what is stored lies from the class's images."""

from ictrl.report.catalogue import Figure, figure
from ictrl.report.plots import Curve, line_chart
from ictrl.report.record import RunRecord

MEANS = (
    "Distance between the stored mean of each class (thin) and the mean of its images under the encoder as it is; "
    "features have length 1."
)
SUBSPACES = (
    "Affinity between the subspace that is stored of each class (thin) and that of its images under the encoder as it "
    "is: 1 if it has not moved."
)


@figure(section="structure", order=40)
def drift_means(run: RunRecord) -> Figure | None:
    """Distance between stored and true class means; None where drift was not measured."""
    return _drawn(run, "mean", "Drift of class means", MEANS, "distance")


@figure(section="structure", order=50)
def drift_subspaces(run: RunRecord) -> Figure | None:
    """Affinity between stored and true class subspaces; None where drift was not measured."""
    return _drawn(run, "affinity", "Drift of class subspaces", SUBSPACES, "affinity", (0.0, 1.0))


def _drawn(
    run: RunRecord,
    part: str,
    title: str,
    caption: str,
    y_label: str,
    y_range: tuple[float, float] | None = None,
) -> Figure | None:
    """A faint curve per class and their mean, of one part of the measured drift."""
    drift = run.results.drift
    found = {
        label: points
        for label, column in (zip(drift.classes, zip(*getattr(drift, part))) if drift else ())
        if (points := [(t, value) for t, value in enumerate(column, start=1) if value is not None])
    }
    if not found:
        return None
    measured = sorted({t for points in found.values() for t, _ in points})
    at = [[value for points in found.values() for u, value in points if u == t] for t in measured]
    means = [sum(values) / len(values) for values in at]
    ends = {label: points[-1][1] for label, points in found.items()}
    most = (min if y_range else max)(ends, key=lambda label: ends[label])
    name = run.class_name(most)
    return Figure(
        title,
        f"{caption} Most in the end: {name}, {ends[most]:.3f}.",
        alt=f"Curves of the drift of {len(found)} classes; the mean ends at {means[-1]:.3f}, class {name} at "
        f"{ends[most]:.3f}.",
        drawing=line_chart(
            [
                *(Curve(run.class_name(label), points, "memory", faint=True) for label, points in found.items()),
                Curve("mean of all classes seen", list(zip(measured, means)), "reencoded"),
            ],
            x_label="after task",
            y_label=y_label,
            y_range=y_range,
            x_names={t: str(t) for t in measured},
        ),
    )
