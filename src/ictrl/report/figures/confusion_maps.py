"""Which classes are taken for which."""

import numpy as np
from numpy.typing import NDArray

from ictrl.report.catalogue import Figure, figure
from ictrl.report.plots import heat_map
from ictrl.report.record import RunRecord
from ictrl.theory.metrics import confusion_table

COUNTED = 12  # classes, for which the numbers fit into the cells


@figure(section="confusion", order=10)
def confusion_memory(run: RunRecord) -> Figure | None:
    """Confusion from what was kept."""
    return _confusion(run, "memory")


@figure(section="confusion", order=20)
def confusion_reencoded(run: RunRecord) -> Figure | None:
    """Confusion under the paper's protocol, where it was measured."""
    return _confusion(run, "reencoded")


def _confusion(run: RunRecord, protocol: str) -> Figure | None:
    scores = run.results.protocols.get(protocol)
    if scores is None or scores.confusion is None:
        return None
    counts = confusion_table(scores.confusion)
    names = run.class_names(sorted(run.classes))
    found = mistakes(counts, names)
    worst = f"Most often mistaken: {found}." if found else "No image was mistaken."
    return Figure(
        f"Confusion, {protocol}",
        f"{worst} Shades are the share of a class's images, on a root scale.",
        alt=f"Confusion matrix of {len(names)} classes under {protocol}. {worst}",
        drawing=heat_map(
            counts / counts.sum(1, keepdims=True).clip(min=1),
            [(name, 1) for name in names],
            x_label="predicted class",
            y_label="true class",
            words=[[str(n) if n else "" for n in row] for row in counts] if len(names) <= COUNTED else None,
            root=True,
        ),
    )


def mistakes(counts: NDArray[np.int_], names: list[str], most: int = 3) -> str:
    """The most frequent mistakes in words.

    >>> mistakes(np.array([[5, 2], [0, 7]]), ["cat", "dog"])
    'cat for dog (2)'
    """
    wrong = counts - np.diag(counts.diagonal())
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = [np.unravel_index(place, wrong.shape) for place in order]
    return ", ".join(f"{names[i]} for {names[j]} ({wrong[i, j]})" for i, j in pairs if wrong[i, j])
