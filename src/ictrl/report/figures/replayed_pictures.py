"""What memory replays of each class."""

from ictrl.experiment.sheets import MOST
from ictrl.methods.capabilities import Draws
from ictrl.report.catalogue import figure
from ictrl.report.record import RunRecord
from ictrl.report.thumbnails import Cell, PictureTable, tiled

REPLAYED, ALONG, DIRECTIONS = 8, 4, 6  # pictures over all directions, along each, and directions shown


@figure(section="pictures", order=10)
def replayed(run: RunRecord) -> PictureTable | None:
    """Samples of each class over all its directions, and along the first few; None where nothing is drawn."""
    learner, memory = run.learner, run.memory
    if learner is None or not isinstance(learner, Draws):
        return None
    labels = learner.labels[:MOST]
    directions = {label: 0 if memory is None else len(memory[label].direction_means) for label in labels}
    shown = min(DIRECTIONS, max(directions.values()))
    rows = []
    for label in labels:
        name = run.class_name(label)
        cells: list[Cell | None] = [Cell(f"{name}, replayed", tiled(learner.sample(label, REPLAYED), 4))]
        for i in range(shown):
            there = i < directions[label]
            alt = f"{name}, along direction {i + 1}"
            cells.append(Cell(alt, tiled(learner.sample(label, ALONG, i), 2)) if there else None)
        rows.append((name, cells))
    return PictureTable(
        "What memory replays",
        "Features drawn from the stored moments and decoded: no image of an old class is kept. First over all of a "
        "class's principal directions in turn, then along each of the strongest."
        if shown
        else "Images of each class, drawn from what the learner kept.",
        ["over all directions" if shown else "drawn", *(f"direction {i + 1}" for i in range(shown))],
        rows,
        left_out=len(learner.labels) - len(labels),
    )
