"""The two sides of the game hold the paper's terms with the paper's signs."""

import pytest
import torch

from ictrl.theory.objectives import Terms, anchor, decoder_objective, encoder_objective, transcription_terms
from ictrl.theory.rates import class_layout, class_moments, rate_distance, rate_reduction


def terms(**values: float) -> Terms:
    everything = {"reduction": 2.0, "reduction_hat": 3.0, "distance_new": 5.0, "distance_old": 7.0, **values}
    return Terms(**{name: torch.tensor(value) for name, value in everything.items()})


def test_players_quarrel_over_new_classes_and_agree_on_old_ones() -> None:
    assert float(encoder_objective(terms(), lambda_new=10.0, gamma_old=0.5)) == 2 + 3 + 10 * 5 - 0.5 * 7
    assert float(decoder_objective(terms(), lambda_new=10.0, gamma_old=0.5)) == 2 + 3 + 10 * 5 + 0.5 * 7


def test_anchors_cost_the_encoder() -> None:
    held = terms(anchor_new=0.25, anchor_replayed=0.5)
    plain = float(encoder_objective(held, 1.0, 1.0))
    assert float(encoder_objective(held, 1.0, 1.0, anchor_new=4.0, anchor_replayed=6.0)) == plain - 4 * 0.25 - 6 * 0.5
    assert float(encoder_objective(terms(), 1.0, 1.0, anchor_new=4.0, anchor_replayed=6.0)) == plain


def test_terms_that_are_not_there_are_not_named() -> None:
    assert list(terms().named()) == ["reduction", "reduction_hat", "distance_new", "distance_old"]
    assert list(terms(anchor_new=1.0).named())[-1] == "anchor_new"


def test_terms_are_the_rates_of_old_and_new_classes(generator: torch.Generator) -> None:
    Z, Z_hat = torch.randn(2, 60, 6, dtype=torch.float64, generator=generator)
    y = torch.randint(5, (60,), generator=generator)
    layout = class_layout(y, 5, 6, torch.float64)
    n, S, S_hat = layout.counts, class_moments(Z, layout), class_moments(Z_hat, layout)
    found = transcription_terms(Z, Z_hat, layout, old_classes=3, eps_sq=0.5)
    distance = rate_distance(S, n, S_hat, n, 0.5)
    assert torch.allclose(found.reduction, rate_reduction(S, n, 0.5))
    assert torch.allclose(found.reduction_hat, rate_reduction(S_hat, n, 0.5))
    assert torch.allclose(found.distance_old, distance[:3].sum())
    assert torch.allclose(found.distance_new, distance[3:].sum())


def test_one_class_alone_is_trained_by_its_distance(generator: torch.Generator) -> None:
    Z, Z_hat = (torch.randn(20, 6, generator=generator).requires_grad_() for _ in range(2))
    found = transcription_terms(Z, Z_hat, class_layout(torch.zeros(20, dtype=torch.long), 1, 6), 0, 1.0)
    assert float(found.reduction.detach()) == pytest.approx(0.0, abs=1e-5)
    assert float(found.distance_old.detach()) == 0.0
    encoder_objective(found, 1.0, 1.0).backward()
    assert Z.grad is not None
    assert float(Z.grad.norm()) > 1e-4


def test_anchor_is_the_mean_squared_distance() -> None:
    Z, before = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.0, 0.0], [0.0, 3.0]])
    assert float(anchor(Z, before)) == (1 + 4) / 2
