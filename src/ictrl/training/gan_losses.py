"""What the two sides of a generative adversarial network pay, by the scores that a critic D gives.

    non-saturating   critic: mean softplus(−D(x)) + mean softplus(D(x̂)),      decoder: mean softplus(−D(x̂))
    wasserstein      critic: mean D(x̂) − mean D(x) + λ mean (‖∇D(x̃)‖ − 1)²,  decoder: −mean D(x̂)

x real images, x̂ drawn ones, x̃ points on the lines between pairs of these. The first is that of Goodfellow et al. (2014)
as DCGAN has it (Radford, Metz and Chintala, ICLR 2016), the second WGAN-GP's (Gulrajani et al., NeurIPS 2017).
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ictrl.shapes import Float

Adversary = Literal["non-saturating", "wasserstein"]
ADVERSARIES = ("non-saturating", "wasserstein")


def critic_loss(kind: Adversary, real: Float[Tensor, " n"], drawn: Float[Tensor, " m"]) -> Float[Tensor, ""]:
    """What the critic pays, without a penalty."""
    if kind == "wasserstein":
        return drawn.mean() - real.mean()
    return softplus(-real).mean() + softplus(drawn).mean()


def decoder_loss(kind: Adversary, drawn: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """What the decoder pays."""
    return -drawn.mean() if kind == "wasserstein" else softplus(-drawn).mean()


def gradient_penalty(
    scores: Callable[[Tensor], Float[Tensor, " n"]],
    real: Float[Tensor, "n c h w"],
    drawn: Float[Tensor, "n c h w"],
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """mean (‖∇D(x̃)‖ − 1)², x̃ = u x + (1 − u) x̂ with u uniform for each pair."""
    u = torch.rand(len(real), 1, 1, 1, generator=generator, device=real.device)
    between = (u * real + (1 - u) * drawn).requires_grad_(True)
    slopes = torch.autograd.grad(scores(between).sum(), between, create_graph=True)[0].flatten(1)
    # a root has no derivative at 0, where a critic may begin
    return ((slopes.square().sum(1) + 1e-12).sqrt() - 1).square().mean()
