"""Distillation of wide features: a trunk may learn on as long as what it knew stays where it was, or nearly.

A copy of the encoder, as it was before the task, sees every view that the encoder learns from. Wide features φ that
leave their place are paid for, each by its usual spread σ over the new images:

    mean of ((φ − φ_before) / σ)².
"""

from collections.abc import Callable
from copy import deepcopy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ictrl.nets.wrappers import run_stages

Read = Callable[[list[Tensor]], Float[Tensor, "n D"]]
"""wide features from the activations of stages"""


class WideDistillation:
    """Holds the wide features of an encoder where they are now."""

    def __init__(
        self, encoder: nn.Module, read: Read, sigma: Float[Tensor, " D"], weight: float, precision: torch.dtype
    ) -> None:
        self.before = deepcopy(encoder).eval().requires_grad_(False)
        self.read, self.weight, self.precision = read, weight, precision
        self.sigma = sigma.clamp(min=1e-6 * float(sigma.mean()) + torch.finfo(torch.float32).tiny)

    def paid(self, X: Float[Tensor, "n c h w"], stages: list[Tensor]) -> Float[Tensor, ""]:
        """What the encoder pays for these stages of images X."""
        with torch.no_grad():
            held = self.read(run_stages(self.precision, self.before, X))
        return ((self.read(stages) - held) / self.sigma).square().mean()
