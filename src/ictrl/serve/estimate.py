"""How well each class is told, estimated from memory alone: the pictures that it was measured on are gone.

A learner that draws replays pictures of each class and looks which class it takes them for. That is no accuracy on real
pictures: it says how what memory holds of a class lies to the others, and so what a new class takes away from it. The
decoder learns too, so part of a change is how well the pictures are drawn.

Of a learner that keeps wide features and cannot draw, nothing is estimated. Features drawn from a class's mean and the
covariance of all are nearly all recognised, whatever the class: in so many dimensions the covariance fits the images
that it was learned from, and even a class that was taught twice, under two names, seemed well told from itself.
"""

from collections.abc import Mapping

import torch

from ictrl.memory.store import Memory
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import Draws, DrawsFeatures
from ictrl.methods.storage import TO_PREDICT

MOST, EACH, LEAST = 4000, 100, 10  # pictures in all, of a class at most, of a class at least

Accuracies = Mapping[int, float]
"""by label"""


def accuracy_from_memory(learner: Learner[object]) -> tuple[Accuracies, str]:
    """The share that is recognised of what memory has of each class, and what that is, in words."""
    if not learner.labels or learner.parts == TO_PREDICT:
        return {}, NOT_ESTIMATED
    if isinstance(learner, Draws) and isinstance(learner, DrawsFeatures):
        each = max(LEAST, min(EACH, MOST // len(learner.labels)))
        return {label: _replayed(learner, label, each) for label in sorted(learner.labels)}, REPLAYED
    return {}, NOT_ESTIMATED


REPLAYED = (
    "share of up to 100 pictures per class, replayed from memory, that are recognised: an estimate, for the real "
    "pictures are gone"
)
NOT_ESTIMATED = (
    "nothing: this method keeps nothing that a class's accuracy could be estimated from; what was measured while each "
    "class was taught stands in GET /classes"
)


def _replayed(learner: "Learner[object]", label: int, each: int) -> float:
    """Of pictures that are drawn with random numbers of their own, so that the learner stays as it is."""
    assert isinstance(learner, DrawsFeatures)
    gaussians = Memory({0: learner.recall(learner.class_names[label] if learner._by_name else label)}).gaussians()
    generator = torch.Generator(gaussians.means.device).manual_seed(0)
    Z, _ = gaussians.sample(-(-each // len(gaussians.means)), generator)
    images = learner.decode(Z)
    return float((learner.scores(images).argmax(1).cpu() == sorted(learner.labels).index(label)).double().mean())
