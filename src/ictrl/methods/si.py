"""si: synaptic intelligence. While a task is learned, each weight counts by how much it has lowered the loss.

    ωᵢ = −Σ_steps gᵢ Δθᵢ,     Ωᵢ ← max(0, Ωᵢ + ωᵢ / ((θᵢ − θ*ᵢ)² + ξ)) after each task,
    loss = CE(W f(x), y) + c Σᵢ Ωᵢ (θᵢ − θ*ᵢ)²,

g the gradient of the cross-entropy alone, Δθ the step that was made, θ* the weights after the task before (Zenke, Poole
and Ganguli, *Continual Learning Through Synaptic Intelligence*, ICML 2017). Nothing has to be computed after a task, as
ewc must. That no Ω is below 0 is not in the paper but in the authors' code. Ω and θ* are kept: two numbers per weight.

In the class-incremental setting it does hardly better than finetune, for the same reason as ewc: classes of different
tasks never meet in a loss.

Settings: the authors' for CIFAR-10, of which all classes are the first of their tasks, each with a head of its own, are
Adam at 0.001, 60 epochs, 256 images in a step, c 0.1, ξ 0.001. The defaults are those of the DER++ paper's comparison,
which is class-incremental: SGD at 0.03, 50 epochs of each task, 32 images in a step, c 0.5, ξ 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ictrl.config import used_later
from ictrl.errors import ConfigError
from ictrl.methods.consolidation import ConsolidationConfig, ConsolidationLearner, flat
from ictrl.methods.supervised import Seen
from ictrl.shapes import Float, UInt8


@dataclass(frozen=True)
class SIConfig(ConsolidationConfig):
    """A penalty on moving weights, by what each has done for the loss."""

    name: ClassVar[str] = "si"

    c: float = used_later(0.5)
    """weight of the penalty"""
    xi: float = 1.0
    """ξ, added to the squared way of a weight so that one that hardly moved does not count for too much"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.c < float("inf"):
            raise ConfigError(f"Expected c to be at least 0 but got {self.c}.")
        if not 0 < self.xi < float("inf"):
            raise ConfigError(f"Expected xi to be above 0 but got {self.xi}.")


class PathIntegral(nn.Module):
    """ω of a task so far, and the weights as they were after the last step."""

    omega: Tensor
    last: Tensor

    def __init__(self, weights: Float[Tensor, " p"]) -> None:
        super().__init__()
        self.register_buffer("omega", torch.zeros_like(weights))
        self.register_buffer("last", weights.clone())

    def add(self, gradient: Float[Tensor, " p"], weights: Float[Tensor, " p"]) -> None:
        """A step has been made to these weights, and the gradient was taken before it."""
        self.omega.sub_(gradient * (weights - self.last))
        self.last.copy_(weights)


class SI(ConsolidationLearner):
    """Synaptic intelligence."""

    settings_type = SIConfig

    @property
    def strength(self) -> float:
        return self.settings.c

    def working(self) -> Mapping[str, nn.Module]:
        return {"path": PathIntegral(self.weights().detach())}

    def after_step(self, seen: Seen, working: Mapping[str, nn.Module]) -> None:
        path = working["path"]
        assert isinstance(path, PathIntegral)
        with torch.no_grad():
            gradient = flat(parameter.grad for parameter in self.trained if parameter.grad is not None)
            if self._held is not None:  # what the penalty has in it is not what the task asks for
                importance, anchor = self._held
                gradient -= 2 * self.strength * importance * (path.last - anchor)
            path.add(gradient, self.weights())

    def importance(
        self,
        X: UInt8[Tensor, "n c h w"],
        before: Float[Tensor, " p"] | None,
        start: Float[Tensor, " p"],
        working: Mapping[str, nn.Module],
    ) -> Float[Tensor, " p"]:
        path = working["path"]
        assert isinstance(path, PathIntegral)
        found = path.omega / ((self.weights().detach() - start).square() + self.settings.xi)
        return (found if before is None else before + found).clamp(min=0)
