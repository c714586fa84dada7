"""Forgetting: how far the accuracy on each earlier task has fallen from its best."""

from ictrl.experiment.evaluation import PROTOCOLS
from ictrl.report.bars import grouped_bars
from ictrl.report.drawing import Figure
from ictrl.report.reading import RunRecord


def forgetting(run: RunRecord) -> Figure | None:
    """None after a single task, when there is nothing to forget."""
    if run.done < 2:
        return None
    lost = {protocol: fallen(run.results[protocol]["matrix"]) for protocol in PROTOCOLS}
    means = ", ".join(f"{run.results[protocol]['forgetting']:.3f} under {protocol}" for protocol in PROTOCOLS)
    return Figure(
        "forgetting",
        "Forgetting of each task",
        f"Best accuracy on a task before the last task, less that in the end; below 0 it got better. Mean: {means}.",
        grouped_bars(
            [str(t + 1) for t in range(run.done - 1)],
            lost,
            x_label="task",
            y_label="accuracy lost",
            alt=f"Bar chart of the accuracy lost on each of {run.done - 1} earlier tasks; mean {means}.",
        ),
    )


def fallen(matrix: list[list[float]]) -> list[float]:
    """From the best before the last task to the last, of each task but the last.

    >>> fallen([[1.0, None], [0.75, 0.9]])
    [0.25]
    """
    return [max(matrix[t][j] for t in range(j, len(matrix) - 1)) - matrix[-1][j] for j in range(len(matrix) - 1)]
