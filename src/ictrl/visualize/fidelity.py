"""How real a learner's drawings look, and what they show, in numbers.

Three sets of images are compared with the same training images:

- *test images*: real ones, so that what they reach is the best to be expected, the floor or the ceiling of a measure;
- *reconstructions* of these very test images: perfect ones would reach the same;
- *samples* drawn from memory, as many as training images.

A Fréchet distance estimated from few images is too large, by an amount that depends on their number and on the judge.
Where there are fewer test images than samples, the distance of as many samples is given too: that one stands beside the
floor. Precision, recall and copies are always of equally many images of each set. A class is measured by itself only if
it has enough images; which class its images are taken for is told of any number.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ictrl.data import Task
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import Draws, ask
from ictrl.shapes import Float, UInt8
from ictrl.theory.copies import Copies, copies
from ictrl.theory.manifolds import NEIGHBOURS, Manifold, precision_recall
from ictrl.theory.metrics import frechet_distance, inception_score
from ictrl.visualize.judges import Inception, Judge
from ictrl.visualize.real_images import CHOICE, SETS_PER_CLASS, RealImages

ENOUGH = 200  # images of a class, to measure it by itself
SETS = ("test images", "reconstructions", "samples")
SPLITS = 10  # of the Inception score, as it is always computed
AT_ONCE = 1000  # samples drawn in one go


@dataclass(frozen=True)
class Comparison:
    """What was measured of each set of images, of one class or of all."""

    images: dict[str, int]
    """in each set, and of training images"""
    distances: dict[str, float]
    """to the training images; none where there are too few"""
    fewer_samples: float | None
    """distance of only as many samples as there are test images, where there are more"""
    precision: dict[str, float]
    """share that lies among the training images; none where there are too few"""
    recall: dict[str, float]
    """share of the training images that lies among these"""
    recognised: dict[str, float]
    """share that the learner takes for its class"""
    classified: dict[str, float]
    """share that the independent classifier takes for its class, if there is one"""
    copies: Copies | None
    """how near samples come to training images; none where there are too few"""


@dataclass(frozen=True)
class Fidelity:
    """All classes together, and each by itself."""

    distance: str
    """what the distance is called: it depends on the judge"""
    features: int
    """number of features that the judge gives"""
    overall: Comparison
    by_class: dict[int, Comparison]
    inception_scores: dict[str, tuple[float, float]]
    """mean and deviation for each set, if the judge is Inception"""


class _Class(NamedTuple):
    """What is known of the images of one class."""

    features: dict[str, Float[Tensor, "n d"]]
    """of each set, and of training images"""
    fewest: int
    """how many there are of each at least"""
    recognised: dict[str, float]
    classified: dict[str, float]
    sample_distances: Float[Tensor, "n k"]
    test_distances: Float[Tensor, "n k"]


def measure(
    learner: Learner[Any],
    tasks: Sequence[Task],
    judge: Judge,
    images: int,
    enough: int = ENOUGH,
    progress: Callable[[int, int], None] = lambda done, total: None,
    classifier: Learner[Any] | None = None,
) -> Fidelity:
    """Compare what a learner draws with so many training images over all classes, or as many as there are.

    `progress` is told how many sets of images have been looked at, and of how many.
    """
    return measure_each([learner], tasks, judge, images, enough, progress, classifier)[0]


def measure_each(
    learners: Sequence[Learner[Any]],
    tasks: Sequence[Task],
    judge: Judge,
    images: int,
    enough: int = ENOUGH,
    progress: Callable[[int, int], None] = lambda done, total: None,
    classifier: Learner[Any] | None = None,
) -> list[Fidelity]:
    """Several learners of the same data, each by the classes that it knows; real images are looked at once."""
    for learner in learners:
        ask(learner, Draws, "draw")
    known = [learner.classes_.tolist() for learner in learners]
    labels = list(dict.fromkeys(label for some in known for label in some))
    drawn_sets = len(SETS) - 1
    steps, total = count(1), SETS_PER_CLASS * len(labels) + drawn_sets * sum(map(len, known))

    def told() -> None:
        progress(next(steps), total)

    real = RealImages(tasks, labels, judge, images, learners[0].device, told)
    return [measure_against(real, learner, enough, told, classifier) for learner in learners]


def measure_against(
    real: RealImages,
    learner: Learner[Any],
    enough: int = ENOUGH,
    told: Callable[[], None] = lambda: None,
    classifier: Learner[Any] | None = None,
) -> Fidelity:
    """Compare what a learner draws with real images that have been looked at; `told` after each set of its own."""
    ask(learner, Draws, "draw")
    labels: list[int] = learner.classes_.tolist()
    classes = {label: _seen(real, learner, label, labels, told, classifier) for label in labels}
    every = {name: torch.cat([seen.features[name] for seen in classes.values()]) for name in ("training", *SETS)}
    return Fidelity(
        distance=real.judge.distance,
        features=every["training"].shape[1],
        overall=_compare(real, [*classes.values()], least=2),
        by_class={label: _compare(real, [seen], enough) for label, seen in classes.items()},
        inception_scores=_scores(real.judge, every) if isinstance(real.judge, Inception) else {},
    )


def _seen(
    real: RealImages,
    learner: Learner[Any],
    label: int,
    labels: list[int],
    told: Callable[[], None],
    classifier: Learner[Any] | None,
) -> _Class:
    artist = ask(learner, Draws, "draw")
    test, fewest = real.test_images[label], real.fewest(label)
    samples = torch.cat([artist.sample(label, n) for n in _portions(len(real.training[label]))])
    sets = dict(zip(SETS, (test, artist.reconstruct(test), samples)))
    features = {"training": real.training[label], "test images": real.test[label]}
    for name in SETS[1:]:
        features[name] = real.look(sets[name])
        told()
    recognised, classified = (
        {name: _share(some, X, label) for name, X in sets.items()} if some is not None else {}
        for some in (learner, classifier)
    )
    return _Class(
        features,
        fewest,
        recognised,
        classified,
        real.to_training(samples[:fewest], labels),
        real.test_to_training(labels)[label][:fewest],
    )


def _portions(n: int) -> list[int]:
    return [min(AT_ONCE, n - done) for done in range(0, n, AT_ONCE)]


def _share(learner: Learner[Any], X: UInt8[Tensor, "n c h w"], label: int) -> float:
    """Of the images that are taken for their class."""
    right = [learner.predict(part).cpu() == label for part in X.split(AT_ONCE)]
    return float(torch.cat(right).double().mean())


def _compare(real: RealImages, classes: list[_Class], least: int) -> Comparison:
    """Some classes together, if there are enough images for what needs many."""
    names = ("training", *SETS)
    every = {name: torch.cat([seen.features[name] for seen in classes]) for name in names}
    equal = {name: torch.cat([seen.features[name][: seen.fewest] for seen in classes]) for name in names}
    images = {name: len(features) for name, features in every.items()}
    fewest = len(equal["training"])
    distances: dict[str, float] = {}
    fewer_samples: float | None = None
    shares: dict[str, tuple[float, float]] = {}
    near: Copies | None = None
    if fewest >= least:
        drawn = torch.cat([seen.sample_distances for seen in classes])
        near = copies(drawn, torch.cat([seen.test_distances for seen in classes]))
        distances = {name: frechet_distance(every["training"], every[name]) for name in SETS}
        if images["samples"] > images["test images"]:
            fewer_samples = frechet_distance(every["training"], equal["samples"])
        if fewest > NEIGHBOURS:
            manifolds = {name: Manifold.of(features.to(real.device)) for name, features in equal.items()}
            shares = {name: precision_recall(manifolds["training"], manifolds[name]) for name in SETS}
    return Comparison(
        images=images,
        distances=distances,
        fewer_samples=fewer_samples,
        precision={name: precision for name, (precision, _) in shares.items()},
        recall={name: recall for name, (_, recall) in shares.items()},
        recognised=_mean([seen.recognised for seen in classes], [seen.features for seen in classes]),
        classified=_mean([seen.classified for seen in classes], [seen.features for seen in classes]),
        copies=near,
    )


def _mean(shares: list[dict[str, float]], features: list[dict[str, Float[Tensor, "n d"]]]) -> dict[str, float]:
    """Over all images of each set."""
    found = {}
    for name in shares[0]:
        counts = [len(some[name]) for some in features]
        found[name] = sum(share[name] * n for share, n in zip(shares, counts)) / sum(counts)
    return found


def _scores(judge: Inception, sets: dict[str, Float[Tensor, "n d"]]) -> dict[str, tuple[float, float]]:
    """Inception scores, of images in random order: here they come class by class."""
    found = {}
    for name in SETS:
        features = sets[name]
        order = torch.randperm(len(features), generator=torch.Generator().manual_seed(CHOICE))
        probabilities = judge.probabilities(features[order].to(judge.fc.weight.device))
        found[name] = inception_score(probabilities, min(SPLITS, len(features)))
    return found
