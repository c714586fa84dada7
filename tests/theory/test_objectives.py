"""Both players hold the paper's terms with the paper's signs, and minimise."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from ictrl.config import WeightsConfig
from ictrl.theory.objectives import (
    Loss,
    Objective,
    Transcription,
    closed_loop,
    distance_new,
    distance_old,
    distill_new,
    distill_replayed,
    evaluate,
    loop,
    match_new,
    match_replayed,
    mean_squared_distance,
    needs,
    redrawn,
    reduction,
    reduction_hat,
    term_name,
    unexplained,
)
from ictrl.theory.rates import rate_distance, rate_reduction
from ictrl.theory.statistics import class_layout, class_moments

Array = NDArray[np.float64]

EPS_SQ, D, OLD, CLASSES = 0.7, 6, 2, 5
WEIGHTS = vars(
    WeightsConfig(
        lambda_new=3.0,
        gamma_old=0.5,
        distill_new=5.0,
        distill_replayed=20.0,
        loop=2.0,
        redrawn=7.0,
        match_new=11.0,
        match_replayed=13.0,
    )
)
TERMS = {"reduction": 2.0, "reduction_hat": 3.0, "distance_new": 5.0, "distance_old": 7.0}


def seen(first: bool = False) -> tuple[Transcription, Tensor]:
    """A step on 30 new images of three classes and, after a first task, 12 features of two old ones; all in float64."""
    generator = torch.Generator().manual_seed(0)

    def unit(n: int) -> Tensor:
        return torch.nn.functional.normalize(torch.randn(n, D, dtype=torch.float64, generator=generator), dim=1)

    def image(n: int) -> Tensor:
        return torch.rand(n, 1, 4, 4, dtype=torch.float64, generator=generator)

    new, old, before = 30, 0 if first else 12, 0 if first else OLD
    y = torch.cat([before + torch.arange(new) % (CLASSES - OLD), torch.arange(old) % OLD])
    Z_old = 1.1 * unit(old)  # what memory draws is nearly of unit length
    return Transcription(
        Z=torch.cat([unit(new), Z_old]),
        Z_hat=unit(new + old),
        X_hat=image(new + old),
        layout=class_layout(y, before + CLASSES - OLD, D, torch.float64),
        old_classes=before,
        new_rows=new,
        eps_sq=EPS_SQ,
        Z_old=Z_old,
        Z_before=unit(new),
        Z_hat_before=unit(old),
        X_before=image(old),
        stages_hat=[image(new + old), unit(new + old)],
        stages_new=[image(new), unit(new)],
        stages_before=[image(old), unit(old)],
    ), y


# The formulas of the paper, written out


def rate(Z: Array) -> float:
    n, d = Z.shape
    return 0.5 * float(np.linalg.slogdet(np.eye(d) + d / (n * EPS_SQ) * Z.T @ Z)[1])


def reduced(Z: Array, y: Array) -> float:
    return rate(Z) - sum((y == j).mean() * rate(Z[y == j]) for j in np.unique(y))


def distances(Z: Array, Z_hat: Array, y: Array, classes: range) -> float:
    return sum(
        rate(np.concatenate([Z[y == j], Z_hat[y == j]])) - 0.5 * rate(Z[y == j]) - 0.5 * rate(Z_hat[y == j])
        for j in classes
    )


def squared(one: Tensor, other: Tensor) -> float:
    """Mean over rows of the squared distance."""
    return float(np.mean(np.sum((one.numpy() - other.numpy()) ** 2, axis=1)))


def test_a_first_task_is_a_tug_of_war() -> None:
    """`eq:MCR2-GAN-objective`: the encoder maximises what the decoder minimises."""
    step, y = seen(first=True)
    Z, Z_hat, labels = step.Z.numpy(), step.Z_hat.numpy(), y.numpy()
    value = reduced(Z, labels) + reduced(Z_hat, labels) + 3 * distances(Z, Z_hat, labels, range(3))
    encoder, decoder = (evaluate(loss, step)[0] for loss in closed_loop({**WEIGHTS, "match_new": 0.0}, first=True))
    assert float(encoder) == pytest.approx(-value)
    assert float(decoder) == pytest.approx(value)


def test_a_later_task_is_the_papers_relaxed_game() -> None:
    """`eqn:relaxed-max` for the encoder, negated, and `eqn:relaxed-min` for the decoder."""
    step, y = seen()
    Z, Z_hat, labels = step.Z.numpy(), step.Z_hat.numpy(), y.numpy()
    reductions = reduced(Z, labels) + reduced(Z_hat, labels)
    new, old = distances(Z, Z_hat, labels, range(OLD, CLASSES)), distances(Z, Z_hat, labels, range(OLD))
    paper = {"lambda_new": 10.0, "gamma_old": 0.5}
    encoder, decoder = (evaluate(loss, step)[0] for loss in closed_loop(paper, first=False))
    assert float(encoder) == pytest.approx(-(reductions + 10 * new - 0.5 * old))
    assert float(decoder) == pytest.approx(reductions + 10 * new + 0.5 * old)


def test_distillation_is_paid_for_by_who_moves() -> None:
    step, _ = seen()
    of_game = closed_loop({**dict.fromkeys(WEIGHTS, 0.0), "lambda_new": 3.0, "gamma_old": 0.5}, first=False)
    whole = closed_loop(WEIGHTS, first=False)
    extra = [float(evaluate(loss, step)[0] - evaluate(bare, step)[0]) for loss, bare in zip(whole, of_game)]
    assert step.Z_before is not None
    assert step.Z_hat_before is not None
    assert step.X_before is not None
    lengths = step.Z_old / step.Z_old.norm(dim=1, keepdim=True)
    came_back = squared(step.Z_hat[30:], lengths)
    moved = 5 * squared(step.Z[:30], step.Z_before) + 20 * squared(step.Z_hat[30:], step.Z_hat_before)
    pixels = np.mean((step.X_hat[30:].numpy() - step.X_before.numpy()) ** 2)
    matched = 11 * float(match_new(step)) + 13 * float(match_replayed(step))
    assert extra == pytest.approx([moved + 2 * came_back, 2 * came_back + 7 * pixels + matched], rel=1e-6)


def test_stages_are_matched_row_by_row_as_a_share_of_their_variance() -> None:
    step, _ = seen()
    assert step.stages_hat is not None
    for term, rows, targets in (
        (match_new, slice(0, 30), step.stages_new),
        (match_replayed, slice(30, 42), step.stages_before),
    ):
        assert targets is not None
        shares = [np.mean((a[rows] - b).numpy() ** 2) / np.var(b.numpy()) for a, b in zip(step.stages_hat, targets)]
        assert float(term(step)) == pytest.approx(np.mean(shares), rel=1e-4)
    assert float(unexplained(step.stages_hat, step.stages_hat)) == 0


def test_the_decoder_alone_matches_new_images_in_first_tasks_too() -> None:
    encoder, decoder = closed_loop(WEIGHTS, first=True)
    assert (signed(decoder)["match_new"], "match_replayed" in signed(decoder)) == (11, False)
    assert "match_new" not in signed(encoder)


def test_players_quarrel_over_new_classes_and_agree_on_old_ones() -> None:
    encoder, decoder = closed_loop(WEIGHTS, first=False)
    assert signed(encoder) == {
        "reduction": -1, "reduction_hat": -1, "distance_new": -3, "distance_old": 0.5,
        "distill_new": 5, "distill_replayed": 20, "loop": 2,
    }  # fmt: skip
    assert signed(decoder) == {
        "reduction": 1, "reduction_hat": 1, "distance_new": 3, "distance_old": 0.5, "loop": 2, "redrawn": 7,
        "match_new": 11, "match_replayed": 13,
    }  # fmt: skip


def signed(loss: Loss) -> dict[str, float]:
    return {term_name(term): weight for term, weight in loss.items()}


@pytest.mark.parametrize("name", WEIGHTS)
def test_every_weight_weighs_what_it_names(name: str) -> None:
    """A setting that no loss reads would be a setting for nothing."""
    term = {"lambda_new": "distance_new", "gamma_old": "distance_old"}.get(name, name)
    for loss, other in zip(closed_loop(WEIGHTS, first=False), closed_loop({**WEIGHTS, name: 99.0}, first=False)):
        changed = {key: abs(weight) for key, weight in signed(other).items() if signed(loss)[key] != weight}
        assert changed == ({term: 99.0} if term in signed(loss) else {})
    assert any(term in signed(loss) for loss in closed_loop(WEIGHTS, first=False))


def test_terms_that_weigh_nothing_are_not_computed() -> None:
    """But for those of the game itself: logs show what a player neglects."""
    for loss in closed_loop(dict.fromkeys(WEIGHTS, 0.0), first=False):
        assert list(signed(loss)) == list(TERMS)
    for loss in closed_loop({**WEIGHTS, "match_new": 0.0}, first=True):  # nothing to hold on to yet
        assert list(signed(loss)) == list(TERMS)


# Terms


def test_terms_are_the_rates_of_old_and_new_classes() -> None:
    step, _ = seen()
    n, S, S_hat = step.layout.counts, class_moments(step.Z, step.layout), class_moments(step.Z_hat, step.layout)
    distance = rate_distance(S, n, S_hat, n, EPS_SQ)
    assert torch.allclose(reduction(step), rate_reduction(S, n, EPS_SQ))
    assert torch.allclose(reduction_hat(step), rate_reduction(S_hat, n, EPS_SQ))
    assert torch.allclose(distance_old(step), distance[:OLD].sum())
    assert torch.allclose(distance_new(step), distance[OLD:].sum())
    assert float(distance_old(seen(first=True)[0])) == 0


def test_all_rates_of_a_step_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from ictrl.theory import objectives

    calls: list[float] = []
    real = objectives.transcription_rates
    monkeypatch.setattr(objectives, "transcription_rates", lambda *given: calls.append(1.0) or real(*given))
    evaluate(closed_loop(WEIGHTS, first=False).encoder, seen()[0])
    assert len(calls) == 1


def test_one_class_alone_is_trained_by_its_distance(generator: torch.Generator) -> None:
    Z, Z_hat = (torch.randn(20, D, generator=generator).requires_grad_() for _ in range(2))
    layout = class_layout(torch.zeros(20, dtype=torch.long), 1, D)
    step = Transcription(Z, Z_hat, torch.zeros(20, 1, 4, 4), layout, 0, 20, 1.0, Z_old=torch.zeros(0, D))
    loss, terms = evaluate(closed_loop(WEIGHTS, first=True).encoder, step)
    assert float(terms["reduction"]) == pytest.approx(0.0, abs=1e-5)
    assert float(terms["distance_old"]) == 0.0
    loss.backward()
    assert Z.grad is not None
    assert float(Z.grad.norm()) > 1e-4


def test_what_is_distilled_are_rows_of_the_right_kind() -> None:
    """New images' features are held by `distill_new`, replayed ones by the others; each notices its own alone."""
    step, _ = seen()
    for name, rows, terms in (
        ("Z", slice(0, 30), {distill_new}),
        ("Z_hat", slice(30, 42), {distill_replayed, loop}),
        ("X_hat", slice(30, 42), {redrawn}),
    ):
        other = getattr(step, name).clone()
        other[rows] = -other[rows]
        moved = replace(step, **{name: other})
        every = (distill_new, distill_replayed, loop, redrawn)
        assert {term for term in every if not torch.equal(term(moved), term(step))} == terms


def test_mean_squared_distance() -> None:
    Z, before = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.0, 0.0], [0.0, 3.0]])
    assert float(mean_squared_distance(Z, before)) == (1 + 4) / 2


# Losses as data


def test_a_loss_is_evaluated_with_its_signs_and_reported_without() -> None:
    def two(step: Transcription) -> Tensor:
        return step.Z.sum() * 0 + 2

    class Three:
        def __call__(self, step: Transcription) -> Tensor:
            return torch.tensor(3.0)

    step, _ = seen()
    step.Z.requires_grad_()
    value, terms = evaluate({two: -10.0, Three(): 0.5}, step)
    assert float(value.detach()) == -10 * 2 + 0.5 * 3
    assert value.requires_grad
    assert {name: float(term) for name, term in terms.items()} == {"two": 2, "Three": 3}
    assert not any(term.requires_grad for term in terms.values())
    assert float(evaluate({}, step)[0]) == 0


def test_the_value_is_in_the_digits_of_the_features() -> None:
    step, _ = seen()
    assert evaluate(closed_loop(WEIGHTS, first=False).encoder, step)[0].dtype == torch.float64


@pytest.mark.parametrize(
    ("weights", "needed"),
    [
        ({}, set()),
        ({"loop": 1.0}, set()),
        ({"distill_new": 1.0}, {"Z_before"}),
        ({"distill_replayed": 1.0}, {"Z_hat_before"}),
        ({"redrawn": 1.0}, {"X_before"}),
        (WEIGHTS, {"Z_before", "Z_hat_before", "X_before"}),
    ],
)
def test_only_what_some_term_looks_at_is_needed(weights: Mapping[str, float], needed: set[str]) -> None:
    whole = {"lambda_new": 1.0, "gamma_old": 1.0, **weights}
    for first, expected in ((False, needed), (True, set())):
        objective = closed_loop(whole, first=first)
        assert {name for name in ("Z_before", "Z_hat_before", "X_before") if objective.need(name)} == expected


def test_a_term_of_ones_own_says_what_it_needs() -> None:
    @needs("X_before", "Z_before")
    def own(step: Transcription) -> Tensor:
        return step.Z.sum()

    for objective in (Objective({own: 1.0}, {}), Objective({}, {own: -1.0})):
        assert objective.need("X_before")
        assert objective.need("Z_before")
        assert not objective.need("Z_hat_before")
    assert own(seen()[0]).shape == ()
