"""How true probabilities are: how often predictions of each confidence are right."""

from ictrl.report.catalogue import Figure, figure
from ictrl.report.plots import Curve, line_chart
from ictrl.report.record import RunRecord


@figure(section="accuracy", order=30)
def reliability(run: RunRecord) -> Figure | None:
    """Accuracy against confidence; None where the method gives no probabilities, or the run is not finished."""
    found = run.results.calibration
    if found is None:
        return None
    points = [(confidence, accuracy) for images, confidence, accuracy in found.reliability if images]
    told = f"expected calibration error {found.ece:.3f}, temperature {found.temperature:.2f}"
    return Figure(
        "Reliability of the probabilities",
        "Predictions by how sure they are, and how many of them are right; on the dashed line they are right as often "
        f"as they say. From memory, after the last task: {told}.",
        alt=f"Curve of accuracy against confidence in {len(points)} bins beside the diagonal; {told}.",
        drawing=line_chart(
            [
                Curve("memory", points, "memory"),
                Curve("as often right as said", [(0.0, 0.0), (1.0, 1.0)], "untrained", dash=1, mark=False),
            ],
            x_label="confidence",
            y_label="accuracy",
            y_range=(0.0, 1.0),
        ),
    )
