"""wide: an encoder that learns once, read in all its width (linear discriminant analysis on stage activations).

In the first task the encoder is trained to tell classes and rotations apart, by cross-entropy on a head that is thrown
away, and to agree with itself on two views of an image while its features fill their space (the coding rate; EMP-SSL's
form), on a projector that is thrown away too:

    CE(4y + r) + w · (−R(P; ε²) − a · mean cosine(P, P′)) / 50.

Then it stays as it is. Every class is kept as a mean of *wide features*, all classes together as one covariance
(`memory/wide_memory.py`): nothing drifts, nothing is forgotten, and memory says what all old images would say.

Settings: ours, from measurements on validation images of CIFAR-10.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from ictrl.config import AugmentationConfig, MethodConfig, StageConfig
from ictrl.errors import ConfigError
from ictrl.memory.wide_memory import WideClassifier, WideMemory, nothing_yet, wide_features
from ictrl.methods.base import Learner
from ictrl.nets.dcgan import Encoder
from ictrl.nets.head import LinearHead, projector_head
from ictrl.nets.layers import exact_float32
from ictrl.nets.wrappers import precision_of, run_in, to_float
from ictrl.theory.rates import coding_rate
from ictrl.training.augmentation import ROTATIONS, draw, rotated, rotated_labels
from ictrl.training.ema import refresh_batchnorm
from ictrl.training.loader import Batches, ImageSource
from ictrl.training.loop import TaskHooks, run_epochs
from ictrl.training.players import adam
from ictrl.training.profiler import untimed
from ictrl.training.state import TrainingState
from ictrl.training.task import CHUNK

PROJECTED, HIDDEN = 128, 512  # of the projector
SCALE = 50.0  # of the self-supervision beside the cross-entropy


@dataclass(frozen=True)
class SelfSupervisionConfig:
    """Two views of an image should agree while all views together fill the space."""

    weight: float = 1.0
    """beside the cross-entropy; 0 is off"""
    agreement: float = 200.0
    """of the mean cosine between two views, beside the coding rate"""
    eps_sq: float = 0.2
    """ε² of the coding rate"""

    def __post_init__(self) -> None:
        if min(self.weight, self.agreement) < 0 or self.eps_sq <= 0:
            raise ConfigError("Expected weights of self-supervision of at least 0 and eps_sq above 0.")


@dataclass(frozen=True)
class ReadingConfig:
    """How the encoder's stages become wide features, and these a class."""

    pool: int = 4
    """cells per side that each stage's activations are pooled to"""
    ridge: float = 0.01
    """added to the covariance, as a share of the mean variance"""
    mirror: bool = False
    """look at the mirror image of every image too, and add up what is seen; for pictures that may be mirrored"""

    def __post_init__(self) -> None:
        if self.pool < 1:
            raise ConfigError(f"Expected reading.pool to be at least 1 but got {self.pool}.")
        if not 0 < self.ridge < float("inf"):
            raise ConfigError(f"Expected reading.ridge to be above 0 but got {self.ridge}.")


def _first() -> StageConfig:
    views = AugmentationConfig(crop=0.45)
    return StageConfig(200, 500, learning_rate=2e-3, schedule="cosine", warmup=20, ema=0.0, augmentation=views)


@dataclass(frozen=True)
class WideConfig(MethodConfig):
    """A trunk trained on the first task, wide features, LDA."""

    name: ClassVar[str] = "wide"

    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    """of the convolutions; auto: bfloat16 on a GPU, float32 elsewhere"""
    weight_decay: float = 5e-4
    """of AdamW"""
    rotations: float = 1.0
    """weight of the cross-entropy on classes × rotations; 0 is off"""
    self_supervision: SelfSupervisionConfig = field(default_factory=SelfSupervisionConfig)
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    first: StageConfig = field(default_factory=_first)
    """the first task, the only one that trains"""

    def __post_init__(self) -> None:
        if self.first.batch == "rule":
            raise ConfigError('Expected first.batch to be a number but got "rule", which is a rule of i-CTRL.')
        if self.rotations < 0 or self.weight_decay < 0:
            raise ConfigError("Expected rotations and weight_decay of at least 0.")
        if not self.rotations and not self.self_supervision.weight:
            raise ConfigError("Expected rotations or self_supervision.weight above 0: nothing would be learned.")


class Wide(Learner[WideMemory]):
    """Trains its encoder on the first task; from then on it only remembers."""

    settings_type = WideConfig

    def build(self, initial: torch.Generator) -> TrainingState:
        network = self.recipe.method.network
        shape = (network.image_size, network.channels, network.width, network.feature_dim)
        self._precision = precision_of(self.settings.precision, self.device)
        self._classifier: tuple[WideMemory, WideClassifier] | None = None
        encoder = Encoder(*shape, generator=initial).to(self.device).eval()
        return TrainingState({"encoder": encoder}, {}, torch.Generator(self.device).manual_seed(self.seed))

    def fit(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> WideMemory:
        if not self.labels:
            self._train(X, torch.searchsorted(y.unique(), y), hooks)
        return self.kept.with_classes(self.wide_features(X), y)

    def _train(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"], hooks: TaskHooks) -> None:
        settings: WideConfig = self.settings
        stage, device, generator = settings.first, self.device, self._state.generator
        encoder = self._state.networks["encoder"]
        assert stage.batch != "rule"
        d, classes = settings.network.feature_dim, int(rows.max()) + 1
        head = LinearHead(d).to(device).grown(ROTATIONS * classes, generator)
        projector = projector_head(d, HIDDEN, PROJECTED, generator).to(device)
        networks: dict[str, nn.Module] = {"encoder": encoder, "head": head, "projector": projector}
        optimiser = adam(nn.ModuleDict(networks), stage.learning_rate, (0.9, 0.999), settings.weight_decay)
        self._state = state = TrainingState(networks, {"network": optimiser}, generator)
        source = ImageSource(X, device)
        batches = Batches(len(source), stage.batch, generator, device)
        supervision, turning = settings.self_supervision, AugmentationConfig(rotations=True)
        lap = hooks.profiler.lap if hooks.profiler is not None else untimed

        def step(chosen: Tensor, *sent: Tensor) -> dict[str, Tensor]:
            pixels, n = source.pixels(chosen, *sent), len(chosen)
            with lap("images"):
                views, turned = [], None
                if settings.rotations:
                    turned = draw(turning, chosen, generator).turned
                    assert turned is not None
                    view = draw(stage.augmentation, chosen, generator).apply(pixels, torch.float32)
                    views.append(rotated(view, turned))
                if supervision.weight:
                    views += [draw(stage.augmentation, chosen, generator).apply(pixels, torch.float32) for _ in "ab"]
            with lap("features"):
                features = run_in(self._precision, encoder, torch.cat(views)).float().split(n)
            with lap("loss"):
                terms = dict[str, Tensor]()
                if turned is not None:
                    targets = rotated_labels(rows[chosen], turned, 0)
                    terms["rotations"] = cross_entropy(head(features[0]), targets)
                if supervision.weight:
                    P = normalize(projector(torch.cat(features[-2:])), dim=1).view(2, n, -1)
                    counts = torch.full((2,), float(n), device=device)
                    terms["rate"] = coding_rate(P.mT @ P, counts, supervision.eps_sq).mean()
                    terms["agreement"] = (P[0] * P[1]).sum(1).mean()
                loss = (
                    settings.rotations * terms["rotations"] if "rotations" in terms else torch.zeros((), device=device)
                )
                if "rate" in terms:
                    together = terms["rate"] + supervision.agreement * terms["agreement"]
                    loss = loss - supervision.weight / SCALE * together
            optimiser.zero_grad()
            with lap("gradient"):
                loss.backward()
            with lap("update"):
                optimiser.step()
            return {name: value.detach() for name, value in terms.items()}

        for network in networks.values():
            network.train()
        run_epochs(step, source, batches, stage, state, hooks)
        if stage.ema:
            refresh_batchnorm(encoder, (to_float(source.pixels(*given)) for given in source.batches(batches.rows)))
        encoder.eval()
        self._state = TrainingState({"encoder": encoder}, {}, generator)  # head and projector have done their work

    def wide_features(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n D"]:
        """φ(x) of images under the encoder, on the learner's device."""
        encoder = self._state.networks["encoder"]
        assert isinstance(encoder, Encoder)
        found = []
        with torch.no_grad(), exact_float32():
            for part in X.split(CHUNK):
                stages = encoder.stages(to_float(part.to(self.device)).to(self._precision))
                found.append(wide_features(stages, self.settings.reading.pool))
        return torch.cat(found)

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        reading: ReadingConfig = self.settings.reading
        if self._classifier is None or self._classifier[0] is not self.kept:
            with exact_float32():
                self._classifier = self.kept, WideClassifier.of(self.kept, reading.ridge)
        views = (X, X.flip(-1)) if reading.mirror else (X,)
        with exact_float32():
            scores = sum(self._classifier[1].scores(self.wide_features(view)) for view in views)
        assert isinstance(scores, Tensor)
        return scores[:, torch.tensor(self.labels, device=self.device).argsort()]

    def kept_tensors(self) -> dict[str, Tensor]:
        return self.kept.tensors() if self.labels else {}

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> WideMemory:
        D = self._wide_dimension()
        if not labels:
            return nothing_yet(D, self.device)
        kept = WideMemory(**{name: tensors[name] for name in ("counts", "means", "deviations", "correlations")})
        shapes = {name: tuple(tensor.shape) for name, tensor in kept.tensors().items()}
        k, half = len(labels), D * (D - 1) // 2
        if shapes != {"counts": (k,), "means": (k, D), "deviations": (D,), "correlations": (half,)}:
            raise ValueError(f"the wide memory has shapes {shapes} for {k} classes and {D} wide features")
        return kept

    def _wide_dimension(self) -> int:
        """D, from the shapes of the stages."""
        network, pool = self.recipe.method.network, self.settings.reading.pool
        with torch.device("meta"):
            encoder = Encoder(network.image_size, network.channels, network.width, network.feature_dim)
            stages = encoder.eval().stages(torch.zeros(1, network.channels, network.image_size, network.image_size))
        return sum(stage.shape[1] * min(pool, stage.shape[-1]) ** 2 for stage in stages)

    def remembering(self) -> "Wide":
        """A learner with this one's encoder as it is now, which only remembers: for the floors."""
        return _Remembering.of(self)


class _Remembering(Wide):
    @classmethod
    def of(cls, learner: Wide) -> "_Remembering":
        copy = cls(learner.recipe, seed=learner.seed, device=learner.device)
        copy._state.networks["encoder"].load_state_dict(learner._state.networks["encoder"].state_dict())
        return copy

    def _train(self, X: Tensor, rows: Tensor, hooks: TaskHooks) -> None:
        """Nothing is trained."""
