"""How far the subspaces of every two classes lie within each other."""

import numpy as np
import torch
from numpy.typing import NDArray

from ictrl.memory.compensation import leading_components
from ictrl.memory.store import Memory
from ictrl.report.catalogue import Figure, figure
from ictrl.report.plots import heat_map
from ictrl.report.record import RunRecord
from ictrl.theory.metrics import subspace_affinity
from ictrl.theory.statistics import Moments

COUNTED = 12  # classes, for which the numbers fit into the cells


@figure(section="structure", order=20)
def affinity(run: RunRecord) -> Figure | None:
    """Affinity between the subspaces of every two classes, as memory has them."""
    if run.memory is None:
        return None
    labels, values, q = class_affinities(run.memory)
    d = run.memory[labels[0]].mean.numel()
    names = run.class_names(labels)
    others = values - np.eye(len(values))
    i, j = np.unravel_index(int(others.argmax()), others.shape)
    nearest = f" Nearest: {names[i]} and {names[j]}, {values[i, j]:.2f}." if len(names) > 1 else ""
    return Figure(
        "Affinity of class subspaces",
        f"‖UᵢᵀUⱼ‖² / {q} for the {q} leading components of the stored covariances: 1 for the same subspace, 0 for "
        f"orthogonal ones, about {q / d:.2f} for two at random.{nearest}",
        alt=f"Map of the affinity between the subspaces of {len(names)} classes.{nearest}",
        drawing=heat_map(
            values,
            [(name, 1) for name in names],
            x_label="class",
            y_label="class",
            words=[[_written(value) for value in row] for row in values] if len(names) <= COUNTED else None,
        ),
    )


def class_affinities(memory: Memory) -> tuple[list[int], NDArray[np.float64], int]:
    """Labels in the order of learning, the affinity of every two of them, and the number of components."""
    labels, moments = list(memory), Moments.of_classes(memory)
    q = leading_components(moments.means.shape[1])
    ascending = moments.labels.tolist()
    bases = moments.leading_bases(q)[[ascending.index(label) for label in labels]]  # (k, d, q)
    pairs = torch.broadcast_tensors(bases[:, None], bases[None])  # (k, k, d, q) both
    return labels, subspace_affinity(*pairs).double().numpy(), q


def _written(value: float) -> str:
    """Two digits without the zero before them."""
    return f"{value:.2f}"[-3:] if value < 0.995 else "1"
