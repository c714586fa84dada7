"""How alike features are, within a class and between classes."""

import numpy as np
import torch
from torch import Tensor

from ictrl.memory.store import Memory
from ictrl.report.catalogue import Figure, figure
from ictrl.report.plots import heat_map
from ictrl.report.record import RunRecord
from ictrl.shapes import Float

FEATURES = 320  # rows of the map, of all classes together


@figure(section="structure", order=10)
def blocks(run: RunRecord) -> Figure | None:
    """|Z Zᵀ| of features drawn from memory, sorted by class."""
    if run.memory is None:
        return None
    Z, sizes = drawn_features(run.memory)
    similarity = (Z @ Z.T).abs().numpy()
    own = np.repeat(np.arange(len(sizes)), sizes)
    same = own[:, None] == own
    means = f"{similarity[same].mean():.2f} within a class"
    if len(sizes) > 1:
        means += f" and {similarity[~same].mean():.2f} between classes"
    return Figure(
        "|Z Zᵀ|, sorted by class",
        "Cosines, without sign, between features drawn from memory: no image is kept whose features could be shown. "
        f"Mean: {means}. Classes in orthogonal subspaces make a block diagonal.",
        alt=f"Map of the cosines between {len(Z)} features of {len(sizes)} classes: on average {means}.",
        drawing=heat_map(
            similarity,
            list(zip(run.class_names(list(run.memory)), sizes)),
            x_label="features by class",
            y_label="features by class",
        ),
    )


def drawn_features(memory: Memory) -> tuple[Float[Tensor, "n d"], list[int]]:
    """Unit-length features drawn from memory, equally many of each class, and how many of each. Always the same."""
    each = max(2, FEATURES // len(memory))
    generator = torch.Generator().manual_seed(0)
    parts = []
    for label, kept in memory.items():
        gaussians = Memory({label: kept}).gaussians()
        Z, _ = gaussians.sample(-(-each // len(gaussians.means)), generator)
        parts.append(Z[torch.linspace(0, len(Z) - 1, each).round().long()])
    return torch.nn.functional.normalize(torch.cat(parts), dim=1), [each] * len(parts)
