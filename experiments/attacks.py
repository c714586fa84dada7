"""Attacks on a saved learner: what someone who has the file can compute of the images that it learned from.

- `pictures_in` finds pictures that a file holds as they are, `drawn_by` has the learner draw what it can.
- `meeting_points` finds single features where two direction Gaussians of a class have one or two in common.
- `features_of_moments` finds n unit-length features from their mean and covariance: exact up to n = 4.
- `membership` scores images by how well the learner knows them.
- `taught` takes two versions of a learner, before and after a class was taught, and gets that class's moments.

`privacy.py` measures them; `tests/test_privacy.py` sees to it that they succeed where they should and fail where they
must.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from ictrl.memory.store import ClassMemory
from ictrl.memory.wide_memory import WideMemory
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import Draws, DrawsFeatures, TellsUnknown
from ictrl.theory.statistics import ClassStatistics

SAME = 1e-4  # distance at which two points of feature space count as one: features have unit length
SAMPLES = 100  # pictures of each class that are drawn from memory


# pictures


def pictures_in(tensors: Mapping[str, Tensor], shape: tuple[int, ...]) -> UInt8[Tensor, "n c h w"]:
    """Everything among these tensors that has the type and shape of pictures."""
    found = [tensor for tensor in tensors.values() if tensor.dtype == torch.uint8 and tensor.shape[1:] == shape]
    return torch.cat(found) if found else torch.zeros(0, *shape, dtype=torch.uint8)


def drawn_by(learner: Learner[Any]) -> UInt8[Tensor, "n c h w"]:
    """What the learner draws of every class: means, means of directions, samples. Nothing, if it cannot draw."""
    network = learner.recipe.method.network
    shape = network.channels, network.image_size, network.image_size
    parts = [torch.zeros(0, *shape, dtype=torch.uint8)]
    for label in learner.labels if isinstance(learner, Draws) else ():
        parts.append(learner.sample(label, SAMPLES))
        if isinstance(learner, DrawsFeatures):
            kept = learner.recall(label)
            parts.append(learner.decode(torch.cat([kept.mean[None], kept.direction_means])).cpu())
    return torch.cat(parts)


def nearest(X: UInt8[Tensor, "n c h w"], others: UInt8[Tensor, "m c h w"]) -> Float[Tensor, " n"]:
    """Mean squared error of each picture, in shares of black and white, to the nearest of the others."""
    one, other = (images.flatten(1).double() / 255 for images in (X, others))
    exact = "donot_use_mm_for_euclid_dist"  # the same picture is at 0
    return torch.cdist(one, other, compute_mode=exact).amin(1).square() / one.shape[1]


# single features


def meeting_points(kept: ClassMemory) -> Float[Tensor, "n d"]:
    """Where what two direction Gaussians span meets: one point, or a line, of which the ends of unit length.

    Means and factors of k features span an affine space of k − 1 dimensions that goes through all of them. Two such
    spaces, of few dimensions beside d, meet nowhere unless their sets share features; if they share one or two, there.
    """
    F, means = kept.direction_factors.double(), kept.direction_means.double()
    found = []
    for i, j in combinations(range(len(means)), 2):
        across = torch.cat([F[i], -F[j]]).T  # (d, 2q)
        if across.shape[1] >= len(across):
            continue  # spaces this large meet anyway
        _, singular, right = torch.linalg.svd(across, full_matrices=True)
        flat = right[singular.ge(1e-5 * singular[0]).sum() :]  # ways along which both spaces go
        steps = torch.linalg.lstsq(across, means[j] - means[i], rcond=1e-5, driver="gelsd").solution
        q = len(F[i])
        point, other = means[i] + steps[:q] @ F[i], means[j] + steps[q:] @ F[j]
        if (point - other).norm() > SAME or len(flat) > 1:
            continue
        ways = flat[:, :q] @ F[i]
        found += [point] if not len(ways) else _of_unit_length(point, ways[0])
    return torch.stack(found) if found else means[:0]


def _of_unit_length(point: Float[Tensor, " d"], way: Float[Tensor, " d"]) -> list[Tensor]:
    """The two points of a line that have unit length, if there are any."""
    a, b, c = way @ way, way @ point, point @ point - 1
    root = b**2 - a * c
    return [point + t * way for t in ((-b + root.sqrt()) / a, (-b - root.sqrt()) / a)] if root > 0 else []


def features_of_moments(
    own: ClassStatistics, generator: torch.Generator, tries: int = 10
) -> Float[Tensor, "solutions n d"]:
    """Sets of n unit-length features with this mean and covariance, from random beginnings.

    n features are their mean and a rotation of the roots of their covariance; that rotation is sought for which all
    have unit length. Where the solution is unique the features are known, up to their order.
    """
    n = int(own.count)
    values, vectors = torch.linalg.eigh(own.covariance.double() * (n - 1))
    roots = (values[1 - n :].clamp(min=0).sqrt() * vectors[:, 1 - n :]).T  # (n − 1, d)
    basis = torch.linalg.qr(torch.cat([torch.ones(n, 1), torch.eye(n)[:, :-1]], 1).double()).Q[:, 1:]  # (n, n − 1)
    mean, found = own.mean.double(), []
    for _ in range(tries):
        begin = torch.linalg.qr(torch.randn(n - 1, n - 1, dtype=torch.float64, generator=generator)).Q
        turn = torch.zeros(n - 1, n - 1, dtype=torch.float64, requires_grad=True)

        def features(turn: Tensor = turn, begin: Tensor = begin) -> Tensor:
            return mean + basis @ begin @ torch.matrix_exp(turn - turn.T) @ roots

        def loss(turn: Tensor = turn) -> Tensor:
            turn.grad = None
            value = (features().square().sum(1) - 1).square().sum()
            value.backward()
            return value

        torch.optim.LBFGS([turn], max_iter=200, tolerance_grad=1e-12, line_search_fn="strong_wolfe").step(loss)
        if float(loss().detach()) < 1e-8:
            found.append(features().detach())
    return torch.stack(found) if found else mean.new_zeros(0, n, len(mean))


def error(guesses: Float[Tensor, "*n d"], Z: Float[Tensor, "m d"]) -> float:
    """How near the best guess comes to any of these features, as a share of their mean distance from their mean.

    0 is the feature itself, 1 no better than the mean; 1 also where there is no guess.
    """
    guesses, Z = guesses.reshape(-1, Z.shape[1]).double(), Z.double()
    if not len(guesses):
        return 1.0
    return float(torch.cdist(guesses, Z).min() / (Z - Z.mean(0)).norm(dim=1).mean())


def blind(own: ClassStatistics, generator: torch.Generator, guesses: int) -> Float[Tensor, "guesses d"]:
    """Features drawn from the Gaussian of the moments: how near one comes without any attack."""
    values, vectors = torch.linalg.eigh(own.covariance.double())
    noise = torch.randn(guesses, len(values), dtype=torch.float64, generator=generator)
    return own.mean.double() + noise * values.clamp(min=0).sqrt() @ vectors.T


# membership


def membership(
    learner: Learner[Any], X: UInt8[Tensor, "n c h w"], rows: Tensor, held: Tensor
) -> dict[str, Float[Tensor, " n"]]:
    """Scores of images, smaller for what looks learned; `rows` are their classes', `held` what the file holds."""
    scores = learner.scores(X)
    found = {"score of its class": -scores.gather(1, rows[:, None])[:, 0]}
    if isinstance(learner, TellsUnknown):
        found["strangeness"] = learner.strangeness(X)
    if isinstance(learner, DrawsFeatures):
        Z = learner.features(X).double()
        found["distance to its class"] = _mahalanobis(Z, rows, [learner.recall(int(c)) for c in learner.classes_])
    if isinstance(learner, Draws):
        found["error of its reconstruction"] = (
            (learner.reconstruct(X).double() - X.double()).square().flatten(1).mean(1)
        )
    if len(held):
        found["nearest picture in the file"] = nearest(X, held)
    return found


def _mahalanobis(Z: Float[Tensor, "n d"], rows: Tensor, classes: list[ClassMemory]) -> Float[Tensor, " n"]:
    """Squared distances to the means of the images' own classes, by covariances with a tenth of ridge."""
    distances = Z.new_zeros(len(Z))
    for row, kept in enumerate(classes):
        S = kept.covariance.double()
        S = S + 0.1 * S.diagonal().mean() * torch.eye(len(S), dtype=S.dtype)
        centred = Z[rows == row] - kept.mean.double()
        distances[rows == row] = (centred * torch.linalg.solve(S, centred.T).T).sum(1)
    return distances


# two versions of a learner


def taught(before: WideMemory, after: WideMemory) -> ClassStatistics:
    """Count, mean and covariance of the one class that was taught between two versions of wide memory."""
    scatter = after.degrees * after.covariance() - (before.degrees * before.covariance() if len(before.counts) else 0)
    n = after.counts[-1]
    return ClassStatistics(n, after.means[-1].double(), scatter / (n - 1))


def along_axes(own: ClassStatistics) -> Float[Tensor, "guesses d"]:
    """Mean ± the roots of the covariance: of two features exactly these, of more the best guess there is."""
    n = int(own.count)
    values, vectors = torch.linalg.eigh(own.covariance.double())
    reach = (values[1 - n :].clamp(min=0) * (n - 1) / 2).sqrt() * vectors[:, 1 - n :]  # (d, n − 1)
    return torch.cat([own.mean + reach.T, own.mean - reach.T])
