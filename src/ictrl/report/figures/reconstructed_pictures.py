"""What becomes of the same test images from task to task."""

from ictrl.report.catalogue import figure
from ictrl.report.record import RunRecord
from ictrl.report.thumbnails import Cell, PictureTable, tiled


@figure(section="pictures", order=20)
def reconstructions(run: RunRecord) -> PictureTable | None:
    """The same few test images as the learner saw them after each task; None where no sheets were kept."""
    numbers = sorted(run.reconstructed)
    labels = [label for label in run.classes if label in run.originals]
    if not numbers or not labels:
        return None
    rows = []
    for label in labels:
        name = run.class_name(label)
        cells: list[Cell | None] = [Cell(f"{name}, test images", tiled(run.originals[label], 2))]
        for number in numbers:
            images = run.reconstructed[number].get(label)
            cells.append(None if images is None else Cell(f"{name}, after task {number}", tiled(images, 2)))
        rows.append((name, cells))
    return PictureTable(
        "Reconstructions after each task",
        "A few test images of each class, and g(f(x)) of the same images by the learner as it was after each task. The "
        "learner never saw them in training, and never reads them from the run folder.",
        ["test images", *(f"after task {number}" for number in numbers)],
        rows,
        left_out=len(run.classes) - len(labels),
    )
