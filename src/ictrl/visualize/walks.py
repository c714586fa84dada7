"""What a learner can draw besides samples: walks through a class, paths between two images, images near a direction.

All of it goes through feature space. Features have unit length, so paths follow the sphere: a point off the sphere is
no image's feature, and is brought back to it (`within_reach`) before it is decoded.

A class has two sets of directions, both computed from its stored mean and covariance:

- its *principal directions* (Algorithm 1), along which memory samples: eigenvectors of the second moment around 0. The
  first often points at the mean, because the class lies there;
- the directions in which it *varies*: eigenvectors of the covariance, the second moment around the mean. Walks go along
  these, and the square root of an eigenvalue is a standard deviation σ.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ictrl.errors import InputError
from ictrl.memory.store import ClassMemory
from ictrl.methods.capabilities import DrawsFeatures, ShapesFeatures
from ictrl.methods.inputs import whole_number
from ictrl.shapes import Float, Int, UInt8
from ictrl.theory.statistics import spectrum

OPPOSITE = 1e-3  # radians short of half a circle: between nearly opposite features no great circle is the shortest


def walk(
    learner: DrawsFeatures, label: int, direction: int, steps: int = 7, sigmas: float = 3.0
) -> UInt8[Tensor, "steps c h w"]:
    """Images of a class from −`sigmas` to +`sigmas` standard deviations around its mean, from memory alone.

    `direction` counts the directions in which the class varies, the widest first. With an odd number of steps the
    image in the middle is that of the mean.
    """
    kept = learner.recall(label)
    steps = whole_number(steps, "steps", least=2)
    if not 0 < sigmas < float("inf"):
        raise InputError(f"Expected sigmas to be above 0 but got {sigmas}.")
    deviations, directions = variation(kept)
    direction = _among(direction, len(directions), label)
    reach = torch.linspace(-sigmas, sigmas, steps, device=kept.mean.device) * deviations[direction]  # (steps,)
    return learner.decode(within_reach(learner, kept.mean + reach[:, None] * directions[direction])).cpu()


def interpolate(
    learner: DrawsFeatures, start: UInt8[Tensor, "c h w"], end: UInt8[Tensor, "c h w"], steps: int = 9
) -> UInt8[Tensor, "steps c h w"]:
    """Images at equal distances on the great circle between the features of two images.

    The first and the last are the reconstructions of the two.
    """
    steps = whole_number(steps, "steps", least=2)
    Z = learner.features(torch.stack([start, end]))
    return learner.decode(great_circle(Z[0], Z[1], steps)).cpu()


def nearest(
    learner: DrawsFeatures, images: UInt8[Tensor, "n c h w"], label: int, direction: int, n: int = 5
) -> Int[Tensor, " n"]:
    """Indices of the images whose features lie nearest to a principal direction of a class, the nearest first.

    As in the paper's figures. It needs images of the class: the learner keeps none. Nearness is the absolute
    projection, as in Algorithm 1: −v is as much a principal direction as v.
    """
    directions = principal_directions(learner.recall(label))
    direction = _among(direction, len(directions), label)
    n = min(whole_number(n, "n", least=1), len(images))
    return (learner.features(images) @ directions[direction]).abs().topk(n).indices.cpu()


def within_reach(learner: DrawsFeatures, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """For each point of feature space the nearest one that an image's feature can be."""
    return learner.within_reach(Z) if isinstance(learner, ShapesFeatures) else normalize(Z, dim=1)


def principal_directions(kept: ClassMemory) -> Float[Tensor, "r d"]:
    """The class's top principal directions, as many as memory has Gaussians; unit length, the strongest first.

    The directions that Algorithm 1 found are not stored. Its matrix follows from what is: ZᵀZ = (n − 1)Σ + nμμᵀ.
    """
    n = kept.count.to(kept.mean.dtype)
    second_moment = (n - 1) * kept.covariance + n * torch.outer(kept.mean, kept.mean)
    return spectrum(second_moment)[1].T[: len(kept.direction_means)]


def variation(kept: ClassMemory) -> tuple[Float[Tensor, " q"], Float[Tensor, "q d"]]:
    """Standard deviations of the class around its mean, the widest first, and the unit-length directions of each.

    n features vary in n − 1 directions at most; there are no more.
    """
    values, directions = kept.spectrum
    q = min(int(kept.count) - 1, len(values))
    return values[:q].sqrt(), directions.T[:q]


def great_circle(start: Float[Tensor, " d"], end: Float[Tensor, " d"], steps: int) -> Float[Tensor, "steps d"]:
    """Points at equal angles between two points of the unit sphere, both included.

    >>> great_circle(torch.tensor([1.0, 0.0]), torch.tensor([0.6, 0.8]), steps=3)
    tensor([[1.0000, 0.0000],
            [0.8944, 0.4472],
            [0.6000, 0.8000]])
    """
    across = end - (start @ end) * start  # the part of the end that is orthogonal to the start
    angle = torch.atan2(across.norm(), start @ end)  # precise where arccos is not: near 0 and near π
    if angle > torch.pi - OPPOSITE:
        raise InputError("Expected images whose features are not opposite but theirs are: choose another of the two.")
    turned = torch.linspace(0, 1, steps, dtype=start.dtype, device=start.device)[:, None] * angle
    return turned.cos() * start + turned.sin() * normalize(across, dim=0)


def _among(direction: int, directions: int, label: int) -> int:
    direction = whole_number(direction, "direction")
    if not 0 <= direction < directions:
        raise InputError(f"Expected direction from 0 to {directions - 1} for label {label} but got {direction}.")
    return direction
