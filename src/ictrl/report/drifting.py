"""Drift of each class, task by task."""

from typing import Any

from ictrl.report.curves import Curve, line_chart
from ictrl.report.drawing import Figure
from ictrl.report.reading import RunRecord


def drift_of_means(run: RunRecord) -> Figure | None:
    """None where drift was not measured."""
    return _drawn(
        run,
        "mean",
        "drift-means",
        "Drift of class means",
        "Distance between the stored mean of each class (thin) and the mean of its images under the encoder as it is; "
        "features have length 1.",
        "distance",
        None,
    )


def drift_of_subspaces(run: RunRecord) -> Figure | None:
    return _drawn(
        run,
        "affinity",
        "drift-subspaces",
        "Drift of class subspaces",
        "Affinity between the subspace that is stored of each class (thin) and that of its images under the encoder as "
        "it is: 1 if it has not moved.",
        "affinity",
        (0.0, 1.0),
    )


def _drawn(
    run: RunRecord,
    part: str,
    name: str,
    title: str,
    caption: str,
    y_label: str,
    y_range: tuple[float, float] | None,
) -> Figure | None:
    drift: dict[str, Any] = run.results.get("drift", {})
    columns = list(zip(*drift[part])) if drift else []
    found = {
        label: [(float(t), value) for t, value in enumerate(column, start=1) if value is not None]
        for label, column in zip(drift.get("classes", []), columns)
    }
    found = {label: points for label, points in found.items() if points}
    if not found:
        return None
    curves = [Curve(run.class_name(label), points, "memory", faint=True) for label, points in found.items()]
    measured = sorted({t for points in found.values() for t, _ in points})
    at = [[value for points in found.values() for u, value in points if u == t] for t in measured]
    means = [sum(values) / len(values) for values in at]
    curves.append(Curve("mean of all classes seen", list(zip(measured, means)), "reencoded"))
    ends = {label: points[-1][1] for label, points in found.items()}
    most = (max if part == "mean" else min)(ends, key=lambda label: ends[label])
    return Figure(
        name,
        title,
        f"{caption} Most in the end: {run.class_name(most)}, {ends[most]:.3f}.",
        line_chart(
            curves,
            x_label="after task",
            y_label=y_label,
            y_range=y_range,
            x_names={t: f"{t:g}" for t in measured},
            alt=f"Curves of the drift of {len(found)} classes; the mean ends at {means[-1]:.3f}, "
            f"class {run.class_name(most)} at {ends[most]:.3f}.",
        ),
    )
