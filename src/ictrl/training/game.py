"""The minimax game: encoder and decoder take turns on the rates of X → Z → X̂ → Ẑ.

One *step* shows both players the same new images and the same features drawn from old memory. The encoder moves first;
the decoder answers the encoder that has just moved. What each of them wants is its loss (`theory.objectives`).

BatchNorm. The first task trains in the ordinary way. Afterwards the statistics are frozen for good and only scale and
shift go on learning: with statistics of new images alone the features of every old class would shift at once, and no
objective sees that.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ictrl.nets.wrappers import ImageEncoder
from ictrl.parallel.sharing import add_gradients
from ictrl.shapes import Float
from ictrl.theory.objectives import Objective, Transcription, evaluate
from ictrl.theory.statistics import ClassLayout
from ictrl.training.players import Players, untrained
from ictrl.training.profiler import Lap, untimed


@dataclass(frozen=True)
class Batch:
    """What one step is played on. Classes are numbered: old ones first, then those being learned.

    Where processes share a batch, rows are those of this process, and only the layout's counts are of all.
    """

    X: Float[Tensor, "n c h w"]
    """new images"""
    Z_before: Float[Tensor, "n d"] | None
    """their features when the task began; None where nothing is distilled"""
    Z_old: Float[Tensor, "m d"]
    """features drawn from memory; no rows on a first task"""
    X_before: Float[Tensor, "m c h w"] | None
    """their images by the decoder as it was when the task began; None where nobody needs them"""
    layout: ClassLayout
    """classes of the n new and m old rows, in this order"""
    old_classes: int


@dataclass(frozen=True)
class Rules:
    """What the players play for, and how."""

    objective: Objective
    eps_sq: float
    encoder_before: nn.Module | None = None
    """the encoder as it was when the task began, if its features of replayed images are distilled"""
    frozen_replay: bool = False
    """old memory is replayed by the decoder of before, and not by the decoder as it is"""
    lap: Lap = untimed


def encoder_step(players: Players, batch: Batch, rules: Rules) -> dict[str, Tensor]:
    """The encoder descends its loss by one step; returns the terms it saw before moving."""
    encoder, decoder, lap = players.encoder, players.decoder, rules.lap
    n = len(batch.X)
    with lap("encoder: f(X)"):
        Z_new = encoder(batch.X)
    # The decoder is the opponent here and its images are given. The paper's Ẑ_new(θ, η) depends on θ through X̂ as well;
    # that path is cut, as is usual where two players take turns, and saves a pass back through the decoder.
    with lap("encoder: g(Z)"), torch.no_grad():
        if rules.frozen_replay and batch.X_before is not None:
            X_hat = torch.cat([decoder(Z_new), batch.X_before])
        else:
            X_hat = decoder(torch.cat([Z_new, batch.Z_old]))
    with lap("encoder: f(X_hat)"):
        Z_hat = encoder(X_hat)
    with lap("encoder: distillation"), torch.no_grad():  # the encoder of before is a fixed target
        Z_hat_before = None if rules.encoder_before is None else rules.encoder_before(X_hat[n:])
    with lap("encoder: objective"):
        seen = _seen(torch.cat([Z_new, batch.Z_old]), Z_hat, X_hat, Z_hat_before, batch, rules)
        loss, terms = evaluate(rules.objective.encoder, seen)
    _update("encoder", players.encoder_optimiser, loss, lap)
    return terms


def decoder_step(players: Players, batch: Batch, rules: Rules) -> dict[str, Tensor]:
    """The decoder descends its loss by one step; returns the terms it saw before moving."""
    encoder, decoder, lap = players.encoder, players.decoder, rules.lap
    matched = rules.objective.need("stages")
    with lap("decoder: f(X)"), torch.no_grad():  # features of images and memory are the decoder's input, not its doing
        Z_new, stages_new = _looked_at(batch.X, encoder, matched)
        # with a frozen replay, the decoder is compared with its former self and not with memory
        Z_old = encoder(batch.X_before) if rules.frozen_replay and batch.X_before is not None else batch.Z_old
        stages_before = None if batch.X_before is None else _looked_at(batch.X_before, encoder, matched)[1]
    with untrained(encoder):
        with lap("decoder: g(Z)"):
            X_hat = decoder(torch.cat([Z_new, batch.Z_old]))
        with lap("decoder: f(X_hat)"):
            Z_hat, stages_hat = _looked_at(X_hat, encoder, matched)
        with lap("decoder: objective"):
            seen = _seen(torch.cat([Z_new, Z_old]), Z_hat, X_hat, None, batch, rules)
            seen = replace(seen, stages_new=stages_new, stages_hat=stages_hat, stages_before=stages_before)
            loss, terms = evaluate(rules.objective.decoder, seen)
        _update("decoder", players.decoder_optimiser, loss, lap)
    return terms


def _looked_at(X: Tensor, encoder: ImageEncoder, stages: bool) -> tuple[Tensor, list[Tensor] | None]:
    """Features of images and, where they are asked for, all that lies on the way to them: image and stages."""
    if not stages:
        return encoder(X), None
    Z, found = encoder.with_stages(X)
    return Z, [X, *found]


def _seen(
    Z: Tensor, Z_hat: Tensor, X_hat: Tensor, Z_hat_before: Tensor | None, batch: Batch, rules: Rules
) -> Transcription:
    return Transcription(
        Z,
        Z_hat,
        X_hat,
        batch.layout,
        batch.old_classes,
        new_rows=len(batch.X),
        eps_sq=rules.eps_sq,
        Z_old=batch.Z_old,
        Z_before=batch.Z_before,
        Z_hat_before=Z_hat_before,
        X_before=batch.X_before,
    )


def _update(player: str, optimiser: torch.optim.Optimizer, loss: Tensor, lap: Lap) -> None:
    optimiser.zero_grad()
    with lap(f"{player}: gradient"):
        loss.backward()
        add_gradients(optimiser)
    with lap(f"{player}: update"):
        optimiser.step()
