"""The two sides of the game: terms, and the only place that holds signs.

The encoder and the decoder look at the same terms and disagree about them. On a first task, or with all classes at once
(`eq:MCR2-GAN-objective` in the paper, which prints the two players the wrong way round):

    max over the encoder, min over the decoder:   ΔR(Z) + ΔR(Ẑ) + Σⱼ ΔR(Zⱼ, Ẑⱼ).

On every later task Z = [Z_new, Z_old], where Z_old was sampled from memory (`eqn:relaxed-max`, `eqn:relaxed-min`):

    encoder, max:   ΔR(Z) + ΔR(Ẑ) + λ Σ_new ΔR(Zⱼ, Ẑⱼ) − γ Σ_old ΔR(Zⱼ, Ẑⱼ)
    decoder, min:   ΔR(Z) + ΔR(Ẑ) + λ Σ_new ΔR(Zⱼ, Ẑⱼ) + γ Σ_old ΔR(Zⱼ, Ẑⱼ).

They quarrel over the new classes and agree on the old ones: what memory says of them must survive the loop. The first
task is the second form with nothing old and λ = 1. With a single class ΔR(Z) = ΔR(Ẑ) = 0 and the distance alone trains.

Beyond the paper both may also pay for leaving the place where they were when the task began (*feature distillation*):
the encoder for moving features of images it is shown, the decoder for drawing other images, both for features of memory
that do not come back from the loop one by one, and not only as a class. And the decoder may pay for images that differ,
as such and to the encoder's stages, from those that they stand for (*feature matching*): rates see classes as a whole,
and only what is left in d numbers; to an encoder that no longer plays, much noise looks like an image.

A *term* is a function of what a step has seen. A player's *loss* is a mapping from terms to signed weights, and both
players minimise theirs: what the paper has the encoder maximise stands here with a minus. A new term is one function
here, one weight in `config.WeightsConfig`, and one entry in the losses of `closed_loop` below.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ictrl.parallel.sharing import mean, means, shared, total
from ictrl.shapes import Float
from ictrl.theory.rates import TranscriptionRates, transcription_rates
from ictrl.theory.statistics import ClassLayout, class_moments

TINY = 1e-6  # added to a variance that may be 0


@dataclass(frozen=True)
class Transcription:
    """What a step has seen of the loop X → Z → X̂ → Ẑ. Rows are new images first, then features drawn from memory.

    Where processes share a batch, rows are those of this process, and every term is that of the whole batch.
    """

    Z: Float[Tensor, "n d"]
    Z_hat: Float[Tensor, "n d"]
    """f(X̂), row by row of the same class as Z"""
    X_hat: Float[Tensor, "n c h w"]
    layout: ClassLayout
    """classes of the rows: old ones first, then those being learned; the counts are those of the whole batch"""
    old_classes: int
    new_rows: int
    eps_sq: float
    Z_old: Float[Tensor, "m d"]
    """features drawn from memory; no rows on a first task"""
    Z_before: Float[Tensor, "new d"] | None = None
    """features of the new images when the task began, where something is distilled"""
    Z_hat_before: Float[Tensor, "m d"] | None = None
    """features of the replayed images under the encoder of that time, likewise"""
    X_before: Float[Tensor, "m c h w"] | None = None
    """images of Z_old by the decoder of that time, where somebody needs them"""
    stages_hat: list[Tensor] | None = None
    """X̂ and the activations of the encoder's stages on it, where features are matched"""
    stages_new: list[Tensor] | None = None
    """the same on the new images"""
    stages_before: list[Tensor] | None = None
    """the same on X_before"""

    @cached_property
    def rates(self) -> TranscriptionRates:
        """All of ΔR(Z), ΔR(Ẑ) and ΔR(Zⱼ, Ẑⱼ), whose log-determinants are computed at once."""
        moments = total(class_moments(torch.stack([self.Z, self.Z_hat]), self.layout))
        return transcription_rates(moments, self.layout.counts.expand(2, -1), self.eps_sq)


Term = Callable[[Transcription], Float[Tensor, ""]]
"""A number to be raised or lowered; its name in logs is that of the function."""

Loss = Mapping[Term, float]
"""What a player minimises: terms with their signed weights."""


def needs(*names: str) -> Callable[[Term], Term]:
    """Mark a term that looks at what is computed only on demand: `Z_before`, `Z_hat_before`, `X_before`, `stages`."""

    def mark(term: Term) -> Term:
        term.needs = frozenset(names)  # type: ignore[attr-defined]
        return term

    return mark


def reduction(seen: Transcription) -> Float[Tensor, ""]:
    """ΔR(Z)"""
    return seen.rates.reduction


def reduction_hat(seen: Transcription) -> Float[Tensor, ""]:
    """ΔR(Ẑ)"""
    return seen.rates.reduction_hat


def distance_new(seen: Transcription) -> Float[Tensor, ""]:
    """Σ ΔR(Zⱼ, Ẑⱼ) over the classes being learned"""
    return seen.rates.distance[seen.old_classes :].sum()


def distance_old(seen: Transcription) -> Float[Tensor, ""]:
    """Σ ΔR(Zⱼ, Ẑⱼ) over the classes in memory; 0 on a first task"""
    return seen.rates.distance[: seen.old_classes].sum()


@needs("Z_before")
def distill_new(seen: Transcription) -> Float[Tensor, ""]:
    """How far the new images' features have moved since the task began"""
    assert seen.Z_before is not None
    return mean_squared_distance(seen.Z[: seen.new_rows], seen.Z_before)


@needs("Z_hat_before")
def distill_replayed(seen: Transcription) -> Float[Tensor, ""]:
    """How far the features of images replayed from memory have moved since the task began"""
    assert seen.Z_hat_before is not None
    return mean_squared_distance(seen.Z_hat[seen.new_rows :], seen.Z_hat_before)


def loop(seen: Transcription) -> Float[Tensor, ""]:
    """How far features drawn from memory come back from where they set out: f(g(z)) from z, at unit length"""
    return mean_squared_distance(seen.Z_hat[seen.new_rows :], normalize(seen.Z_old, dim=1))


@needs("X_before")
def redrawn(seen: Transcription) -> Float[Tensor, ""]:
    """How much the images of features drawn from memory have changed since the task began, per pixel"""
    assert seen.X_before is not None
    return mean((seen.X_hat[seen.new_rows :] - seen.X_before).float().square())


@needs("stages")
def match_new(seen: Transcription) -> Float[Tensor, ""]:
    """How far new images and what the decoder makes of them are apart, as such and to the encoder's stages"""
    assert seen.stages_hat is not None
    assert seen.stages_new is not None
    return unexplained([stage[: seen.new_rows] for stage in seen.stages_hat], seen.stages_new)


@needs("stages", "X_before")
def match_replayed(seen: Transcription) -> Float[Tensor, ""]:
    """The same for images of features drawn from memory and those that the decoder of before draws of them"""
    assert seen.stages_hat is not None
    assert seen.stages_before is not None
    return unexplained([stage[seen.new_rows :] for stage in seen.stages_hat], seen.stages_before)


def unexplained(stages: list[Tensor], targets: list[Tensor]) -> Float[Tensor, ""]:
    """Mean over the stages of the mean squared distance from their targets, as a share of the targets' variance.

    >>> round(float(unexplained([torch.zeros(4, 2)], [torch.tensor([[-1.0, 1.0]] * 4)])), 5)
    1.0
    """
    pairs = [(stage.float(), target.float()) for stage, target in zip(stages, targets, strict=True)]
    errors = means(*((stage - target).square() for stage, target in pairs))
    return (errors / (_variances([target for _, target in pairs]) + TINY)).mean()


def _variances(targets: list[Tensor]) -> Float[Tensor, " stages"]:
    """Of all numbers of each, the rows of other processes too."""
    if shared() is None:
        return torch.stack([target.var(correction=0) for target in targets])
    return means(*((target - centre).square() for target, centre in zip(targets, means(*targets))))


def mean_squared_distance(Z: Float[Tensor, "n d"], target: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
    """Mean over rows of ‖z − target‖²."""
    return mean((Z - target).square().sum(1))


class Objective(NamedTuple):
    """Both players' losses."""

    encoder: Loss
    decoder: Loss

    def need(self, name: str) -> bool:
        """Whether some term looks at this part of what a step has seen."""
        return any(name in getattr(term, "needs", ()) for loss in self for term in loss)


def closed_loop(weights: Mapping[str, float], first: bool) -> Objective:
    """The game with these weights, by the names of `WeightsConfig`; a first task has no old classes.

    Terms that cost something to compute are left out where their weight is 0.

    >>> encoder, decoder = closed_loop({"lambda_new": 3.0, "gamma_old": 1.0}, first=False)
    >>> {term.__name__: weight for term, weight in encoder.items()}
    {'reduction': -1.0, 'reduction_hat': -1.0, 'distance_new': -3.0, 'distance_old': 1.0}
    >>> decoder[distance_new], decoder[distance_old]
    (3.0, 1.0)
    """
    lambda_new, gamma_old = weights["lambda_new"], weights["gamma_old"]
    encoder: dict[Term, float] = {
        reduction: -1.0,
        reduction_hat: -1.0,
        distance_new: -lambda_new,
        distance_old: gamma_old,
    }
    decoder: dict[Term, float] = {
        reduction: 1.0,
        reduction_hat: 1.0,
        distance_new: lambda_new,
        distance_old: gamma_old,
    }
    decoder |= _weighed(weights, match_new)
    if not first:
        encoder |= _weighed(weights, distill_new, distill_replayed, loop)
        decoder |= _weighed(weights, loop, redrawn, match_replayed)
    return Objective(encoder, decoder)


def _weighed(weights: Mapping[str, float], *terms: Term) -> dict[Term, float]:
    """Terms to be paid for, each with the weight of its own name."""
    found = {term: weights.get(term_name(term), 0.0) for term in terms}
    return {term: weight for term, weight in found.items() if weight}


def evaluate(loss: Loss, seen: Transcription) -> tuple[Float[Tensor, ""], dict[str, Float[Tensor, ""]]]:
    """The loss, and every term by name, unweighted and unsigned, for logs."""
    values = {term: term(seen) for term in loss}
    total = sum((weight * values[term] for term, weight in loss.items()), start=torch.zeros((), device=seen.Z.device))
    return total, {term_name(term): value.detach() for term, value in values.items()}


def term_name(term: Term) -> str:
    """What logs call a term."""
    return getattr(term, "__name__", type(term).__name__)
