"""ewc: elastic weight consolidation, online. A weight is held the more firmly, the more the old answers depend on it.

    loss = CE(W f(x), y) + λ/2 Σᵢ Fᵢ (θᵢ − θ*ᵢ)²,     F ← γ F + E[(∂ log p(c | x) / ∂θᵢ)²] after each task,

θ* the weights after the task before, F the diagonal of the Fisher information: the curvature of the log-likelihood, and
so a Gaussian posterior of the weights (Kirkpatrick et al., *Overcoming catastrophic forgetting in neural networks*,
PNAS 2017; one running F instead of one per task: Schwarz et al., *Progress & Compress*, ICML 2018, whose factor γ in
the penalty is part of λ here). The expectation is over all images of the task as they are, one after the other, so that
squared gradients are exact, and over a class c drawn from p(c | x), as the Fisher information asks for; many use the
true class instead. F and θ* are kept: two numbers per weight.

In the class-incremental setting it does hardly better than finetune: no penalty on weights can tell the classes of
different tasks apart, which never meet in a loss.

Settings: the authors have none for class-incremental CIFAR-10. Those of the DER++ paper's comparison: SGD at 0.03, 50
epochs of each task, 32 images in a step, γ 1, λ 20 (10 without the half).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ictrl.config import used_later
from ictrl.errors import ConfigError
from ictrl.methods.consolidation import ConsolidationConfig, ConsolidationLearner, flat
from ictrl.nets.layers import exact_float32
from ictrl.nets.wrappers import to_float
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.graphs import Captured, side_stream
from ictrl.training.loader import ImageSource


@dataclass(frozen=True)
class EWCConfig(ConsolidationConfig):
    """A penalty on moving weights, by Fisher information."""

    name: ClassVar[str] = "ewc"

    penalty: float = used_later(20.0)
    """λ, what moving weights weighs beside cross-entropy"""
    decay: float = used_later(1.0)
    """γ, what remains of the Fisher information of before after each task"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.penalty < float("inf"):
            raise ConfigError(f"Expected penalty to be at least 0 but got {self.penalty}.")
        if not 0 <= self.decay <= 1:
            raise ConfigError(f"Expected decay to be from 0 to 1 but got {self.decay}.")


class EWC(ConsolidationLearner):
    """Online elastic weight consolidation."""

    settings_type = EWCConfig

    @property
    def strength(self) -> float:
        return self.settings.penalty / 2

    def importance(
        self,
        X: UInt8[Tensor, "n c h w"],
        before: Float[Tensor, " p"] | None,
        start: Float[Tensor, " p"],
        working: Mapping[str, nn.Module],
    ) -> Float[Tensor, " p"]:
        with torch.no_grad():
            p = self.head(self.encode(X)).softmax(1)
        drawn = torch.multinomial(p, 1, generator=self._state.generator)[:, 0]
        fisher = self.squared_gradients(X, drawn)
        return fisher if before is None else self.settings.decay * before + fisher

    def squared_gradients(self, X: UInt8[Tensor, "n c h w"], rows: Int[Tensor, " n"]) -> Float[Tensor, " p"]:
        """Of log p(row | x) by every weight, the mean over images; BatchNorm as it is when the network predicts."""
        # image by image: on a CPU several times faster than torch.func.vmap, and it can be recorded on a GPU
        source, total = ImageSource(X, self.device), torch.zeros_like(self.weights().detach())

        def add(chosen: Tensor, *sent: Tensor) -> None:
            loss = cross_entropy(self.logits(to_float(source.pixels(chosen, *sent))), rows[chosen])
            total.add_(flat(torch.autograd.grad(loss, self.trained)).square())

        with (
            side_stream(self.device),
            exact_float32(),
            Captured(add, self._state.generator, self.device) as captured,
        ):
            for given in source.batches(torch.arange(len(source), device=self.device).split(1)):
                captured(*given)
        return total / len(source)
