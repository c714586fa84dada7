"""wide: an encoder that learns once, read in all its width (linear discriminant analysis on stage activations).

In the first task the encoder becomes *a trunk worth freezing* (`training/trunk.py`), and stays as it is from then on.
Every class is kept as a mean of wide features, all classes together as one covariance (`memory/wide_memory.py`):
nothing drifts, nothing is forgotten, and memory says what all old images would say. Scores are logarithms of
probabilities, calibrated by images that are held out while a task is learned (`memory/calibration.py`); by what these
looked like, strangers are told from images of known classes.

It may also learn on in later tasks, held by distillation (`training/distillation.py`), while memory follows it. That is
off by default.

Settings: ours, from measurements on validation images. The defaults are for small pictures of one's own; recipes say
what CIFAR and MNIST want, whose first tasks have thousands of images.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ictrl.config import AugmentationConfig, MethodConfig, Recipe, used_later
from ictrl.memory.compensation import fit_movement
from ictrl.memory.few_images import check_enough
from ictrl.memory.wide_memory import WideMemory, nothing_yet
from ictrl.methods.base import Kept
from ictrl.methods.forgetting import IN_THE_FIRST_WEIGHTS, IN_THE_WEIGHTS, POOLED, ForgettingLearner
from ictrl.methods.inputs import Images, like, seeded
from ictrl.methods.threads import reads
from ictrl.methods.wide_reading import AT_ONCE, CalibrationConfig, ReadingConfig, WideReader
from ictrl.nets.families import own_encoder_or_new
from ictrl.nets.layers import exact_float32
from ictrl.nets.wrappers import check_backbone, precision_of
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.augmentation import ROTATIONS
from ictrl.training.distillation import WideDistillation
from ictrl.training.loop import TaskHooks
from ictrl.training.state import TrainingState
from ictrl.training.trunk import LearningOnConfig, TrunkStageConfig, train_trunk


def default_trunk() -> TrunkStageConfig:
    """For some dozens to hundreds of small pictures per class, as in the recipe `pictures`."""
    views = AugmentationConfig(crop=0.6, jitter=0.4, grey=0.15)
    return TrunkStageConfig(100, 64, learning_rate=2e-3, schedule="cosine", warmup=5, ema=0.0, augmentation=views)


@dataclass(frozen=True)
class WideConfig(MethodConfig):
    """A trunk trained on the first task, wide features, LDA."""

    name: ClassVar[str] = "wide"

    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    """of the convolutions; auto: bfloat16 on a GPU, float32 elsewhere"""
    trunk: TrunkStageConfig = field(default_factory=default_trunk)
    """the first task"""
    learning_on: LearningOnConfig = used_later(LearningOnConfig())
    """the later ones, in which the encoder learns nothing by default"""
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    calibration: CalibrationConfig = field(default_factory=CalibrationConfig)


class WideLearner(ForgettingLearner[Kept]):
    """Classifies by wide memory: what `wide` and those who do more share."""

    keeps_statistics = True
    reader: WideReader

    @property
    @abstractmethod
    def wide_memory(self) -> WideMemory:
        """What is kept of every class to classify by."""

    @property
    @abstractmethod
    def own_encoder(self) -> nn.Module | None:
        """The encoder that was given, if one was."""

    @reads
    def wide_features(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n D"]:
        """φ(x) of images under the encoder, on the learner's device."""
        return self.reader.features(X, self.wide_memory)

    def read_bytes(self, n: int) -> int:
        """How many bytes `read` gives for so many images."""
        return n * self.wide_memory.means.shape[1] * self.wide_memory.means.element_size()

    @reads
    def read(self, images: Images) -> Float[Tensor, "n D"]:
        """φ(x) of images of any kind that `predict` takes, for `predict_read`."""
        self._check_learned("read")
        return self.wide_features(self._checked(images))

    @reads
    def predict_read(self, phi: Float[Tensor, "n D"]) -> Int[Tensor, " n"]:
        """What `predict` says of images that were read before; of use as long as the encoder stands still."""
        self._check_learned("predict_read")
        with exact_float32():
            classifier = self.reader.classifier_of(self.wide_memory)
            rows = torch.cat([classifier.scores(part).argmax(1) for part in phi.split(AT_ONCE)])
        return torch.tensor(self.labels, device=self.device)[rows]

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        return self.reader.scores(self.wide_memory, X)[:, torch.tensor(self.labels, device=self.device).argsort()]

    @reads
    def predict_proba(self, images: Images) -> Images:
        """The probability of each of `classes_` for each image: (n, classes), rows that sum to 1.

        Calibrated by held-out images. Those of the first task have trained the encoder, so that after it alone
        probabilities are too sure; those of later tasks are new to it, unless it learns on.
        """
        return like(self._scored(images, "predict_proba").exp(), images)

    @reads
    def temperature(self) -> float:
        """What scores were divided by, so that probabilities are neither too sure nor too careful."""
        return self.wide_memory.calibration.temperature

    @reads
    def strangeness(self, images: Images) -> Images:
        """How little each image looks like any class, from 0 to 2."""
        return like(self._strangeness(images, "strangeness"), images)

    @reads
    def unknown(self, images: Images, false_alarms: float = 0.05) -> Images:
        """Whether each image is of no known class; of those that are of one, about so many are called unknown too."""
        strangeness = self._strangeness(images, "unknown")
        return like(self.wide_memory.calibration.unknown(strangeness, float(false_alarms)), images)

    def _strangeness(self, images: Any, caller: str) -> Float[Tensor, " n"]:
        self._check_learned(caller)
        return self.reader.strangeness(self.wide_memory, self._checked(images))

    def moves(self) -> bool:
        """Whether the encoder learns on after the first task."""
        return False

    @reads
    def class_distances(self) -> Float[Tensor, "k k"]:
        """Between the means of classes, labels ascending, in the measure of the covariance of all."""
        self._check_learned("class_distances")
        order = torch.tensor(self.labels, device=self.device).argsort()
        return self.reader.classifier_of(self.wide_memory).distances()[order][:, order]

    def what_remains(self) -> list[str]:
        shared = "its part in what held-out images of its task said of all its classes, if there were several"
        return [IN_THE_WEIGHTS if self.moves() else IN_THE_FIRST_WEIGHTS, POOLED, shared]

    def remembering(self, recipe: Recipe | None = None) -> "Wide":
        """A learner with this one's encoder as it is now, which only remembers: for the floors.

        With a recipe of its own it may read the encoder otherwise.
        """
        return _Remembering.of(self, recipe or self.recipe)


class Wide(WideLearner[WideMemory]):
    """Trains its encoder on the first task; from then on it only remembers, unless its recipe lets it learn on.

    `encoder` may be a network of your own: a module that turns images (n, channels, side, side) in [−1, 1] into
    features (n, d), and whose method `stages` gives the activations on the way, a list of (n, channels, side, side).
    """

    settings_type = WideConfig
    shares_batches = True
    keeps = "class means, one covariance"
    misfit = "One saved with an encoder of your own needs it again: load(path, encoder=…)."

    def __init__(
        self,
        recipe: Recipe | None = None,
        *,
        seed: int | None = None,
        device: str | torch.device | None = None,
        encoder: nn.Module | None = None,
    ) -> None:
        self._own_encoder = encoder
        super().__init__(recipe, seed=seed, device=device)

    @property
    def wide_memory(self) -> WideMemory:
        return self.kept

    @property
    def own_encoder(self) -> nn.Module | None:
        return self._own_encoder

    def build(self, initial: torch.Generator) -> TrainingState:
        network = self.recipe.method.network
        shape = network.channels, network.image_size, network.image_size
        encoder = own_encoder_or_new(self._own_encoder, network, initial).to(self.device).eval()
        if self._own_encoder is not None:
            check_backbone("encoder", encoder, torch.zeros(2, *shape, device=self.device), (2, network.feature_dim))
        self._precision = precision_of(self.settings.precision, self.device)
        self.reader = WideReader(encoder, shape, self.settings.reading, self._precision)
        return TrainingState({"encoder": encoder}, {}, seeded(self.device, self.seed))

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> WideMemory:
        check_enough(y)  # before anything is trained
        memory = self._trained(X, torch.searchsorted(y.unique(), y), hooks)
        return self.reader.remembered(memory, X, y, self.settings.calibration.held_out, self.seed)

    def moves(self) -> bool:
        return self.settings.learning_on.epochs > 0

    def _trained(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"], hooks: TaskHooks) -> WideMemory:
        """Train the encoder, if this task does; returns the memory of before, moved along with it."""
        memory, encoder, d = self.kept, self.reader.encoder, self.recipe.method.network.feature_dim
        trunk, later, generator = self.settings.trunk, self.settings.learning_on, self._state.generator
        if not self.labels:
            train_trunk(encoder, d, X, rows, trunk, self._precision, generator, hooks)
        elif self.moves():
            # rotated, the new images show more of where features have gone; they themselves come first
            witnesses = torch.cat([X.rot90(quarters, (2, 3)) for quarters in range(ROTATIONS)])
            before, read = self.wide_features(witnesses), partial(self.reader.read, memory)
            factor = self.reader.classifier_of(memory).factor
            held = WideDistillation(encoder, read, factor, later.distillation, self._precision)
            train_trunk(encoder, d, X, rows, later, self._precision, generator, hooks, held)
            movement = fit_movement(before, self.wide_features(witnesses), later.compensation_ridge, judged=len(X))
            return memory.moved(movement, self.settings.reading.bits)
        return memory

    def kept_tensors(self) -> dict[str, Tensor]:
        return self.kept.tensors() if self.labels else {}

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> WideMemory:
        return self.reader.kept_from(len(labels), tensors) if labels else nothing_yet(self.device)


class _Remembering(Wide):
    @classmethod
    def of(cls, learner: WideLearner[Any], recipe: Recipe) -> "_Remembering":
        copy = cls(recipe, seed=learner.seed, device=learner.device, encoder=learner.own_encoder)
        copy.reader.encoder.load_state_dict(learner.reader.encoder.state_dict())
        return copy

    def moves(self) -> bool:
        return False

    def _trained(self, X: Tensor, rows: Tensor, hooks: TaskHooks) -> WideMemory:
        return self.kept
