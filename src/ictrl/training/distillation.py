"""Distillation of wide features: a trunk may learn on as long as what it knew stays where it was, or nearly.

A copy of the encoder, as it was before the task, sees every view that the encoder learns from. Wide features φ that
leave their place are paid for in the measure by which classes are told apart, that of the within-class covariance Σ:

    (φ − φ_before)ᵀ (Σ + ρI)⁻¹ (φ − φ_before) / D.

Where images of a class differ much, features may move far; where they hardly differ, they may not.
"""

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn

from ictrl.nets.wrappers import run_stages
from ictrl.parallel.sharing import mean
from ictrl.shapes import Float

Read = Callable[[list[Tensor]], Float[Tensor, "n D"]]
"""wide features from the activations of stages"""


class WideDistillation:
    """Holds the wide features of an encoder where they are now. `factor` is that of Σ + ρI, by Cholesky."""

    def __init__(
        self, encoder: nn.Module, read: Read, factor: Float[Tensor, "D D"], weight: float, precision: torch.dtype
    ) -> None:
        self.before = deepcopy(encoder).eval().requires_grad_(False)
        self.read, self.weight, self.precision = read, weight, precision
        eye = torch.eye(len(factor), device=factor.device)
        self.whitening = torch.linalg.solve_triangular(factor, eye, upper=False).T  # (D, D)

    def paid(self, X: Float[Tensor, "n c h w"], stages: list[Tensor]) -> Float[Tensor, ""]:
        """What the encoder pays for these stages of images X."""
        with torch.no_grad():
            held = self.read(run_stages(self.precision, self.before, X))
        return mean(((self.read(stages) - held) @ self.whitening).square())
