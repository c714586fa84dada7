"""analytic: ridge regression that goes on from task to task and ends where all tasks at once would (ACIL).

The encoder learns the first task by cross-entropy and stays as it is. A random matrix E and ReLU make many features of
few, φ = ReLU(zᵀE), and the one-hot targets Y of all images so far are regressed on them, W = (ΣΦᵀΦ + γI)⁻¹ ΣΦᵀY. No old
image is needed for it: R, that inverse, and W are kept, and with new images

    R ← R − RΦᵀ(I + ΦRΦᵀ)⁻¹ΦR,     W ← W + RΦᵀ(Y − ΦW)     with the new R,

are exactly what all images at once would give (Zhuang et al., *ACIL: Analytic Class-Incremental Learning with Absolute
Memorization and Privacy Protection*, NeurIPS 2022; DS-AL, AAAI 2024, adds a second stream that fits what the first
leaves, which is not here). Nothing is forgotten, but R is large: with 8192 features half of it is 268 MB in double
precision, which the recursion needs. E is drawn again from the learner's seed and costs no bytes.

Settings: 8192 features and γ = 0.1, the authors' for CIFAR-100, E uniform in ±1/√d as theirs. Their encoder learns for
300 epochs at 0.5; here it learns as that of the other methods that freeze it (`first_task_encoder.py`).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from ictrl.errors import ConfigError
from ictrl.memory.triangles import half_size, lower_half, whole
from ictrl.methods.first_task_encoder import FirstTaskConfig, FirstTaskLearner
from ictrl.methods.forgetting import IN_THE_FIRST_WEIGHTS
from ictrl.nets.layers import exact_float32
from ictrl.shapes import Float, Int, UInt8
from ictrl.training.state import TrainingState
from ictrl.training.task import CHUNK, chunks


@dataclass(frozen=True)
class AnalyticConfig(FirstTaskConfig):
    """A frozen encoder, a random expansion, recursive ridge regression."""

    name: ClassVar[str] = "analytic"

    expansion: int = 8192
    """features after the random expansion"""
    ridge: float = 0.1
    """γ of the regression"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.expansion < 1:
            raise ConfigError(f"Expected expansion to be at least 1 but got {self.expansion}.")
        if not 0 < self.ridge < float("inf"):
            raise ConfigError(f"Expected ridge to be above 0 but got {self.ridge}.")


class Analytic(FirstTaskLearner):
    """Keeps the regression's weights and half of the inverse R, in double precision."""

    settings_type = AnalyticConfig
    keeps = "one matrix of all features, a row per class"
    only_to_learn = ("inverse",)

    def build(self, initial: torch.Generator) -> TrainingState:
        d, D = self.settings.network.feature_dim, self.settings.expansion
        # a generator of its own, on the CPU, so that a seed means the same matrix everywhere and always
        drawn = torch.rand(d, D, generator=torch.Generator().manual_seed((self.seed + 1_000_003) % 2**63))
        self._expansion = ((2 * drawn - 1) * d**-0.5).to(self.device)
        return super().build(initial)

    def expanded(self, Z: Float[Tensor, "n d"]) -> Float[Tensor, "n D"]:
        """φ = ReLU(zᵀE), for a regression in double precision."""
        with exact_float32():
            return (Z @ self._expansion).relu().double()

    def remembered(self, Z: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> dict[str, Tensor]:
        old, new, D = len(self.labels), len(y.unique()), self.settings.expansion
        W = pad(self.kept["weights"], (0, new)) if self.kept else Z.new_zeros(D, new, dtype=torch.float64)
        R = torch.eye(D, dtype=torch.float64, device=Z.device) / self.settings.ridge
        R = whole(self.kept["inverse"]) if self.kept else R
        for z, rows in zip(Z.split(CHUNK), (old + self.rows_of(y)).split(CHUNK)):
            R, W = regressed(R, W, self.expanded(z), one_hot(rows, old + new).double())
        return {"inverse": lower_half(R), "weights": W}

    def what_remains(self) -> list[str]:
        return [IN_THE_FIRST_WEIGHTS, "its images' share of the one matrix that all regressions use"]

    def shapes(self, classes: int) -> dict[str, tuple[int, ...]]:
        D = self.settings.expansion
        return {"inverse": (half_size(D),), "weights": (D, classes)}

    def class_scores(self, X: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """φᵀW."""
        found = [self.expanded(z) @ self.kept["weights"] for z in chunks(self.encode(X))]
        return self.by_label(torch.cat(found).float())


def regressed(
    R: Float[Tensor, "D D"], W: Float[Tensor, "D k"], phi: Float[Tensor, "n D"], Y: Float[Tensor, "n k"]
) -> tuple[Float[Tensor, "D D"], Float[Tensor, "D k"]]:
    """R and W with n more images, by a matrix of n × n: I + ΦRΦᵀ = LLᵀ, and RΦᵀ with the new R is RΦᵀ(LLᵀ)⁻¹."""
    across = phi @ R  # (n, D), R being symmetric
    inner = across @ phi.T
    inner.diagonal().add_(1.0)
    L = torch.linalg.cholesky(inner)
    halves = torch.linalg.solve_triangular(L, across, upper=False)  # (n, D)
    return R - halves.T @ halves, W + across.T @ torch.cholesky_solve(Y - phi @ W, L)
