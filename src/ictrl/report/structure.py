"""How the classes lie in feature space, as memory has them: blocks, affinity of subspaces, energy of components."""

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from ictrl.memory.classifiers import Moments, NearestSubspace
from ictrl.memory.drift import leading_components
from ictrl.memory.store import Memory
from ictrl.report.curves import Curve, line_chart
from ictrl.report.drawing import Figure
from ictrl.report.maps import heat_map
from ictrl.report.reading import RunRecord
from ictrl.theory.metrics import subspace_affinity

FEATURES = 320  # rows of the block map, of all classes together
COMPONENTS = 30  # whose energy is drawn


def block_map(run: RunRecord, memory: Memory) -> Figure:
    """|Z Zᵀ| of features drawn from memory, sorted by class."""
    Z, sizes = drawn_features(memory)
    similarity = (Z @ Z.T).abs().numpy()
    own = np.repeat(np.arange(len(sizes)), sizes)
    same = own[:, None] == own
    means = f"{similarity[same].mean():.2f} within a class"
    if len(sizes) > 1:
        means += f" and {similarity[~same].mean():.2f} between classes"
    return Figure(
        "blocks",
        "|Z Zᵀ|, sorted by class",
        "Cosines, without sign, between features drawn from memory: no image is kept whose features could be shown. "
        f"Mean: {means}. Classes in orthogonal subspaces make a block diagonal.",
        heat_map(
            similarity,
            list(zip(run.class_names(list(memory)), sizes)),
            x_label="features by class",
            y_label="features by class",
            alt=f"Map of the cosines between {len(Z)} features of {len(sizes)} classes: on average {means}.",
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


def affinity_map(run: RunRecord, memory: Memory) -> Figure:
    """Affinity between the subspaces of every two classes."""
    labels, values, q = class_affinities(memory)
    d = next(iter(memory.values())).mean.numel()
    names = run.class_names(labels)
    others = values - np.eye(len(values))
    i, j = np.unravel_index(int(others.argmax()), others.shape)
    nearest = f"Nearest: {names[i]} and {names[j]}, {values[i, j]:.2f}. " if len(names) > 1 else ""
    return Figure(
        "affinity",
        "Affinity of class subspaces",
        f"‖UᵢᵀUⱼ‖² / {q} for the {q} leading components of the stored covariances: 1 for the same subspace, 0 for "
        f"orthogonal ones, about {q / d:.2f} for two at random. {nearest}",
        heat_map(
            values,
            [(name, 1) for name in names],
            x_label="class",
            y_label="class",
            words=[[f"{value:.2f}"[-3:] if value < 0.995 else "1" for value in row] for row in values]
            if len(names) <= 12
            else None,
            alt=f"Map of the affinity between the subspaces of {len(names)} classes. {nearest}",
        ),
    )


def class_affinities(memory: Memory) -> tuple[list[int], NDArray[np.float64], int]:
    """Labels in the order of learning, the affinity of every two of them, and the number of components."""
    moments = Moments.of_memory(memory)
    q = leading_components(moments.means.shape[1])
    labels = list(memory)
    ascending = moments.labels.tolist()
    bases = NearestSubspace.from_moments(moments, components=q).bases[[ascending.index(label) for label in labels]]
    k = len(labels)
    pairs = subspace_affinity(bases.repeat_interleave(k, 0), bases.repeat(k, 1, 1))
    return labels, pairs.reshape(k, k).double().numpy(), q


def energy(run: RunRecord, memory: Memory) -> Figure:
    """Share of a class's variance along each of its principal components."""
    shares = {label: energies(kept.covariance) for label, kept in memory.items()}
    mean = torch.stack(list(shares.values())).mean(0)
    curves = [
        Curve(run.class_name(label), list(enumerate(share.tolist(), start=1)), "memory", mark=False, faint=True)
        for label, share in shares.items()
    ]
    curves.append(Curve("mean of all classes", list(enumerate(mean.tolist(), start=1)), "reencoded", mark=False))
    first = float(mean[:5].sum())
    return Figure(
        "energy",
        "Energy per principal component",
        "Share of the variance of each class (thin) along its principal components, from the stored covariances. On "
        f"average the first five hold {first:.0%}.",
        line_chart(
            curves,
            x_label="component",
            x_names={float(i): str(i) for i in (1, *range(5, len(mean) + 1, 5))},
            y_label="share of variance",
            alt=f"Curves of the share of variance by component for {len(shares)} classes: on average the first has "
            f"{float(mean[0]):.0%}, the first five {first:.0%}.",
        ),
    )


def energies(covariance: Float[Tensor, "d d"]) -> Float[Tensor, " shown"]:
    """Eigenvalues as shares of their sum, the largest first, up to those drawn."""
    values = torch.linalg.eigvalsh(covariance.double()).flip(0).clamp(min=0)
    return (values / values.sum().clamp(min=1e-30))[:COMPONENTS]
