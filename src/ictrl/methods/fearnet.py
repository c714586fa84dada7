"""fearnet: two memories of features. One holds recent classes as they are; the other learns them in its sleep.

Recent classes: the *hippocampus* keeps the features u of all their images, and the nearest ones decide:

    P_H(j | z) = β_j / Σ β,     β_j = 1 / (ε + min ‖z − u‖ over the u of class j).

Older classes: the *cortex*, an autoencoder, decides by a softmax on its code. It learns

    CE + λ₀ mean ‖z − ẑ‖² + λ₁ mean ‖h − ĥ‖²,      h the hidden layer on the way in, ĥ the one on the way out,

and mean and covariance of each class's codes are kept: codes drawn from these and decoded are *pseudo-examples*. Once
so many classes are recent, it sleeps: the cortex learns recent features together with as many pseudo-examples of every
older class, all means and covariances are taken again, and the hippocampus is emptied. Between sleeps the *amygdala*,
a network of its own, learns to tell recent features from pseudo-examples, A(z) being its probability of recent ones;

    recent, where A(z) / (1 − A(z)) · max P_H(z) > max P_C(z), and otherwise older,

decides (Kemker and Kanan, *FearNet: Brain-Inspired Model for Incremental Learning*, ICLR 2018). FearNet works
on features of a network that was trained on other data. Here it works on those of the encoder, of unit length, which
learns the first task by cross-entropy and stays as it is (`first_task_encoder.py`); so the i-CTRL paper, which left it
out for these other data, has no figure for it. It draws features, and no images.

Settings: sleep after 10 classes is the authors'. Sizes of the layers, epochs, λ and Adam's rate are ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss, normalize

from ictrl.errors import ConfigError
from ictrl.memory.few_images import check_enough
from ictrl.memory.recent import by_nearest
from ictrl.memory.triangles import half_size, lower_half, whole
from ictrl.methods.checks import check_types
from ictrl.methods.first_task_encoder import FirstTaskConfig
from ictrl.methods.forgetting import IN_THE_FIRST_WEIGHTS
from ictrl.methods.headless import HeadlessLearner
from ictrl.nets.cortex import Cortex
from ictrl.nets.layers import exact_float32
from ictrl.nets.mlp import mlp
from ictrl.shapes import Float, Int, UInt8
from ictrl.theory.statistics import ClassStatistics, spectrum
from ictrl.training.loop import TaskHooks
from ictrl.training.on_features import OnFeaturesConfig, learn_features
from ictrl.training.state import TrainingState
from ictrl.training.task import chunks

SUREST = 13.0  # logit of the amygdala
RECENT = ("recent", "recent_rows")  # names of what the hippocampus keeps


@dataclass(frozen=True)
class FearNetConfig(FirstTaskConfig):
    """A frozen encoder, a hippocampus, a cortex, an amygdala."""

    name: ClassVar[str] = "fearnet"

    sleep: int = 10
    """recent classes after which the cortex learns them"""
    hidden: int = 128
    """numbers in the hidden layers of cortex and amygdala"""
    code: int = 64
    """numbers of the cortex's code"""
    features: float = 1000.0
    """λ₀, what the cortex pays for features that do not come back"""
    layers: float = 1.0
    """λ₁, the same of its hidden layer"""
    cortex: OnFeaturesConfig = field(default_factory=OnFeaturesConfig)
    """the cortex, on the first task and in every sleep"""
    amygdala: OnFeaturesConfig = field(default_factory=OnFeaturesConfig)
    """the amygdala, after every other task"""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("sleep", "hidden", "code"):
            if getattr(self, name) < 1:
                raise ConfigError(f"Expected {name} to be at least 1 but got {getattr(self, name)}.")
        for name in ("features", "layers"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"Expected {name} to be at least 0 but got {getattr(self, name)}.")


class FearNet(HeadlessLearner):
    """Classes in the order of learning: those of the cortex, then the recent ones."""

    settings_type = FearNetConfig
    keeps = "features of recent classes, moments of older ones"
    predicts_by = ("encoder", "cortex", "amygdala")

    def _networks(self, initial: torch.Generator, generator: torch.Generator) -> TrainingState:
        state, settings = super()._networks(initial, generator), self.settings
        d = settings.network.feature_dim
        cortex = Cortex(d, settings.hidden, settings.code, initial)
        return self._beside(state, {"cortex": cortex, "amygdala": mlp(d, settings.hidden, 1, initial)})

    def _with_head(self, encoder: nn.Module, head: nn.Module, generator: torch.Generator) -> TrainingState:
        state = super()._with_head(encoder, head, generator)
        known = self._state.networks if hasattr(self, "_state") else {}
        return self._beside(state, {name: known[name] for name in ("cortex", "amygdala") if name in known})

    def _beside(self, state: TrainingState, networks: Mapping[str, nn.Module]) -> TrainingState:
        placed = {name: network.to(self.device).eval() for name, network in networks.items()}
        return TrainingState({**state.networks, **placed}, state.optimisers, state.generator)

    @property
    def cortex(self) -> Cortex:
        cortex = self._state.networks["cortex"]
        assert isinstance(cortex, Cortex)
        return cortex

    def resize(self, classes: int) -> None:
        """Rows of the cortex's head, though recent classes do not use theirs yet."""
        self.cortex.head = self.cortex.head.grown(classes, self._state.generator).eval()

    def drop_row(self, row: int) -> None:
        self.cortex.head = self.cortex.head.without(row).eval()

    def seen(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Features of unit length, which both memories are of."""
        return normalize(self.encode(X))

    def learn_task(self, X: UInt8[Tensor, "n c h w"], y: Int[Tensor, " n"], hooks: TaskHooks) -> dict[str, Tensor]:
        check_enough(y)
        settings, old = self.settings, len(self.labels)
        if not old:
            self.begin_head(len(y.unique()))
            self.train(X, self.rows_of(y), settings.first, hooks)
            self.throw_head_away()
        self.resize(old + len(y.unique()))
        recent, rows = self.seen(X), old + self.rows_of(y)
        if not old:
            return self.consolidated(recent, rows)
        recent, rows = torch.cat([self.kept["recent"], recent]), torch.cat([self.kept["recent_rows"], rows])
        if len(rows.unique()) >= settings.sleep:
            return self.consolidated(recent, rows)
        self.learn_who_decides(recent)
        return {**self.kept, "recent": recent, "recent_rows": rows}

    def consolidated(self, recent: Float[Tensor, "n d"], rows: Int[Tensor, " n"]) -> dict[str, Tensor]:
        """A sleep: the cortex learns recent features and pseudo-examples; what is kept of all classes afterwards."""
        older, each = self.older(), -(-len(rows) // len(rows.unique()))
        pseudo = [self.pseudo_examples(row, each) for row in range(older)]
        Z = torch.cat([*pseudo, recent])
        rows = torch.cat([torch.arange(older, device=rows.device).repeat_interleave(each), rows])
        learn_features(
            self.cortex,
            lambda places: torch.stack(list(self.losses(Z[places], rows[places]).values())).sum(),
            len(Z),
            self.settings.cortex,
            self._state.generator,
        )
        with torch.no_grad(), exact_float32():
            codes = self.cortex(Z)
        found = [ClassStatistics.of(codes[rows == row]) for row in range(int(rows.max()) + 1)]
        return {
            "code_means": torch.stack([each.mean for each in found]),
            "code_covariances": lower_half(torch.stack([each.covariance for each in found])),
            "recent": recent[:0],
            "recent_rows": rows[:0],
        }

    def losses(self, Z: Float[Tensor, "n d"], rows: Int[Tensor, " n"]) -> dict[str, Tensor]:
        """What the cortex pays."""
        cortex, settings = self.cortex, self.settings
        hidden = cortex.hidden(Z)
        code = cortex.code(hidden)
        hidden_again = cortex.hidden_again(code)
        return {
            "cross_entropy": cross_entropy(cortex.head(code), rows),
            "features": settings.features * mse_loss(cortex.fourth(hidden_again), Z),
            "layers": settings.layers * mse_loss(hidden_again, hidden),
        }

    def older(self) -> int:
        """How many classes the cortex has learned."""
        return len(self.kept["code_means"]) if self.kept else 0

    def pseudo_examples(self, row: int, n: int) -> Float[Tensor, "n d"]:
        """Codes drawn from what is kept of an older class, decoded, and of unit length as features are."""
        mean, covariance = self.kept["code_means"][row], whole(self.kept["code_covariances"][row])
        values, vectors = spectrum(covariance.double())
        spread = (vectors * values.clamp(min=0).sqrt()).to(mean.dtype)
        generator = self._state.generator
        noise = torch.randn(n, len(mean), generator=generator, device=self.device)
        with torch.no_grad(), exact_float32():
            return normalize(self.cortex.decode(mean + noise @ spread.T))

    def learn_who_decides(self, recent: Float[Tensor, "n d"]) -> None:
        """The amygdala: recent features, and as many pseudo-examples."""
        amygdala, each = self._state.networks["amygdala"], -(-len(recent) // self.older())
        pseudo = torch.cat([self.pseudo_examples(row, each) for row in range(self.older())])
        Z = torch.cat([recent, pseudo])
        new = (torch.arange(len(Z), device=Z.device) < len(recent)).to(Z.dtype)
        learn_features(
            amygdala,
            lambda places: binary_cross_entropy_with_logits(amygdala(Z[places])[:, 0], new[places]),
            len(Z),
            self.settings.amygdala,
            self._state.generator,
        )

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """max P_C of older classes and A / (1 − A) · P_H of recent ones: the largest says who decides, and what."""
        with torch.no_grad(), exact_float32():
            return self.by_label(torch.cat([self.judged(self.seen(part)) for part in chunks(X)]))

    def judged(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Of features, in the order of learning."""
        older = self.cortex.head(self.cortex(Z))[:, : self.older()].softmax(1)
        if not len(self.kept["recent"]):
            return older
        classes = torch.arange(self.older(), len(self.labels), device=Z.device)
        odds = self._state.networks["amygdala"](Z).clamp(max=SUREST).exp()  # A / (1 − A) of a logit
        return torch.cat([older, odds * by_nearest(Z, self.kept["recent"], self.kept["recent_rows"], classes)], 1)

    def shapes(self, classes: int) -> dict[str, tuple[int, ...]]:
        """With so many classes, none of them recent; there are features beside them if there are."""
        code = self.settings.code
        return {"code_means": (classes, code), "code_covariances": (classes, half_size(code))}

    def kept_without(self, row: int) -> dict[str, Tensor]:
        stay = torch.arange(self.older(), device=self.device) != row
        found = {name: kept[stay] for name, kept in self.kept.items() if name not in RECENT}
        rows = self.kept["recent_rows"]
        others = rows != row
        return {**found, "recent": self.kept["recent"][others], "recent_rows": (rows - (rows > row).long())[others]}

    def what_remains(self) -> list[str]:
        return [IN_THE_FIRST_WEIGHTS, "what the class has taught the cortex, if it was learned in a sleep"]

    def kept_from(self, labels: list[int], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if not labels:
            return {}
        check_types(tensors, whole=("recent_rows",))
        rows, older = tensors["recent_rows"], len(tensors["code_means"])
        expected = {**self.shapes(older), "recent": (len(rows), self.settings.network.feature_dim)}
        found = {name: tuple(kept.shape) for name, kept in tensors.items() if name != "recent_rows"}
        if found != expected or sorted(rows.unique().tolist()) != list(range(older, len(labels))):
            raise ValueError(f"what is kept has shapes {found} and not {expected}, or is of other classes")
        return tensors

    def kept_to_predict_from(self, labels: list[int], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return self.kept_from(labels, tensors)
