"""Each player moves in its own direction, and sees what the paper says it sees."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support import pictures, tiny_memory, tiny_players
from torch import Tensor

from ictrl.config import WeightsConfig
from ictrl.nets.wrappers import ImageEncoder, to_float
from ictrl.theory.objectives import Objective, Transcription, closed_loop
from ictrl.theory.statistics import class_layout
from ictrl.training.game import Batch, Rules, decoder_step, encoder_step
from ictrl.training.players import Players
from ictrl.training.schedule import set_learning_rate

D, EPS_SQ = 16, 1.0
WEIGHTS = {False: WeightsConfig(lambda_new=0.7), True: WeightsConfig(lambda_new=3.0)}  # in a first task, in a later one
DISTILLATION = {"distill_new": 5.0, "distill_replayed": 20.0, "loop": 3.0, "redrawn": 2.0}


def objective(old: bool, distilled: bool = False) -> Objective:
    return closed_loop({**vars(WEIGHTS[old]), **(DISTILLATION if distilled else {})}, first=not old)


def batch(encoder: ImageEncoder, old: bool, former: Players | None = None) -> Batch:
    """Classes 2 and 3 are new, with 0 and 1 in memory; without, they are the first two."""
    images, labels = pictures([2, 3])
    X = to_float(images)
    if not old:
        return Batch(X, None, torch.zeros(0, D), None, class_layout(labels - 2, 2, D), old_classes=0)
    Z_old, y_old = tiny_memory(encoder).sample(4, torch.Generator().manual_seed(0))
    with torch.no_grad():
        Z_before, X_before = (former.encoder(X), former.decoder(Z_old)) if former else (None, None)
    return Batch(X, Z_before, Z_old, X_before, class_layout(torch.cat([labels, y_old]), 4, D), old_classes=2)


def former_players() -> Players:
    players = tiny_players(seed=9)
    players.encoder.requires_grad_(False)
    players.decoder.requires_grad_(False)
    return players


def players_copy(pair: Players) -> Players:
    other = tiny_players()
    other.encoder.load_state_dict(pair.encoder.state_dict())
    other.decoder.load_state_dict(pair.decoder.state_dict())
    return other


def value(loss: dict[str, float], terms: dict[str, Tensor]) -> float:
    """A loss from the terms that a step returns, with signs written out here."""
    assert set(loss) == set(terms)
    return sum(weight * float(terms[name]) for name, weight in loss.items())


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("distilled", [False, True])
def test_an_encoder_step_raises_what_the_paper_has_it_maximise(old: bool, distilled: bool) -> None:
    pair, former = tiny_players(1e-4), former_players()
    played = batch(pair.encoder, old, former)
    rules = Rules(objective(old, distilled), EPS_SQ, former.encoder if distilled and old else None)
    sought = {"reduction": 1, "reduction_hat": 1, "distance_new": 3 if old else 0.7, "distance_old": -1}
    if distilled and old:
        sought |= {"distill_new": -5, "distill_replayed": -20, "loop": -3}

    def gained() -> float:
        return value(sought, encoder_step(players_copy(pair), played, rules))  # seen before the copy moves

    before, decoder = gained(), [p.clone() for p in pair.decoder.parameters()]
    encoder_step(pair, played, rules)
    assert gained() > before
    assert all(torch.equal(a, b) for a, b in zip(decoder, pair.decoder.parameters()))
    assert all(p.grad is None for p in pair.decoder.parameters())


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("distilled", [False, True])
def test_a_decoder_step_lowers_what_the_paper_has_it_minimise(old: bool, frozen: bool, distilled: bool) -> None:
    pair = tiny_players(1e-4)
    played = batch(pair.encoder, old, former_players())
    rules = Rules(objective(old, distilled), EPS_SQ, frozen_replay=frozen)
    paid = {"reduction": 1, "reduction_hat": 1, "distance_new": 3 if old else 0.7, "distance_old": 1}
    if distilled and old:
        paid |= {"loop": 3, "redrawn": 2}

    def cost() -> float:
        return value(paid, decoder_step(players_copy(pair), played, rules))

    before, encoder = cost(), [p.clone() for p in pair.encoder.parameters()]
    decoder_step(pair, played, rules)
    assert cost() < before
    assert all(torch.equal(a, b) for a, b in zip(encoder, pair.encoder.parameters()))
    assert all(p.grad is None for p in pair.encoder.parameters())
    assert all(p.requires_grad for p in pair.encoder.parameters())


# What the players see, from images and networks alone


def rate(Z: NDArray[np.float64]) -> float:
    n, d = Z.shape
    return 0.5 * float(np.linalg.slogdet(np.eye(d) + d / (n * EPS_SQ) * Z.T @ Z)[1])


def reference(Z: Tensor, Z_hat: Tensor, y: Tensor) -> dict[str, float]:
    """The four terms of a game in which classes 2 and 3 are new."""
    parts = {j: (Z[y == j].double().numpy(), Z_hat[y == j].double().numpy()) for j in range(4)}
    distance = {j: rate(np.concatenate(pair)) - rate(pair[0]) / 2 - rate(pair[1]) / 2 for j, pair in parts.items()}

    def reduction(which: int, whole: Tensor) -> float:
        shares = sum(len(pair[which]) / len(y) * rate(pair[which]) for pair in parts.values())
        return rate(whole.double().numpy()) - shares

    return {
        "reduction": reduction(0, Z),
        "reduction_hat": reduction(1, Z_hat),
        "distance_new": distance[2] + distance[3],
        "distance_old": distance[0] + distance[1],
    }


@pytest.mark.parametrize("frozen", [False, True])
def test_both_players_see_the_loop_as_it_was_before_they_moved(frozen: bool) -> None:
    """X → Z → X̂ → Ẑ, and memory → X̂ → Ẑ; with a frozen replay, by the decoder of before."""
    pair, former = tiny_players(), former_players()
    played = batch(pair.encoder, old=True, former=former)
    _, labels = pictures([2, 3])
    y = torch.cat([labels, torch.tensor([0] * 12 + [1] * 12)])
    with torch.no_grad():
        Z_new, X_old = pair.encoder(played.X), pair.decoder(played.Z_old)
        shown_old = former.decoder(played.Z_old) if frozen else X_old
        X_hat = pair.decoder(Z_new)
        encoder_sees = (
            torch.cat([Z_new, played.Z_old]),
            torch.cat([pair.encoder(X_hat), pair.encoder(shown_old)]),
        )
        decoder_sees = (
            torch.cat([Z_new, pair.encoder(shown_old) if frozen else played.Z_old]),
            torch.cat([pair.encoder(X_hat), pair.encoder(X_old)]),
        )
    rules = Rules(objective(old=True), EPS_SQ, frozen_replay=frozen)
    for step, seen in ((encoder_step, encoder_sees), (decoder_step, decoder_sees)):
        terms = step(players_copy(pair), played, rules)
        expected = reference(*seen, y)
        assert {name: float(term) for name, term in terms.items()} == pytest.approx(expected, rel=1e-4, abs=1e-4)


# Terms of one's own


def test_a_term_added_to_a_loss_is_seen_and_changes_the_step() -> None:
    def spread(seen: Transcription) -> Tensor:
        """How far features lie from their mean; the loop's shapes are there for any term."""
        assert seen.Z.shape == seen.Z_hat.shape == (len(seen.X_hat), D)
        return (seen.Z - seen.Z.mean(0)).square().sum(1).mean()

    plain, held = tiny_players(), tiny_players()
    played = batch(plain.encoder, old=True)
    bare = objective(old=True)
    own = Objective({**bare.encoder, spread: 1e3}, {**bare.decoder, spread: 0.0})
    encoder_step(plain, played, Rules(bare, EPS_SQ))
    seen = [encoder_step(held, played, Rules(own, EPS_SQ))["spread"]]
    assert not torch.equal(*(next(pair.encoder.parameters()) for pair in (plain, held)))
    for _ in range(10):
        seen.append(encoder_step(held, played, Rules(own, EPS_SQ))["spread"])
    assert float(seen[-1]) < 0.8 * float(seen[0])  # it is paid for, and falls
    assert "spread" in decoder_step(held, played, Rules(own, EPS_SQ))


def test_a_term_is_given_what_it_needs_and_nothing_else() -> None:
    given: list[Transcription] = []

    def look(seen: Transcription) -> Tensor:
        given.append(seen)
        return seen.Z_hat.sum()

    pair, former = tiny_players(), former_players()
    played = batch(pair.encoder, old=True, former=former)
    encoder_step(pair, played, Rules(Objective({look: 1.0}, {}), EPS_SQ, encoder_before=former.encoder))
    decoder_step(pair, played, Rules(Objective({}, {look: 1.0}), EPS_SQ))
    encoder_seen, decoder_seen = given
    assert encoder_seen.Z_hat_before is not None
    assert torch.allclose(encoder_seen.Z_hat_before, former.encoder(encoder_seen.X_hat[40:]), atol=1e-6)
    assert decoder_seen.Z_hat_before is None
    for seen in given:
        assert (seen.new_rows, seen.old_classes, seen.eps_sq) == (40, 2, EPS_SQ)
        assert seen.Z_before is played.Z_before
        assert seen.X_before is played.X_before
        assert torch.equal(seen.Z_old, played.Z_old)


# Gradients


def test_images_are_given_to_the_encoder_and_features_to_the_decoder() -> None:
    """Each player's gradient goes through its own network alone."""
    leaves: dict[str, bool] = {}

    def look(seen: Transcription) -> Tensor:
        leaves.update(Z=seen.Z.requires_grad, X_hat=seen.X_hat.requires_grad, Z_hat=seen.Z_hat.requires_grad)
        return seen.Z_hat.sum()

    pair = tiny_players()
    played = batch(pair.encoder, old=True)
    encoder_step(pair, played, Rules(Objective({look: 1.0}, {}), EPS_SQ))
    assert leaves == {"Z": True, "X_hat": False, "Z_hat": True}
    decoder_step(pair, played, Rules(Objective({}, {look: 1.0}), EPS_SQ))
    assert leaves == {"Z": False, "X_hat": True, "Z_hat": True}


def test_at_a_rate_of_nothing_nothing_moves() -> None:
    still, moved = tiny_players(), tiny_players()
    set_learning_rate(still.encoder_optimiser, 0.0)
    for pair in (still, moved):
        encoder_step(pair, batch(pair.encoder, old=True), Rules(objective(old=True), EPS_SQ))
    weight, other = (next(pair.encoder.parameters()).detach() for pair in (still, moved))
    assert torch.equal(weight, next(tiny_players().encoder.parameters()))
    assert not torch.equal(weight, other)
