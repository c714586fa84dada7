"""Capabilities: what some learners can do besides learning and predicting.

Evaluation, report and command line ask for them (`isinstance(learner, Draws)`, `ask(learner, Draws, "draw")`) and do
without where a method lacks them; no one asks which method it is.
"""

from typing import Any, Protocol, TypeVar, runtime_checkable

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ictrl.errors import InputError
from ictrl.memory.classifiers import Classifier
from ictrl.memory.store import ClassMemory, Memory
from ictrl.methods.base import LEARNERS, Learner
from ictrl.methods.inputs import Images, seeded
from ictrl.shapes import Float, Int, UInt8
from ictrl.theory.objectives import closed_loop
from ictrl.theory.statistics import Moments


@runtime_checkable
class Draws(Protocol):
    """Draws images: of a class from memory, and of images that it is shown."""

    def sample(self, label: int | str, n: int, direction: int | None = None) -> UInt8[Tensor, "n c h w"]: ...

    def reconstruct(self, images: Images) -> Images: ...


@runtime_checkable
class DrawsFeatures(Protocol):
    """Draws the image of any point of its feature space, and remembers where each class lies there."""

    def recall(self, label: int | str) -> ClassMemory: ...

    def features(self, images: Any) -> Float[Tensor, "n d"]: ...

    def decode(self, Z: Float[Tensor, "n d"]) -> UInt8[Tensor, "n c h w"]: ...


@runtime_checkable
class ShapesFeatures(Protocol):
    """Says which point of its feature space an image's feature can be; without that, it is any of the unit sphere."""

    def within_reach(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]: ...


@runtime_checkable
class Replays(Protocol):
    """Replays old classes from memory, and can say how faithfully."""

    def replay_recognised(self) -> float: ...


@runtime_checkable
class KeepsMoments(Protocol):
    """Keeps statistics of every class in a feature space, and classifies by them."""

    def class_memory(self) -> Memory: ...

    def features(self, images: Any) -> Float[Tensor, "n d"]: ...

    def views(self, images: Any) -> Float[Tensor, "views n d"]: ...

    def classifier_of(self, moments: Moments) -> Classifier: ...


@runtime_checkable
class KeepsStatistics(Protocol):
    """Keeps statistics of every class, and so refuses classes of few images, whose features these would give away."""

    keeps_statistics: bool


@runtime_checkable
class Remembers(Protocol):
    """Can go on with its encoder as it is, only remembering new classes: what the floors are measured by.

    One whose encoder moves in later tasks is shown all images again by it for the *reencoded* protocol.
    """

    def remembering(self) -> Learner[Any]: ...

    def moves(self) -> bool: ...


@runtime_checkable
class StandsStill(Protocol):
    """Predicts from features that later tasks leave as they are, unless it `moves`: no image has to be read twice."""

    def moves(self) -> bool: ...

    def read_bytes(self, n: int) -> int: ...

    def read(self, images: Images) -> Float[Tensor, "n D"]: ...

    def predict_read(self, phi: Float[Tensor, "n D"]) -> Int[Tensor, " n"]: ...


@runtime_checkable
class Reviews(Protocol):
    """Learns a class again from unlabelled images."""

    def review(self, images: Any, **how: Any) -> Any: ...


@runtime_checkable
class Probabilities(Protocol):
    """Says how sure it is of each class: calibrated probabilities, from scores divided by a temperature."""

    def predict_proba(self, images: Images) -> Images: ...

    def temperature(self) -> float: ...


@runtime_checkable
class TellsUnknown(Protocol):
    """Tells images of no known class, at a stated rate of false alarms."""

    def strangeness(self, images: Images) -> Images: ...

    def unknown(self, images: Images, false_alarms: float = 0.05) -> Images: ...


@runtime_checkable
class Forgets(Protocol):
    """Takes a class out of what it keeps, and says what may remain of it elsewhere."""

    def forget(self, label: int) -> Any: ...

    def what_remains(self) -> list[str]: ...


@runtime_checkable
class ComparesClasses(Protocol):
    """Says how far apart its classes lie, labels ascending, in a measure of its own."""

    def class_distances(self) -> Float[Tensor, "k k"]: ...


Capability = TypeVar("Capability")
Drawing = TypeVar("Drawing", bound=Learner[Any])


def ask(learner: object, capability: type[Capability], purpose: str) -> Capability:
    """The learner, if it has a capability; otherwise a line that says what its method cannot do, and which can."""
    if isinstance(learner, capability):
        return learner
    name = learner.recipe.method.name if isinstance(learner, Learner) else type(learner).__name__
    able = sorted(other for other, kind in LEARNERS.items() if issubclass(kind, capability))
    raise InputError(f"Expected a method that can {purpose} ({', '.join(able)}) but {name} cannot.")


def with_seed(learner: Drawing, seed: int) -> Drawing:
    """The learner as it is now, with random numbers of its own to draw by: `sample` gives the same for the same seed.

    What the learner itself draws next is not changed by it, and other threads may draw meanwhile.
    """
    seen = object.__new__(type(learner))
    seen.__dict__ = {**vars(learner), "_display_generator": seeded(learner.device, seed)}
    return seen


def check_shares(learner: Learner[Any]) -> None:
    """Refuse a learner that several processes, each with a share of every batch, could not teach as one does.

    A method says so itself: all that its losses are made of must add up over processes, and what it keeps too. Networks
    of one's own know nothing of other processes, which matters where they have BatchNorm.
    """
    if not learner.shares_batches:
        able = ", ".join(sorted(name for name, kind in LEARNERS.items() if kind.shares_batches))
        raise InputError(
            f"Expected a method that several processes can learn together ({able}) but got "
            f"{learner.recipe.method.name}: run it in one process, without torchrun."
        )
    if any(_has_batchnorm(network) for network in learner._state.networks.values() if not _ours(network)):
        raise InputError(
            "Expected networks without BatchNorm, whose statistics would be those of one process's images, but got "
            "some of your own with it: normalise otherwise, such as by nn.GroupNorm, or learn in one process."
        )
    if vars(learner).get("_objective", closed_loop) is not closed_loop:
        raise InputError(
            "Expected the objective of ictrl, whose terms add up over processes, but got one of your own: learn in one "
            "process."
        )


def _ours(network: nn.Module) -> bool:
    return type(network).__module__.startswith("ictrl.")


def _has_batchnorm(network: nn.Module) -> bool:
    return any(isinstance(module, _BatchNorm) for module in network.modules())
