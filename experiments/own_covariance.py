"""Does a class's own covariance pay for its bytes? LDA with more wide features against QDA with fewer.

    python experiments/own_covariance.py --root DATA --trunk trunk.safetensors --out experiments/results/qda

QDA blends each class's covariance with that of all classes,

    Σⱼ(α) = (1 − α) Σ + α Σⱼ + ρI,   score of class j = −½ (φ − μⱼ)ᵀ Σⱼ(α)⁻¹ (φ − μⱼ) − ½ log det Σⱼ(α),

and keeps one Cholesky factor per class (Σ follows from these). *Low rank* keeps Σ and, per class, the r directions in
which it differs most from Σ, measured by Σ itself, with the variances along them. Everything that must be kept is
counted: counts, means, factors in 16 bits, reductions, labels. One JSON file for each trunk, on validation images.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ictrl import load_dataset, split_tasks
from ictrl.experiment.evaluation import device_name, versions
from ictrl.files import make_folder, write_atomically
from ictrl.memory.wide_features import Reduction, pooled
from ictrl.memory.wide_memory import WideClassifier, WideMemory, auto_ridge, nothing_yet
from ictrl.methods.wide import Wide
from ictrl.nets.wrappers import run_stages, to_float
from ictrl.recipes.tables import recipe_to_table

ALPHAS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
RANKS = (8, 32, 128)

# pool, reduction, sizes; whether QDA and low rank are measured too
READINGS: list[tuple[int, str, tuple[int, ...], bool, bool]] = [
    (1, "none", (512,), True, True),
    (2, "channels", (16, 16, 32), True, True),
    (2, "channels", (32, 48, 48), True, True),
    (2, "random", (256,), True, True),
    (2, "random", (512,), True, True),
    (2, "none", (512,), False, True),
    (3, "random", (256,), True, False),
    (3, "random", (512,), True, False),
    (3, "random", (640,), True, False),
    (3, "random", (1024,), False, False),
    (3, "random", (1280,), False, True),
    (3, "random", (1536,), False, False),
    (3, "none", (512,), False, False),
]

Line = dict[str, Any]


def lda_bytes(k: int, D: int) -> int:
    """Of counts, labels, means, and one factor of 16 bits with its diagonal and scales."""
    return k * (8 + 8 + 4 * D) + 8 * D + D * (D - 1)


def qda_bytes(k: int, D: int) -> int:
    """The same with a factor per class."""
    return k * (8 + 8 + 4 * D + 8 * D + D * (D - 1))


def low_rank_bytes(k: int, D: int, rank: int) -> int:
    """LDA's, and per class so many directions of 16 bits, their scales and variances."""
    return lda_bytes(k, D) + k * rank * (2 * D + 8)


def class_covariances(phi: Float[Tensor, "n D"], y: Int[Tensor, " n"], labels: Tensor) -> Float[Tensor, "k D D"]:
    return torch.stack([torch.cov(phi[y == label].T.double()) for label in labels])


def qda(
    memory: WideMemory, own: Float[Tensor, "k D D"], phi: Float[Tensor, "n D"], alpha: float
) -> Float[Tensor, "n k"]:
    """Scores by Σⱼ(α)."""
    common = memory.covariance()
    rho = auto_ridge(memory) * common.diagonal().mean()
    scores = []
    for mean, covariance in zip(memory.means, own):
        blended = (1 - alpha) * common + alpha * covariance
        blended.diagonal().add_(rho)
        factor = torch.linalg.cholesky(blended)
        centred = (phi - mean).T
        squared = torch.linalg.solve_triangular(factor.float(), centred, upper=False).square().sum(0)
        scores.append(-0.5 * squared - factor.diagonal().log().sum().float())
    return torch.stack(scores, 1)


class LowRank:
    """Where Σ + ρI is the identity, a class has I + V diag(λ − 1) Vᵀ, V the directions with the largest |log λ|."""

    def __init__(self, memory: WideMemory, own: Float[Tensor, "k D D"], phi: Float[Tensor, "n D"]) -> None:
        common = memory.covariance()
        rho = auto_ridge(memory) * common.diagonal().mean()
        common.diagonal().add_(rho)
        factor = torch.linalg.cholesky(common)
        self.spread = []
        for mean, covariance in zip(memory.means, own):
            ridged = covariance.clone()
            ridged.diagonal().add_(rho)
            half = torch.linalg.solve_triangular(factor, ridged, upper=False)
            white = torch.linalg.solve_triangular(factor, half.T, upper=False)
            variances, directions = torch.linalg.eigh((white + white.T) / 2)
            order = variances.clamp(min=1e-9).log().abs().argsort(descending=True)[: max(RANKS)]
            centred = torch.linalg.solve_triangular(factor.float(), (phi - mean).T, upper=False)
            along = directions[:, order].float().T @ centred
            self.spread.append((centred.square().sum(0), along.square(), variances[order].float()))

    def scores(self, rank: int, alpha: float) -> Float[Tensor, "n k"]:
        found = []
        for squared, along, variances in self.spread:
            blended = 1 + alpha * (variances[:rank] - 1)
            distance = squared + ((1 / blended - 1)[:, None] * along[:rank]).sum(0)
            found.append(-0.5 * distance - 0.5 * blended.log().sum())
        return torch.stack(found, 1)


def measured(
    stages: list[list[Tensor]],
    y: Tensor,
    tests: list[list[Tensor]],
    expected: Tensor,
    first: Tensor,
    ranks: bool = True,
) -> list[Line]:
    """Every reading, from stages that were pooled to 1, 2 and 3 cells; with low rank or without."""
    labels, lines = y.unique(), list[Line]()
    k, rows = len(labels), torch.searchsorted(labels, expected)

    def note(label: str, D: int, kept: int, scores: Tensor, **more: Any) -> None:
        last = float((scores.argmax(1) == rows).double().mean())
        lines.append({"label": label, **more, "wide_features": D, "kept_bytes": kept, "last": round(last, 6)})
        print(f"{label:40s} {more} {D:5d} {kept / 1e3:8.0f} kB {last:.4f}", flush=True)

    for pool, kind, sizes, full, low in READINGS:
        reduction = Reduction.fitted(kind, sizes, [[stage[first] for stage in stages[pool - 1]]])  # type: ignore[arg-type]
        phi, seen = reduction.apply(stages[pool - 1]), reduction.apply(tests[pool - 1])
        D, extra = phi.shape[1], sum(2 * matrix.numel() for matrix in reduction.matrices)
        name = f"pool {pool}" + ("" if kind == "none" else f", {kind} {' '.join(map(str, sizes))}")
        memory = nothing_yet(torch.device("cpu")).with_classes(phi, y)
        note(f"LDA, {name}", D, lda_bytes(k, D) + extra, WideClassifier.of(memory).scores(seen))
        low = low and ranks
        if not (full or low):
            continue
        own = class_covariances(phi, y, labels)
        if full:
            for alpha in ALPHAS:
                note(f"QDA, {name}", D, qda_bytes(k, D) + extra, qda(memory, own, seen, alpha), alpha=alpha)
        if low:
            fitted = LowRank(memory, own, seen)
            for rank in RANKS:
                kept = low_rank_bytes(k, D, rank) + extra
                for alpha in ALPHAS:
                    note(f"low rank, {name}", D, kept, fitted.scores(rank, alpha), rank=rank, alpha=alpha)
    return lines


def stages_of(learner: Wide, images: Tensor) -> list[list[Tensor]]:
    """Pooled to 1, 2 and 3 cells; of images and their mirror images, the mean."""
    found: list[list[list[Tensor]]] = [[], [], []]
    with torch.no_grad():
        for part in images.split(500):
            pixels = to_float(part)
            views = [run_stages(torch.float32, learner.reader.encoder, view) for view in (pixels, pixels.flip(-1))]
            for pool, parts in enumerate(found, start=1):
                parts.append([(one + other) / 2 for one, other in zip(*(pooled(view, (pool,)) for view in views))])
    return [[torch.cat(stage) for stage in zip(*parts)] for parts in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="where the data lies")
    parser.add_argument(
        "--trunk", type=Path, required=True, help="learner of the first task, as learning_on.py saves it"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for one JSON file a trunk")
    parser.add_argument("--untrained", action="store_true", help="the same encoder before it learned, instead")
    parser.add_argument("--no-low-rank", action="store_true", help="leave low rank out, which takes the longest")
    options = parser.parse_args()
    learner = Wide.load(options.trunk)
    if options.untrained:
        learner = Wide(learner.recipe, seed=learner.seed)
    stream = replace(learner.recipe.stream, root=options.root, subset=1.0)
    network = learner.recipe.method.network
    tasks = split_tasks(load_dataset(stream, network.image_size, network.channels), stream)
    X, y = (torch.cat(parts) for parts in zip(*((task.images, task.labels) for task in tasks)))
    tests, expected = (torch.cat(parts) for parts in zip(*((task.test_images, task.test_labels) for task in tasks)))
    first = torch.isin(y, torch.tensor(tasks[0].classes))
    found = {
        "trunk": "untrained" if options.untrained else "trained",
        "lines": measured(
            stages_of(learner, X), y, stages_of(learner, tests), expected, first, not options.no_low_rank
        ),
        "measured_on": "validation images",
        "images_per_class": len(X) // len(y.unique()),
        "seed": learner.seed,
        "device": device_name(learner.device),
        "versions": versions(),
        "recipe": recipe_to_table(replace(learner.recipe, stream=replace(stream, root=None))),
    }
    make_folder(options.out)
    write_atomically(options.out / f"{found['trunk']}.json", (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
