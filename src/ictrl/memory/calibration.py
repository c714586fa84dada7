"""Calibration: what a few held-out images say about scores before they are forgotten.

While a task is learned, some of its images are held out. A memory of all the others scores them against every class
known by then, and this is kept:

    T          the temperature for which softmax(scores / T) gives their classes the largest likelihood
    groups     how strange they look, from the least to the most, as means of groups of at least ten images

From the groups follows the share of known images that look stranger than a given one. Within a task, −log of that
share is interpolated between the groups, and beyond them goes on as a straight line: the tail falls exponentially.
No number is a single image's.

What is measured against few classes says little about many. So only those tasks count at which at least half of the
classes were known that were known at the newest calibration, each by its number of held-out images.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from ictrl.errors import InputError
from ictrl.memory.few_images import LEAST
from ictrl.shapes import Bool, Float, Int

ENOUGH = 2 * LEAST  # held-out images of a task: two groups, the fewest that a line can go through
GROUPS = 32  # of a task, at most
PREFIX = "calibration."  # of names of what is kept


@dataclass(frozen=True)
class Calibration:
    """What the held-out images of each task said, the newest task last."""

    classes: Int[Tensor, " t"]
    """known at each task"""
    images: Int[Tensor, " t"]
    """held out of each task"""
    temperatures: Float[Tensor, " t"]
    groups: Float[Tensor, " all"]
    """mean strangeness of each group of held-out images, ascending within a task, task after task"""

    @property
    def temperature(self) -> float:
        """What scores are divided by: the geometric mean over the tasks that count; 1 if there is none."""
        if not len(self.images):
            return 1.0
        weights = self.images.double() / self.images.sum()
        return float((weights * self.temperatures.double().log()).sum().exp())

    def with_task(
        self, scores: Float[Tensor, "n k"], rows: Int[Tensor, " n"], strangeness: Float[Tensor, " n"]
    ) -> "Calibration":
        """With what held-out images say: their scores of every class, the rows of their own, how strange they look."""
        n, k = scores.shape
        counts = 2 * self.classes >= k
        groups = [group for group, stays in zip(self._by_task(), counts.tolist()) if stays]
        before = (
            self.classes[counts],
            self.images[counts],
            self.temperatures[counts],
            torch.cat([self.groups[:0], *groups]),
        )
        now = [k], [n], [fitted_temperature(scores, rows)], group_means(strangeness).tolist()
        whole = (torch.cat([old, old.new_tensor(new)]) for old, new in zip(before, now))
        return Calibration(*(part.to(scores.device) for part in whole))

    def without(self, place: int) -> "Calibration":
        """Less the class in that place of the order of learning.

        What its task said goes with the last class of that task. Until then it is a mean over several classes, of which
        one can not be taken out again.
        """
        among = self.classes > place  # known when each task was calibrated: the first such task is its own
        own = int((~among).sum())
        before = int(self.classes[own - 1]) if own else 0
        stay = torch.ones_like(among)
        if among.any() and int(self.classes[own]) - before == 1:
            stay[own] = False
        groups = [group for group, stays in zip(self._by_task(), stay.tolist()) if stays]
        return Calibration(
            (self.classes - among.long())[stay],
            self.images[stay],
            self.temperatures[stay],
            torch.cat([self.groups[:0], *groups]),
        )

    def share_stranger(self, strangeness: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """The share of images of known classes that look stranger than each of these."""
        if not len(self.images):
            raise InputError(
                f"Expected a learner that held out {ENOUGH} images of a task of two classes or more but got one that "
                "did not: learn more images per class, or more classes at once, or raise calibration.held_out."
            )
        share = torch.zeros_like(strangeness, dtype=torch.float64)
        for means, n in zip(self._by_task(), self.images.tolist()):
            share += n * _tail(strangeness.double(), means.double(), _depths(n).to(means.device))
        return share / self.images.sum()

    def unknown(self, strangeness: Float[Tensor, " n"], false_alarms: float) -> Bool[Tensor, " n"]:
        """Those so strange that of the images of known classes no more than a share of `false_alarms` would be."""
        if not 0 < false_alarms < 1:
            raise InputError(f"Expected a share of false alarms above 0 and below 1 but got {false_alarms}.")
        return self.share_stranger(strangeness) < false_alarms

    def tensors(self) -> dict[str, Tensor]:
        """All that is kept, by name; nothing where nothing was held out."""
        return {PREFIX + name: tensor for name, tensor in vars(self).items()} if len(self.images) else {}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "Calibration":
        """The inverse, from all that is kept; KeyError or ValueError if the parts do not fit."""
        if not any(name.startswith(PREFIX) for name in tensors):
            return NOT_CALIBRATED
        found = cls(**{name: tensors[PREFIX + name] for name in vars(NOT_CALIBRATED)})
        tasks, groups = len(found.images), sum(_group_count(n) for n in found.images.tolist())
        if (len(found.classes), len(found.temperatures), len(found.groups)) != (tasks, tasks, groups):
            raise ValueError(f"the calibration has {len(found.groups)} groups of {found.images.tolist()} images")
        return found

    def _by_task(self) -> tuple[Float[Tensor, " groups"], ...]:
        return self.groups.split([_group_count(n) for n in self.images.tolist()])


NONE = torch.zeros(0)
NOT_CALIBRATED = Calibration(NONE.long(), NONE.long(), NONE, NONE)
"""What no held-out image said."""


def held_out(y: Int[Tensor, " n"], share: float, generator: torch.Generator) -> Bool[Tensor, " n"]:
    """Which images to hold out: this share of each class, at least one, but never so many that fewer than ten remain.

    None at all, if that makes fewer than twenty: too few to choose a temperature by. The generator is one of the CPU.
    """
    chosen = torch.zeros(len(y), dtype=torch.bool)
    labels = y.cpu()
    for label in labels.unique():
        places = (labels == label).nonzero()[:, 0]
        n = len(places)
        few = max(0, min(max(1, round(share * n)), n - LEAST)) if share else 0
        chosen[places[torch.randperm(n, generator=generator)[:few]]] = True
    return (chosen if int(chosen.sum()) >= ENOUGH else torch.zeros_like(chosen)).to(y.device)


def fitted_temperature(scores: Float[Tensor, "n k"], rows: Int[Tensor, " n"]) -> float:
    """T, for which −Σ log softmax(scores / T) of the images' own classes + ½ log² T is smallest.

    T = 1 is right if classes are Gaussian with the very covariance that is kept, and what one would expect before any
    image is seen: log T has a standard normal prior. So images that are all right, which any small T explains, change
    nothing. Found by a coarse grid over log T, and golden sections beside the best of it.

    >>> scores = torch.tensor([[2.0, 0.0]]).expand(40, 2)  # sure, and wrong once in four times
    >>> round(fitted_temperature(scores, (torch.arange(40) % 4 == 0).long()), 2)
    1.72
    """
    exact = scores.double()

    def loss(log_temperature: float) -> float:
        p = (exact / math.exp(log_temperature)).log_softmax(1)
        return log_temperature**2 / 2 - float(p.gather(1, rows[:, None]).sum())

    best = min((step / 10 for step in range(-50, 51)), key=loss)  # T from 1/150 to 150
    low, high, golden = best - 0.1, best + 0.1, (5**0.5 - 1) / 2
    while high - low > 1e-5:
        one, other = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, other) if loss(one) < loss(other) else (one, high)
    return math.exp((low + high) / 2)


def group_means(strangeness: Float[Tensor, " n"]) -> Float[Tensor, " groups"]:
    """Means of groups of at least ten images that look about as strange, ascending."""
    ordered = strangeness.sort().values.double()
    return torch.stack([group.mean() for group in ordered.tensor_split(_group_count(len(ordered)))]).float()


def _group_count(n: int) -> int:
    return min(GROUPS, n // LEAST)


def _depths(n: int) -> Float[Tensor, " groups"]:
    """Of each group, the mean of −log u over the shares u of images that look at least as strange as one of it.

    That is where the mean of a group lies if the tail falls exponentially. From share a to b it is
    (F(b) − F(a)) / (b − a) with F(u) = u − u log u.
    """
    sizes = [len(part) for part in torch.arange(n).tensor_split(_group_count(n))]
    below = torch.tensor([0, *sizes], dtype=torch.float64).cumsum(0)
    u = 1 - below / n  # from 1 to 0
    F = u - torch.xlogy(u, u)
    return torch.stack([(F[i] - F[j]) / (u[i] - u[j]) for i, j in pairwise(range(len(u)))])


def _tail(
    x: Float[Tensor, " n"], means: Float[Tensor, " groups"], depths: Float[Tensor, " groups"]
) -> Float[Tensor, " n"]:
    """exp(−depth) at x, by lines between the means, of which the first and the last go on."""
    right = torch.searchsorted(means, x).clamp(1, len(means) - 1)
    left = right - 1
    width = (means[right] - means[left]).clamp(min=torch.finfo(torch.float64).tiny)
    depth = depths[left] + (x - means[left]) / width * (depths[right] - depths[left])
    return (-depth.clamp(min=0)).exp()
