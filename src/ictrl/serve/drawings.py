"""What a class looks like, from memory alone: samples, directions, single points, and how classes lie to each other."""

from typing import Any

import torch
from torch import Tensor

from ictrl.memory.compensation import leading_components
from ictrl.memory.store import ClassMemory
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import ComparesClasses, Draws, DrawsFeatures, KeepsMoments, ask, with_seed
from ictrl.serve.refusals import RefusedError
from ictrl.serve.served import Served
from ictrl.shapes import UInt8
from ictrl.theory.metrics import subspace_affinity
from ictrl.theory.statistics import Moments
from ictrl.visualize.contact_sheet import contact_sheet
from ictrl.visualize.walks import variation, within_reach

FURTHEST = 6.0  # standard deviations along a direction
MOST_SAMPLES = 100


def _drawing(served: Served, label: int) -> tuple[DrawsFeatures, ClassMemory]:
    """A learner that draws, and what it keeps of a class."""
    learner = served.learner
    assert isinstance(learner, DrawsFeatures)
    return learner, learner.recall(served.names[label] if served.learner._by_name else label)


def samples(served: Served, label: int, n: int, direction: int | None, seed: int) -> UInt8[Tensor, "n c h w"]:
    """Replayed pictures of a class as `sample` draws them, by random numbers that follow from the seed."""
    if direction is not None and served.can["directions"]:
        r = len(_drawing(served, label)[1].direction_means)
        if direction >= r:
            raise RefusedError(
                400, f"Expected direction from 0 to {r - 1} for class {served.names[label]} but got {direction}."
            )
    return drawn(served.learner, served.names[label], label, n, direction, seed)


def drawn(
    learner: Learner[Any], name: str, label: int, n: int, direction: int | None, seed: int
) -> UInt8[Tensor, "n c h w"]:
    """Pictures of a class, which a learner knows by its name or by its number."""
    artist = ask(with_seed(learner, seed), Draws, "draw")
    return artist.sample(name if learner._by_name else label, n, direction)


def sheet(pictures: UInt8[Tensor, "n c h w"]) -> bytes:
    """Pictures row by row in one PNG file, about as many rows as columns."""
    columns = max(1, round(len(pictures) ** 0.5 + 0.49))
    return contact_sheet(pictures.split(columns))


def directions(served: Served, label: int) -> list[dict[str, Any]]:
    """The directions in which a class varies, the widest first, each with its standard deviation."""
    _, kept = _drawing(served, label)
    deviations, _ = variation(kept)
    return [{"index": i, "sigma": round(sigma, 6)} for i, sigma in enumerate(deviations.tolist())]


def picture(served: Served, label: int, at: list[float]) -> UInt8[Tensor, "c h w"]:
    """The decoded point so many standard deviations from the mean along each direction, brought back to the sphere."""
    learner, kept = _drawing(served, label)
    deviations, vectors = variation(kept)
    if len(at) > len(deviations):
        raise RefusedError(
            400, f"Expected at most {len(deviations)} numbers in at, one per direction, but got {len(at)}."
        )
    steps = torch.tensor(at, dtype=kept.mean.dtype, device=kept.mean.device) * deviations[: len(at)]
    point = kept.mean + steps @ vectors[: len(at)]
    return learner.decode(within_reach(learner, point[None])).cpu()[0]


def affinity(served: Served) -> dict[str, Any]:
    """How every two classes lie to each other, in the measure of the method."""
    learner, names = served.learner, list(served.names.values())
    if isinstance(learner, KeepsMoments):
        moments = Moments.of_classes(learner.class_memory())
        bases = moments.leading_bases(leading_components(moments.means.shape[1]))  # (k, d, q)
        rows = [subspace_affinity(basis.expand_as(bases), bases).tolist() for basis in bases]
        return {"classes": names, "kind": "affinity of subspaces", "matrix": _rounded(rows)}
    assert isinstance(learner, ComparesClasses)
    return {
        "classes": names,
        "kind": "distance between classes",
        "matrix": _rounded(learner.class_distances().cpu().tolist()),
    }


def _rounded(rows: list[list[float]]) -> list[list[float]]:
    return [[round(value, 6) for value in row] for row in rows]
