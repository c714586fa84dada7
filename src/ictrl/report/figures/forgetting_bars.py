"""Forgetting: how far the accuracy on each earlier task has fallen from its best."""

from ictrl.report.catalogue import Figure, figure
from ictrl.report.plots import grouped_bars
from ictrl.report.record import RunRecord


@figure(section="accuracy", order=20)
def forgetting(run: RunRecord) -> Figure | None:
    """Accuracy lost on each task; None after a single task, when there is nothing to forget."""
    if run.done < 2:
        return None
    scores = run.results.protocols
    means = ", ".join(f"{found.forgetting:.3f} under {protocol}" for protocol, found in scores.items())
    return Figure(
        "Forgetting of each task",
        f"Best accuracy on a task before the last task, less that in the end; below 0 it got better. Mean: {means}.",
        alt=f"Bar chart of the accuracy lost on each of {run.done - 1} earlier tasks; mean {means}.",
        drawing=grouped_bars(
            [str(t + 1) for t in range(run.done - 1)],
            {protocol: fallen(found.matrix) for protocol, found in scores.items()},
            x_label="task",
            y_label="accuracy lost",
        ),
    )


def fallen(matrix: list[list[float | None]]) -> list[float]:
    """From the best before the last task to the last, of each task but the last.

    >>> fallen([[1.0, None], [0.75, 0.9]])
    [0.25]
    """
    columns = [[value for value in column if value is not None] for column in zip(*matrix)][:-1]
    return [max(column[:-1]) - column[-1] for column in columns]
