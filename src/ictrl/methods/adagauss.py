"""adagauss: a Gaussian per class, and an adapter that moves the Gaussians along while the encoder goes on learning.

A task's loss, f₀ the encoder of before, p a projector that is learned with it, and L the Cholesky factor of the
covariance of a batch's features,

    CE(W f(x), y) + λ ‖p(f(x)) − f₀(x)‖² / d − α mean min(Lᵢᵢ, 1),

lets features move as long as the old ones can be told from them, and keeps them from collapsing to few directions.
Then an adapter a learns a(f₀(x)) ≈ f(x) on the new images, and the Gaussian of each old class becomes that of a(z), z
drawn from it. The class is told by Mahalanobis distances to all Gaussians, normalised as in `memory/mahalanobis.py`
(Rypeść et al., *Task-recency bias strikes back: Adapting covariances in Exemplar-Free Class Incremental Learning*,
NeurIPS 2024). It is as good as the adapter: of how old classes move where no new image lies it knows nothing.

Settings: those of the authors' code for CIFAR-100 in ten tasks (none are for CIFAR-10): SGD with momentum 0.9 and
weight decay 5e-4 at 0.1, later 0.01, 200 epochs of 256 images, gradients no longer than 1, λ = 10, α = 1, covariances
shrunk by γ₁ = 3, and in the first task four rotations of each image as classes of their own. The authors have 64
features; a batch must hold more images than there are. Ours differs in this: rates fall along half a cosine, not in
three steps; the head does not learn alone at first; the adapter sees images as they are and mirrored, not augmented.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from ictrl.config import StageConfig, used_later
from ictrl.errors import ConfigError
from ictrl.memory.few_images import check_enough
from ictrl.memory.mahalanobis import normalised_distances, shrunk, whitened_distances
from ictrl.memory.triangles import half_size, lower_half, whole
from ictrl.methods.headless import HeadlessLearner
from ictrl.methods.supervised import OptimiserConfig, Seen, SupervisedConfig, sgd_stage
from ictrl.nets.layers import exact_float32
from ictrl.nets.mlp import mlp
from ictrl.nets.wrappers import run_in, to_float
from ictrl.shapes import Float, Int, UInt8
from ictrl.theory.collapse import anti_collapse
from ictrl.theory.statistics import ClassStatistics
from ictrl.training.adapter import AdapterConfig, clip_gradients, moved_gaussian, train_adapter
from ictrl.training.augmentation import ROTATIONS
from ictrl.training.loop import TaskHooks
from ictrl.training.replay import frozen_copy
from ictrl.training.state import TrainingState
from ictrl.training.task import CHUNK


@dataclass(frozen=True)
class AdaGaussConfig(SupervisedConfig):
    """Projected distillation, a term against collapse, Gaussians moved by an adapter."""

    name: ClassVar[str] = "adagauss"

    optimiser: OptimiserConfig = field(default_factory=lambda: OptimiserConfig("sgd", 0.9, 5e-4))
    first: StageConfig = field(default_factory=lambda: replace(sgd_stage(200, 64, 0.1), schedule="cosine"))
    """the first task; with rotations, a step has four times as many images"""
    later: StageConfig = used_later(replace(sgd_stage(200, 256, 0.01), schedule="cosine"))
    """every later task"""
    rotations: bool = True
    """in the first task, learn four rotations of each image as classes of their own"""
    distillation: float = used_later(10.0)
    """λ, weight of the distance between projected features and those of before"""
    anti_collapse: float = 1.0
    """α, weight of what the features vary in every direction"""
    hidden: int = used_later(32)
    """width of projector and adapter, times the number of features"""
    shrinkage: float = 3.0
    """γ₁, how much of the mean variance is added to every variance when classes are told"""
    adapter: AdapterConfig = used_later(AdapterConfig())

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("distillation", "anti_collapse"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"Expected {name} to be at least 0 but got {getattr(self, name)}.")
        if self.hidden < 1:
            raise ConfigError(f"Expected hidden to be at least 1 but got {self.hidden}.")
        if not 0 < self.shrinkage < float("inf"):
            raise ConfigError(f"Expected shrinkage to be above 0 but got {self.shrinkage}.")
        d, turned = self.network.feature_dim, ROTATIONS if self.rotations else 1
        for name, batch in (("first", self.first.batch), ("later", self.later.batch), ("adapter", self.adapter.batch)):
            assert batch != "rule"
            if self.anti_collapse and batch * (turned if name == "first" else 1) <= d:
                raise ConfigError(
                    f"Expected {name}.batch to hold more images than there are features ({d}) but got {batch}: raise "
                    "it, lower network.feature_dim, or set anti_collapse to 0."
                )


class AdaGauss(HeadlessLearner):
    """Keeps the mean and half the covariance matrix of every class."""

    settings_type = AdaGaussConfig
    keeps = "mean and covariance of every class"

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> dict[str, Tensor]:
        check_enough(y)
        settings, d, classes = self.settings, self.settings.network.feature_dim, len(y.unique())
        # follows from the state at the task's beginning, so that a stopped task finds the same again
        self._before = frozen_copy(self.encoder) if self.labels else None
        if self._before is None:
            stage: StageConfig = settings.first
            self.begin_head(classes * ROTATIONS if settings.rotations else classes)
        else:
            stage = settings.later
            self.begin_head(classes, projector=mlp(d, settings.hidden * d, d, self._state.generator))
        self.train(X, self.rows_of(y), stage, hooks)
        self.throw_head_away()
        views = [X, X.flip(-1)] if stage.augmentation.mirror else [X]
        found = self._remembered(views, y.repeat(len(views)))
        self._before = None
        return found

    def _remembered(self, views: list[Tensor], y: Int[Tensor, " n"]) -> dict[str, Tensor]:
        """The Gaussians of old classes, moved, and those of the new ones."""
        Z, settings, random = torch.cat([self.encode(view) for view in views]), self.settings, self._state.generator
        found = [(new.mean, new.covariance) for new in (ClassStatistics.of(Z[y == label]) for label in y.unique())]
        if self._before is not None:
            hidden, config = settings.hidden * Z.shape[1], settings.adapter
            Z_before = torch.cat([self._encoded_before(view) for view in views])
            adapter = train_adapter(Z_before, Z, hidden, settings.anti_collapse, config, random)
            old = zip(self.kept["means"], whole(self.kept["covariances"]))
            found = [*(moved_gaussian(mean, S, adapter, config.samples, random) for mean, S in old), *found]
        means, covariances = map(torch.stack, zip(*found))
        return {"means": means, "covariances": lower_half(covariances)}

    def loss(self, seen: Seen, working: Mapping[str, nn.Module]) -> dict[str, Tensor]:
        settings: Any = self.settings
        X, rows = seen.X, seen.rows
        if self._before is None and settings.rotations:
            X = torch.cat([X.rot90(quarters, (2, 3)) for quarters in range(ROTATIONS)])
            rows = torch.cat([ROTATIONS * rows + quarters for quarters in range(ROTATIONS)])
        Z = self.features(X)
        terms = {"cross_entropy": cross_entropy(self.head(Z), rows)}
        if settings.anti_collapse:
            terms["anti_collapse"] = settings.anti_collapse * anti_collapse(Z)
        if self._before is not None and settings.distillation:
            with torch.no_grad():
                before = run_in(self._precision, self._before, X).float()
            terms["distillation"] = settings.distillation * mse_loss(self.head.get_submodule("projector")(Z), before)
        return terms

    def _with_head(self, encoder: nn.Module, head: nn.Module, generator: torch.Generator) -> TrainingState:
        state = super()._with_head(encoder, head, generator)
        state.optimisers["network"].register_step_pre_hook(clip_gradients)
        return state

    def _encoded_before(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        assert self._before is not None
        with torch.no_grad(), exact_float32():
            parts = [run_in(self._precision, self._before, to_float(x.to(self.device))) for x in X.split(CHUNK)]
        return torch.cat(parts).float()

    def shapes(self, classes: int) -> dict[str, tuple[int, ...]]:
        d = self.settings.network.feature_dim
        return {"means": (classes, d), "covariances": (classes, half_size(d))}

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """Distances, the other way round."""
        with exact_float32():
            return self.by_label(-normalised_distances(self.encode(X), self.kept["means"], self._shrunk()))

    def scorer(self) -> Callable[[Tensor], Tensor]:
        distances = whitened_distances(self.kept["means"], self._shrunk())
        return lambda X: self.by_label(-distances(self.encode(X)))

    def _shrunk(self) -> Float[Tensor, "k d d"]:
        return shrunk(whole(self.kept["covariances"]).double(), self.settings.shrinkage, 0.0)
