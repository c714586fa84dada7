"""How real a learner's drawings look: Fréchet distances in the features of a judge.

Three sets of images are compared with the same training images, equally many of each class in each set:

- *test images*: real ones, so that their distance is the least to be expected, the floor of the measure;
- *reconstructions* of these very test images: perfect ones would reach the floor;
- *samples* drawn from memory.

A Fréchet distance estimated from few images is too large, by an amount that depends on their number and on the judge.
So every distance stands beside a floor from equally many images, and a class is measured by itself only if it has
enough of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor

from ictrl.data import Task
from ictrl.data.streams import choose
from ictrl.errors import InputError
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import Draws, ask
from ictrl.methods.inputs import whole_number
from ictrl.shapes import Float, UInt8
from ictrl.theory.metrics import frechet_distance, inception_score
from ictrl.visualize.judges import Inception, Judge, look

ENOUGH = 200  # images of a class, to measure it by itself
SETS = ("test images", "reconstructions", "samples")
CHOICE = 20260102  # seed of which images are chosen, where there are more than needed
SPLITS = 10  # of the Inception score, as it is always computed


@dataclass(frozen=True)
class Comparison:
    """Distances of each set to the training images."""

    images: int
    """number of images in each set, and of training images"""
    distances: dict[str, float]


@dataclass(frozen=True)
class Fidelity:
    """Distances over all classes and by class."""

    distance: str
    """what the distance is called: it depends on the judge"""
    features: int
    """number of features that the judge gives"""
    overall: Comparison
    by_class: dict[int, Comparison]
    """of the classes that have enough images"""
    inception_scores: dict[str, tuple[float, float]]
    """mean and deviation for each set, if the judge is Inception"""


def measure(
    learner: Learner[Any],
    tasks: Sequence[Task],
    judge: Judge,
    images: int,
    enough: int = ENOUGH,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Fidelity:
    """Compare what the learner draws with so many training images over all classes, or as many as there are.

    `progress` is told how many sets of images have been looked at, and of how many.
    """
    labels = learner.classes_.tolist()
    images = whole_number(images, "images", least=max(2, len(labels)))
    given = {label: _choose(tasks, label, images // len(labels)) for label in labels}
    artist = ask(learner, Draws, "draw")
    drawn = {label: (X, artist.reconstruct(X), artist.sample(label, len(X))) for label, (_, X) in given.items()}
    steps, total = count(1), len(labels) * (1 + len(SETS))

    def looked(X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        features = look(judge, X, learner.device)
        progress(next(steps), total)
        return features

    reference = {label: looked(X) for label, (X, _) in given.items()}
    seen = {name: {label: looked(sets[i]) for label, sets in drawn.items()} for i, name in enumerate(SETS)}
    every = {name: torch.cat(list(features.values())) for name, features in seen.items()}
    of_class = {
        label: {name: seen[name][label] for name in SETS} for label in labels if len(reference[label]) >= enough
    }
    return Fidelity(
        distance=judge.distance,
        features=every[SETS[0]].shape[1],
        overall=_compare(torch.cat(list(reference.values())), every),
        by_class={label: _compare(reference[label], sets) for label, sets in of_class.items()},
        inception_scores=_scores(judge, every) if isinstance(judge, Inception) else {},
    )


def _choose(tasks: Sequence[Task], label: int, most: int) -> tuple[UInt8[Tensor, "n c h w"], UInt8[Tensor, "n c h w"]]:
    """Equally many training and test images of a class."""
    task = next((task for task in tasks if label in task.classes), None)
    if task is None:
        raise InputError(f"Expected data with class {label}, which was learned, but it has no such class.")
    n = min(most, int((task.labels == label).sum()), int((task.test_labels == label).sum()))
    training = task.images[choose(task.labels, label, 1.0, n, CHOICE)]
    return training, task.test_images[choose(task.test_labels, label, 1.0, n, CHOICE)]


def _compare(reference: Float[Tensor, "n d"], sets: dict[str, Float[Tensor, "n d"]]) -> Comparison:
    return Comparison(len(reference), {name: frechet_distance(reference, features) for name, features in sets.items()})


def _scores(judge: Inception, sets: dict[str, Float[Tensor, "n d"]]) -> dict[str, tuple[float, float]]:
    """Inception scores, of images in random order: here they come class by class."""
    n = len(sets[SETS[0]])
    order = torch.randperm(n, generator=torch.Generator().manual_seed(CHOICE))
    return {
        name: inception_score(judge.probabilities(features[order].to(judge.fc.weight.device)), min(SPLITS, n))
        for name, features in sets.items()
    }
