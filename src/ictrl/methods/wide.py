"""wide: an encoder that learns once, read in all its width (linear discriminant analysis on stage activations).

In the first task the encoder becomes *a trunk worth freezing* (`training/trunk.py`), and stays as it is from then on.
Every class is kept as a mean of wide features, all classes together as one covariance (`memory/wide_memory.py`):
nothing drifts, nothing is forgotten, and memory says what all old images would say. Scores are logarithms of
probabilities, calibrated by images that are held out while a task is learned (`memory/calibration.py`); by what these
looked like, strangers are told from images of known classes.

Settings: ours, from measurements on validation images of CIFAR-10 and CIFAR-100.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int, UInt8
from numpy.typing import NDArray
from torch import Tensor, nn

from ictrl.config import AugmentationConfig, MethodConfig, Recipe
from ictrl.memory.wide_memory import WideMemory, nothing_yet
from ictrl.methods.base import Learner
from ictrl.methods.inputs import Images, like
from ictrl.methods.wide_reading import CalibrationConfig, ReadingConfig, WideReader
from ictrl.nets.families import encoder_of
from ictrl.nets.wrappers import check_backbone, precision_of
from ictrl.training.loop import TaskHooks
from ictrl.training.state import TrainingState
from ictrl.training.trunk import TrunkStageConfig, train_trunk


def default_trunk() -> TrunkStageConfig:
    views = AugmentationConfig(crop=0.45)
    return TrunkStageConfig(200, 500, learning_rate=2e-3, schedule="cosine", warmup=50, ema=0.0, augmentation=views)


@dataclass(frozen=True)
class WideConfig(MethodConfig):
    """A trunk trained on the first task, wide features, LDA."""

    name: ClassVar[str] = "wide"

    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    """of the convolutions; auto: bfloat16 on a GPU, float32 elsewhere"""
    trunk: TrunkStageConfig = field(default_factory=default_trunk)
    """the first task, the only one that trains"""
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    calibration: CalibrationConfig = field(default_factory=CalibrationConfig)


class Wide(Learner[WideMemory]):
    """Trains its encoder on the first task; from then on it only remembers.

    `encoder` may be a network of your own: a module that turns images (n, channels, side, side) in [−1, 1] into
    features (n, d), and whose method `stages` gives the activations on the way, a list of (n, channels, side, side).
    """

    settings_type = WideConfig
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

    def build(self, initial: torch.Generator) -> TrainingState:
        network = self.recipe.method.network
        shape = network.channels, network.image_size, network.image_size
        encoder = (self._own_encoder or encoder_of(network, initial)).to(self.device).eval()
        if self._own_encoder is not None:
            check_backbone("encoder", encoder, torch.zeros(2, *shape, device=self.device), (2, network.feature_dim))
        self._precision = precision_of(self.settings.precision, self.device)
        self.reader = WideReader(encoder, shape, self.settings.reading, self._precision)
        return TrainingState({"encoder": encoder}, {}, torch.Generator(self.device).manual_seed(self.seed))

    def fit(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> WideMemory:
        if not self.labels:
            self._train(X, torch.searchsorted(y.unique(), y), hooks)
        return self.reader.remembered(self.kept, X, y, self.settings.calibration.held_out, self.seed)

    def _train(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"], hooks: TaskHooks) -> None:
        d = self.recipe.method.network.feature_dim
        stage, generator = self.settings.trunk, self._state.generator
        train_trunk(self.reader.encoder, d, X, rows, stage, self._precision, generator, hooks)

    def wide_features(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n D"]:
        """φ(x) of images under the encoder, on the learner's device."""
        return self.reader.features(X, self.kept)

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        return self.reader.scores(self.kept, X)[:, torch.tensor(self.labels, device=self.device).argsort()]

    def predict_proba(self, images: Images) -> Images:
        """The probability of each of `classes_` for each image: (n, classes), rows that sum to 1.

        Calibrated by held-out images. Those of the first task have trained the encoder, so that after it alone
        probabilities are too sure; those of later tasks are new to it.
        """
        return like(self._scored(images, "predict_proba").exp(), images)

    def temperature(self) -> float:
        """What scores were divided by, so that probabilities are neither too sure nor too careful."""
        return self.kept.calibration.temperature

    def strangeness(self, images: Images) -> Images:
        """How little each image looks like any class, from 0 to 2."""
        return like(self._strangeness(images, "strangeness"), images)

    def unknown(self, images: Images, false_alarms: float = 0.05) -> Images:
        """Whether each image is of no known class; of those that are of one, about so many are called unknown too."""
        strangeness = self._strangeness(images, "unknown")
        return like(self.kept.calibration.unknown(strangeness, float(false_alarms)), images)

    def _strangeness(self, images: Tensor | NDArray[Any], caller: str) -> Float[Tensor, " n"]:
        self._check_learned(caller)
        return self.reader.strangeness(self.kept, self._checked(images))

    def kept_tensors(self) -> dict[str, Tensor]:
        return self.kept.tensors() if self.labels else {}

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> WideMemory:
        return self.reader.kept_from(len(labels), tensors) if labels else nothing_yet(self.device)

    def remembering(self, recipe: Recipe | None = None) -> "Wide":
        """A learner with this one's encoder as it is now, which only remembers: for the floors.

        With a recipe of its own it may read the encoder otherwise.
        """
        return _Remembering.of(self, recipe or self.recipe)


class _Remembering(Wide):
    @classmethod
    def of(cls, learner: Wide, recipe: Recipe) -> "_Remembering":
        own: Any = learner._own_encoder
        copy = cls(recipe, seed=learner.seed, device=learner.device, encoder=own and deepcopy(own))
        copy.reader.encoder.load_state_dict(learner.reader.encoder.state_dict())
        return copy

    def _train(self, X: Tensor, rows: Tensor, hooks: TaskHooks) -> None:
        """Nothing is trained."""
