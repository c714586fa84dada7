"""redunet: layers that are built and not trained, each a step up the rate reduction; new classes are built in exactly.

A layer has a matrix E that spreads all features, and one C_j per class that gathers the class's own. With S_j the sum
of zzᵀ over the n_j features of class j there, n = Σ n_j and γ_j = n_j / n,

    E = α (I + α Σ S_j)⁻¹,   C_j = α_j (I + α_j S_j)⁻¹,      α = d / (n ε²),   α_j = d / (n_j ε²),
    z ← normalised z + η (E z − Σ_j π_j(z) γ_j C_j z),        π(z) = softmax_j(−λ ‖C_j z‖),

the gradient of ΔR(Z) (Chan et al., *ReduNet: A White-box Deep Network from the Principle of Maximizing Rate Reduction*,
JMLR 2022). While layers are built, labels take the place of π, so that a layer moves a class by one matrix
L_j = I + η (E − γ_j C_j) and scales it by one number, after which the mean of ‖z‖² is 1 again:

    S_j ← s_j² L_j S_j L_jᵀ,      s_j² = n_j / tr(L_j S_j L_jᵀ).

So the S_j of the first layer, d × d numbers per class, are all that the layers depend on. They are kept, and with new
classes every layer is built anew: exactly as if all classes had come at once (Wu, Baek, You and Ma, *Incremental
Learning via Rate Reduction*, CVPR 2021). An image is of the class whose leading directions, of the S_j behind the last
layer, leave least of its feature.

An image is its pixels here, averaged to `side` × `side` and of unit length. The authors also lift images by random
kernels, and build convolutions, which is not here. It draws nothing. Layers are counted as epochs.

Settings: λ 500 is the default of the ReduNet authors' code; all others are ours.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, normalize

from ictrl.config import MethodConfig
from ictrl.errors import ConfigError
from ictrl.memory.few_images import check_enough
from ictrl.memory.triangles import half_size, lower_half, whole
from ictrl.methods.checks import check_types
from ictrl.methods.forgetting import ForgettingLearner
from ictrl.methods.inputs import seeded
from ictrl.nets.layers import exact_float32
from ictrl.nets.wrappers import to_float
from ictrl.shapes import Float, Int, UInt8
from ictrl.theory.rates import rate_reduction
from ictrl.theory.statistics import spectrum
from ictrl.training.loop import EpochReport, TaskHooks
from ictrl.training.state import TrainingState
from ictrl.training.task import chunks


@dataclass(frozen=True)
class ReduNetConfig(MethodConfig):
    """Layers built of second moments, and the nearest subspace behind them."""

    name: ClassVar[str] = "redunet"

    layers: int = 20
    """steps up the rate reduction"""
    side: int = 8
    """images are averaged to so many pixels a side, if they have more; d is their number, of all channels"""
    eps_sq: float = 0.5
    """ε², the squared error up to which features are encoded"""
    step: float = 0.5
    """η, how far a layer goes"""
    sharpness: float = 500.0
    """λ, how sure a layer is of a feature's class"""
    components: int = 15
    """directions of each class that an image is compared with"""

    def __post_init__(self) -> None:
        for name in ("layers", "side", "components"):
            if getattr(self, name) < 1:
                raise ConfigError(f"Expected {name} to be at least 1 but got {getattr(self, name)}.")
        for name in ("eps_sq", "step", "sharpness"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"Expected {name} to be above 0 but got {getattr(self, name)}.")

    @property
    def numbers(self) -> int:
        """d, of a feature."""
        return self.network.channels * min(self.side, self.network.image_size) ** 2


class Seconds(NamedTuple):
    """Of each class, in the order of learning: how many images, and half of the sum of zzᵀ over them."""

    counts: Int[Tensor, " k"]
    moments: Float[Tensor, "k half"]


class Layers(nn.Module):
    """Every E and C, with the directions of each class behind the last layer; they are computed and never trained."""

    E: nn.Parameter
    C: nn.Parameter
    bases: nn.Parameter

    def __init__(self, layers: int, classes: int, d: int, components: int) -> None:
        super().__init__()
        shapes = {"E": (layers, d, d), "C": (layers, classes, d, d), "bases": (classes, d, min(components, d))}
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape), requires_grad=False))


class ReduNet(ForgettingLearner[Seconds]):
    """Rate reduction, layer by layer."""

    settings_type = ReduNetConfig
    keeps = "second moments of every class"
    keeps_statistics = True

    def build(self, initial: torch.Generator) -> TrainingState:
        return self._with_layers(0, seeded(self.device, self.seed))

    def _with_layers(self, classes: int, generator: torch.Generator) -> TrainingState:
        settings: ReduNetConfig = self.settings
        layers = Layers(settings.layers, classes, settings.numbers, settings.components)
        return TrainingState({"layers": layers.to(self.device).eval()}, {}, generator)

    @property
    def layers(self) -> Layers:
        layers = self._state.networks["layers"]
        assert isinstance(layers, Layers)
        return layers

    def resize(self, classes: int) -> None:
        self._state = self._with_layers(classes, self._state.generator)

    def lifted(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Pixels, averaged and of unit length."""
        images = to_float(X.to(self.device)).add(1)  # black is 0
        if self.settings.side < images.shape[-1]:
            images = adaptive_avg_pool2d(images, self.settings.side)
        return normalize(images.flatten(1))

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> Seconds:
        check_enough(y)
        labels, counts = y.unique(return_counts=True)
        sums = [self.second_moment(X[(y == label).to(X.device)]) for label in labels]
        kept = Seconds(
            torch.cat([self.kept.counts, counts]), torch.cat([self.kept.moments, torch.stack(sums).to(y.device)])
        )
        self.build_layers(kept, hooks)
        return kept

    def second_moment(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, " half"]:
        """Σ zzᵀ of images, in double precision."""
        total = sum(z.double().T @ z.double() for z in map(self.lifted, chunks(X)))
        assert isinstance(total, Tensor)
        return lower_half(total).float()

    def build_layers(self, kept: Seconds, hooks: TaskHooks) -> None:
        """All layers of second moments, whoever's and however long ago; a stopped task builds the first ones again."""
        settings: ReduNetConfig = self.settings
        self.resize(len(kept.counts))
        if hooks.resume is not None:
            hooks.resume.restore(self._state)
        done = hooks.resume.epoch if hooks.resume is not None else 0
        layers, S, n = self.layers, whole(kept.moments).double(), kept.counts.double()
        for place in range(settings.layers):
            before = rate_reduction(S, n, settings.eps_sq)
            E, C, S = built(S, n, settings.eps_sq, settings.step)
            layers.E[place], layers.C[place] = E.float(), C.float()
            if hooks.progress is not None and place >= done:
                terms = {"rate_reduction": float(before)}
                hooks.progress(EpochReport(place + 1, settings.layers, terms, self._state))
        for row, moment in enumerate(S):
            layers.bases[row] = spectrum(moment)[1][:, : layers.bases.shape[2]].float()

    def features(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Behind the last layer."""
        settings, layers = self.settings, self.layers
        shares = (self.kept.counts / self.kept.counts.sum()).float()
        Z = self.lifted(X)
        for E, C in zip(layers.E, layers.C):
            gathered = torch.einsum("kde,ne->nkd", C, Z)
            belongs = (-settings.sharpness * gathered.norm(dim=2)).softmax(1)
            Z = normalize(Z + settings.step * (Z @ E - torch.einsum("nk,nkd->nd", belongs * shares, gathered)))
        return Z

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """−‖(I − U_j U_jᵀ) z‖² = ‖U_jᵀ z‖² − 1, z being of unit length."""
        bases = self.layers.bases
        with exact_float32():
            found = [torch.einsum("kdq,nd->nkq", bases, self.features(part)) for part in chunks(X)]
        scores = torch.cat([part.square().sum(2) for part in found]) - 1
        return scores[:, torch.tensor(self.labels, device=scores.device).argsort()]

    def drop_row(self, row: int) -> None:
        """Layers as they would be without the class."""
        others = self.kept_without(row)
        if len(others.counts):
            self.build_layers(others, TaskHooks())
        else:
            self.resize(0)

    def kept_without(self, row: int) -> Seconds:
        return Seconds(*(torch.cat([part[:row], part[row + 1 :]]) for part in self.kept))

    def what_remains(self) -> list[str]:
        return ["nothing: all layers are built anew of the second moments of the other classes"]

    def kept_tensors(self) -> dict[str, Tensor]:
        return self.kept._asdict() if len(self.kept.counts) else {}

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> Seconds:
        half = half_size(self.settings.numbers)
        if not labels:
            none = torch.zeros(0, dtype=torch.long, device=self.device)
            return Seconds(none, torch.zeros(0, half, device=self.device))
        check_types(tensors, whole=("counts",))
        found = {name: tuple(kept.shape) for name, kept in tensors.items()}
        expected = {"counts": (len(labels),), "moments": (len(labels), half)}
        if found != expected or not bool((tensors["counts"] > 0).all()):
            raise ValueError(f"what is kept has shapes {found} and not {expected}, or counts that are not above 0")
        return Seconds(**tensors)

    def kept_to_predict(self) -> dict[str, Tensor]:
        return {name: kept for name, kept in self.kept_tensors().items() if name == "counts"}

    def kept_to_predict_from(self, labels: list[int], tensors: dict[str, Tensor]) -> Seconds:
        half = half_size(self.settings.numbers)
        return self.kept_from(labels, {**tensors, "moments": torch.zeros(len(labels), half, device=self.device)})


def built(
    S: Float[Tensor, "k d d"], n: Float[Tensor, " k"], eps_sq: float, step: float
) -> tuple[Float[Tensor, "d d"], Float[Tensor, "k d d"], Float[Tensor, "k d d"]]:
    """E and C of a layer by the second moments in front of it, and those behind it."""
    d = S.shape[-1]
    eye = torch.eye(d, dtype=S.dtype, device=S.device)
    alpha, alphas = d / (n.sum() * eps_sq), (d / (n * eps_sq))[:, None, None]
    E = alpha * torch.linalg.inv(eye + alpha * S.sum(0))
    C = alphas * torch.linalg.inv(eye + alphas * S)
    L = eye + step * (E - (n / n.sum())[:, None, None] * C)
    moved = L @ S @ L.mT
    scales = n / moved.diagonal(dim1=1, dim2=2).sum(1)
    return E, C, scales[:, None, None] * moved
