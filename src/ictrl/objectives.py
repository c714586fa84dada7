"""The two sides of the game, and the only place that holds signs.

The encoder and the decoder look at the same named terms and disagree about them. On a first task, or with all classes
at once (`eq:MCR2-GAN-objective` in the paper, which prints the two players the wrong way round):

    max over the encoder, min over the decoder:   ΔR(Z) + ΔR(Ẑ) + Σⱼ ΔR(Zⱼ, Ẑⱼ).

On every later task Z = [Z_new, Z_old], where Z_old was sampled from memory (`eqn:relaxed-max`, `eqn:relaxed-min`):

    encoder, max:   ΔR(Z) + ΔR(Ẑ) + λ Σ_new ΔR(Zⱼ, Ẑⱼ) − γ Σ_old ΔR(Zⱼ, Ẑⱼ)
    decoder, min:   ΔR(Z) + ΔR(Ẑ) + λ Σ_new ΔR(Zⱼ, Ẑⱼ) + γ Σ_old ΔR(Zⱼ, Ẑⱼ).

They quarrel over the new classes and agree on the old ones: what memory says of them must survive the loop. The first
task is the second form with nothing old and λ = 1, or a weight of its own beyond the paper. With a single class
ΔR(Z) = ΔR(Ẑ) = 0 and the distance alone trains.

Beyond the paper both may also pay for leaving the place where they were when the task began (*anchors*): the encoder
for moving features of images it is shown, the decoder for drawing other images, both for features of memory that do not
come back from the loop one by one, and not only as a class.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ictrl.rates import ClassLayout, class_moments, transcription_rates


@dataclass(frozen=True)
class Terms:
    """Every quantity of the objective by name, unweighted and unsigned."""

    reduction: Float[Tensor, ""]
    """ΔR(Z)"""
    reduction_hat: Float[Tensor, ""]
    """ΔR(Ẑ)"""
    distance_new: Float[Tensor, ""]
    """Σ ΔR(Zⱼ, Ẑⱼ) over the classes being learned"""
    distance_old: Float[Tensor, ""]
    """Σ ΔR(Zⱼ, Ẑⱼ) over the classes in memory; 0 on a first task"""
    anchor_new: Float[Tensor, ""] | None = None
    """how far the new images' features have moved since the task began; None where nobody asked"""
    anchor_replayed: Float[Tensor, ""] | None = None
    """the same for images replayed from memory"""
    loop: Float[Tensor, ""] | None = None
    """how far features drawn from memory come back from where they set out: f(g(z)) from z"""
    redrawn: Float[Tensor, ""] | None = None
    """how much their images have changed since the task began"""

    def named(self) -> dict[str, Tensor]:
        """The terms that are there, for logs."""
        return {name: value for name, value in vars(self).items() if value is not None}


def transcription_terms(
    Z: Float[Tensor, "n d"], Z_hat: Float[Tensor, "n d"], layout: ClassLayout, old_classes: int, eps_sq: float
) -> Terms:
    """The terms for features Z and their transcription Ẑ, row by row of the same class; the first `old_classes`
    classes are the old ones."""
    n = layout.counts.expand(2, -1)
    rates = transcription_rates(class_moments(torch.stack([Z, Z_hat]), layout), n, eps_sq)
    old, new = rates.distance.tensor_split([old_classes])
    return Terms(rates.reduction, rates.reduction_hat, distance_new=new.sum(), distance_old=old.sum())


def anchor(Z: Float[Tensor, "n d"], target: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """Mean over rows of ‖z − target‖²."""
    return (Z - target).square().sum(1).mean()


def encoder_objective(
    terms: Terms,
    lambda_new: float,
    gamma_old: float,
    anchor_new: float = 0.0,
    anchor_replayed: float = 0.0,
    loop: float = 0.0,
) -> Float[Tensor, ""]:
    """What the encoder maximises: `eqn:relaxed-max`, less the anchors where there are any."""
    value = terms.reduction + terms.reduction_hat + lambda_new * terms.distance_new - gamma_old * terms.distance_old
    for weight, term in ((anchor_new, terms.anchor_new), (anchor_replayed, terms.anchor_replayed), (loop, terms.loop)):
        if term is not None:
            value = value - weight * term
    return value


def decoder_objective(
    terms: Terms, lambda_new: float, gamma_old: float, loop: float = 0.0, redrawn: float = 0.0
) -> Float[Tensor, ""]:
    """What the decoder minimises: `eqn:relaxed-min`, and the anchors where there are any."""
    value = terms.reduction + terms.reduction_hat + lambda_new * terms.distance_new + gamma_old * terms.distance_old
    for weight, term in ((loop, terms.loop), (redrawn, terms.redrawn)):
        if term is not None:
            value = value + weight * term
    return value
