"""Drift: how far what was stored of a class lies from where its images are now.

When a new task moves the encoder, the stored moments of old classes stay behind, or follow by transport. Only someone
who kept the old images can say how well: re-encoded, they give the moments as they should be. Two numbers a class:

- *mean*: the distance between the stored and the re-encoded mean; features have length 1;
- *affinity*: of the subspaces along the leading components of the two covariances, from 0 to 1.
"""

import torch

from ictrl.memory.classifiers import Moments, NearestSubspace
from ictrl.memory.store import Memory
from ictrl.theory.metrics import subspace_affinity

COMPONENTS = 15


def leading_components(feature_dim: int) -> int:
    """15, or a quarter of a small feature space: half of it would have affinity with anything.

    >>> leading_components(128), leading_components(16)
    (15, 4)
    """
    return max(1, min(COMPONENTS, feature_dim // 4))


def measure_drift(memory: Memory, reencoded: Moments) -> tuple[list[float], list[float]]:
    """Distance of the means and affinity of the subspaces of each class, in the order of learning."""
    stored = Moments.of_memory(memory)
    assert torch.equal(stored.labels, reencoded.labels)  # both ascending
    q = leading_components(stored.means.shape[1])
    bases = [NearestSubspace.from_moments(moments, components=q).bases for moments in (stored, reencoded)]
    distances = (stored.means - reencoded.means).norm(dim=1).tolist()
    affinities = subspace_affinity(*bases).tolist()
    place = {label: i for i, label in enumerate(stored.labels.tolist())}
    return [distances[place[label]] for label in memory], [affinities[place[label]] for label in memory]
