"""A trunk worth freezing: what an encoder learns from the first classes so that it can tell later ones apart.

It is trained to tell classes and rotations apart, by cross-entropy on a head that is thrown away, and to agree with
itself on two views of an image while its features fill their space (the coding rate; EMP-SSL's form), on a projector
that is thrown away too:

    CE(4y + r) + w · (−R(P; ε²) − a · mean cosine(P, P′)) / 50.

In later tasks it may learn on in the same way, held by distillation (`distillation.py`). BatchNorm's statistics then
stay those of the first task.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ictrl.config import AugmentationConfig, StageConfig
from ictrl.errors import ConfigError
from ictrl.nets.head import LinearHead, projector_head
from ictrl.nets.wrappers import run_in, run_through, to_float
from ictrl.parallel.sharing import add_gradients, mean, mine, total
from ictrl.shapes import Int, UInt8
from ictrl.theory.likelihood import cross_entropy
from ictrl.theory.rates import coding_rate
from ictrl.training.augmentation import ROTATIONS, draw, rotated, rotated_labels
from ictrl.training.distillation import WideDistillation
from ictrl.training.ema import refresh_batchnorm
from ictrl.training.loader import Batches, ImageSource
from ictrl.training.loop import TaskHooks, run_epochs
from ictrl.training.players import adam
from ictrl.training.profiler import untimed
from ictrl.training.state import TrainingState

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
class TrunkStageConfig(StageConfig):
    """The stage in which the trunk is trained."""

    weight_decay: float = 5e-4
    """of AdamW"""
    rotations: float = 1.0
    """weight of the cross-entropy on classes × rotations; 0 is off"""
    self_supervision: SelfSupervisionConfig = field(default_factory=SelfSupervisionConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch == "rule":
            raise ConfigError('Expected batch to be a number but got "rule", which is a rule of i-CTRL.')
        if self.rotations < 0 or self.weight_decay < 0:
            raise ConfigError("Expected rotations and weight_decay of at least 0.")
        if not self.rotations and not self.self_supervision.weight:
            raise ConfigError("Expected rotations or self_supervision.weight above 0: nothing would be learned.")


@dataclass(frozen=True)
class LearningOnConfig(TrunkStageConfig):
    """The stages in which it learns on, if it does.

    Batch, rate and weights are those of a small study on validation images of CIFAR-10 (`experiments/learning_on.py`),
    which gave it 12 epochs.
    """

    least_epochs: ClassVar[int] = 0

    epochs: int = 0
    """passes over the images of a later task; 0: the trunk stays as the first task left it"""
    batch: int | Literal["rule"] = 100
    """images per step, at most"""
    learning_rate: float = 5e-4
    """of the optimiser"""
    schedule: Literal["constant", "cosine"] = "cosine"
    """the learning rate within a task: as it is, or falling to 0 along half a cosine"""
    warmup: int = 2
    """epochs at the beginning of a task during which the learning rate rises"""
    ema: float = 0.0
    """epochs over which the exponential moving average of the weights reaches back; 0: the last weights"""
    augmentation: AugmentationConfig = field(default_factory=lambda: AugmentationConfig(crop=0.45))
    self_supervision: SelfSupervisionConfig = field(default_factory=lambda: SelfSupervisionConfig(weight=0.0))
    distillation: float = 1.0
    """what wide features pay for leaving their place on the new images, in the measure of the covariance"""
    compensation_ridge: float = 0.001
    """of the map by which memory follows, towards the identity"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.distillation < float("inf"):
            raise ConfigError(f"Expected learning_on.distillation to be at least 0 but got {self.distillation}.")
        if not 0 < self.compensation_ridge < float("inf"):
            raise ConfigError(
                f"Expected learning_on.compensation_ridge to be above 0 but got {self.compensation_ridge}."
            )


def train_trunk(
    encoder: nn.Module,
    d: int,
    images: UInt8[Tensor, "n c h w"],
    rows: Int[Tensor, " n"],
    stage: TrunkStageConfig,
    precision: torch.dtype,
    generator: torch.Generator,
    hooks: TaskHooks,
    held: WideDistillation | None = None,
) -> None:
    """Train an encoder of d features in place, on images of classes 0, 1, …; it is left in evaluation mode.

    One that is held by distillation has learned before: its BatchNorm keeps the statistics that it has.
    """
    device = rows.device
    assert stage.batch != "rule"
    head = LinearHead(d).to(device).grown(ROTATIONS * (int(rows.max()) + 1), generator)
    projector = projector_head(d, HIDDEN, PROJECTED, generator).to(device)
    trained: dict[str, nn.Module] = {"encoder": encoder, "head": head, "projector": projector}
    optimiser = adam(nn.ModuleDict(trained), stage.learning_rate, (0.9, 0.999), stage.weight_decay)
    source = ImageSource(images, device)
    batches = Batches(len(source), stage.batch, generator, device)
    supervision, turning = stage.self_supervision, AugmentationConfig(rotations=True)
    lap = hooks.profiler.lap if hooks.profiler is not None else untimed

    def view(pixels: Tensor, chosen: Tensor) -> Tensor:
        return draw(stage.augmentation, chosen, generator).mine().apply(pixels, torch.float32)

    def step(chosen: Tensor, *sent: Tensor) -> dict[str, Tensor]:
        pixels = source.pixels(chosen, *sent)  # of this process, where some share the batch
        n, of_all = len(pixels), len(chosen)
        with lap("images"):
            views, turned = [], None
            if stage.rotations:
                turned = draw(turning, chosen, generator).mine().turned
                assert turned is not None
                views.append(rotated(view(pixels, chosen), turned))
            if supervision.weight:
                views += [view(pixels, chosen) for _ in "ab"]
        X = torch.cat(views)
        with lap("features"):
            Z, stages = run_through(precision, encoder, X) if held else (run_in(precision, encoder, X), [])
            features = Z.float().split(n)
        with lap("loss"):
            terms = dict[str, Tensor]()
            loss = torch.zeros((), device=device)
            if turned is not None:
                targets = rotated_labels(rows[mine(chosen)], turned, 0)
                terms["rotations"] = cross_entropy(head(features[0]), targets)
                loss = stage.rotations * terms["rotations"]
            if supervision.weight:
                P = normalize(projector(torch.cat(features[-2:])), dim=1).view(2, n, -1)
                counts = torch.full((2,), float(of_all), device=device)
                terms["rate"] = coding_rate(total(P.mT @ P), counts, supervision.eps_sq).mean()
                terms["agreement"] = mean((P[0] * P[1]).sum(1))
                together = terms["rate"] + supervision.agreement * terms["agreement"]
                loss = loss - supervision.weight / SCALE * together
            if held:
                terms["distillation"] = held.paid(X, stages)
                loss = loss + held.weight * terms["distillation"]
        optimiser.zero_grad()
        with lap("gradient"):
            loss.backward()
            add_gradients(optimiser)
        with lap("update"):
            optimiser.step()
        return {name: value.detach() for name, value in terms.items()}

    for network in trained.values():
        network.train(network is not encoder or held is None)
    run_epochs(step, source, batches, stage, TrainingState(trained, {"network": optimiser}, generator), hooks)
    if stage.ema and held is None:
        batches.shuffle()  # a task stopped after its last epoch does not know that epoch's order
        refresh_batchnorm(encoder, (to_float(source.pixels(*given)) for given in source.batches(batches.rows)))
    encoder.eval()
