"""Drift of each class, task by task: how far what is stored lies from the class's images."""

from ictrl.report.catalogue import Figure, figure
from ictrl.report.plots import Curve, line_chart
from ictrl.report.record import RunRecord


@figure(section="structure", order=40)
def drift_means(run: RunRecord) -> Figure | None:
    """Distance between stored and true class means; None where drift was not measured."""
    if run.results.drift is None:
        return None
    return _drawn(
        run,
        run.results.drift.classes,
        run.results.drift.mean,
        "Drift of class means",
        "Distance between the stored mean of each class (thin) and the mean of its images under the encoder as it is; "
        "features have length 1.",
        "distance",
    )


@figure(section="structure", order=50)
def drift_subspaces(run: RunRecord) -> Figure | None:
    """Affinity between stored and true class subspaces; None where drift was not measured."""
    if run.results.drift is None:
        return None
    return _drawn(
        run,
        run.results.drift.classes,
        run.results.drift.affinity,
        "Drift of class subspaces",
        "Affinity between the subspace that is stored of each class (thin) and that of its images under the encoder as "
        "it is: 1 if it has not moved.",
        "affinity",
        (0.0, 1.0),
    )


def _drawn(
    run: RunRecord,
    classes: list[int],
    rows: list[list[float | None]],
    title: str,
    caption: str,
    y_label: str,
    y_range: tuple[float, float] | None = None,
) -> Figure | None:
    """A faint curve per class and their mean; None where every entry is missing."""
    found = {
        label: points
        for label, column in zip(classes, zip(*rows))
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
