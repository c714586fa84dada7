"""Which classes are taken for which."""

import numpy as np

from ictrl.report.drawing import Figure
from ictrl.report.maps import heat_map
from ictrl.report.reading import RunRecord

COUNTED = 12  # classes, for which the numbers fit into the cells


def confusion_map(run: RunRecord, protocol: str) -> Figure:
    counts = np.array(run.results[protocol]["confusion"])
    names = run.class_names(sorted(run.classes))
    worst = mistakes(counts, names)
    return Figure(
        f"confusion-{protocol}",
        f"Confusion, {protocol}",
        (f"Most often mistaken: {worst}. " if worst else "No image was mistaken. ")
        + "Shades are the share of a class's images, on a root scale.",
        heat_map(
            counts / counts.sum(1, keepdims=True).clip(min=1),
            [(name, 1) for name in names],
            x_label="predicted class",
            y_label="true class",
            words=[[str(n) if n else "" for n in row] for row in counts] if len(names) <= COUNTED else None,
            root=True,
            alt=f"Confusion matrix of {len(names)} classes under {protocol}. "
            + (f"Most often mistaken: {worst}." if worst else "No image was mistaken."),
        ),
    )


def mistakes(counts: np.ndarray, names: list[str], most: int = 3) -> str:
    """The most frequent mistakes in words.

    >>> mistakes(np.array([[5, 2], [0, 7]]), ["cat", "dog"])
    'cat for dog (2)'
    """
    wrong = counts - np.diag(counts.diagonal())
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = [np.unravel_index(place, wrong.shape) for place in order]
    return ", ".join(f"{names[i]} for {names[j]} ({wrong[i, j]})" for i, j in pairs if wrong[i, j])
