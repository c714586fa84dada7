"""Rates against an independent NumPy reference, and the properties that the mathematics promises."""

import pickle

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from ictrl.errors import NonFiniteError
from ictrl.theory.rates import coding_rate, rate_distance, rate_reduction, transcription_rates
from ictrl.theory.statistics import class_layout, class_moments

Array = NDArray[np.float64]

# n, d, k: one class, fewer and more rows than dimensions, more classes than rows, many classes, wide features
SIZES = [(7, 5, 1), (6, 20, 3), (200, 8, 4), (5, 6, 9), (3000, 4, 1000), (300, 512, 2), (1, 3, 1)]
EPS_SQ = 0.7


def features(n: int, d: int, k: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Unit-length Z and Ẑ in float64 and labels in any order; small classes may be empty."""
    generator = torch.Generator().manual_seed(seed)
    Z, Z_hat = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    y = torch.randint(k, (n,), generator=generator)
    return torch.nn.functional.normalize(Z), torch.nn.functional.normalize(Z_hat), y


def reference_rate(Z: Array) -> float:
    """R from the n×n side of the determinant: I + αZZᵀ has the eigenvalues of I + αZᵀZ, and ones."""
    n, d = Z.shape
    if n == 0:
        return 0.0
    return 0.5 * float(np.linalg.slogdet(np.eye(n) + d / (n * EPS_SQ) * Z @ Z.T)[1])


def reference(Z: Array, Z_hat: Array, y: NDArray[np.int64], k: int) -> tuple[float, float, Array]:
    def reduction(rows: Array) -> float:
        return reference_rate(rows) - sum((y == j).mean() * reference_rate(rows[y == j]) for j in range(k))

    distances = [
        reference_rate(np.concatenate([Z[y == j], Z_hat[y == j]]))
        - 0.5 * reference_rate(Z[y == j])
        - 0.5 * reference_rate(Z_hat[y == j])
        for j in range(k)
    ]
    return reduction(Z), reduction(Z_hat), np.array(distances)


def moments(Z: Tensor, y: Tensor, k: int) -> tuple[Tensor, Tensor]:
    layout = class_layout(y, k, Z.shape[1], Z.dtype)
    return class_moments(Z, layout), layout.counts


def both(Z: Tensor, Z_hat: Tensor, y: Tensor, k: int) -> tuple[Tensor, Tensor]:
    layout = class_layout(y, k, Z.shape[1], Z.dtype)
    return class_moments(torch.stack([Z, Z_hat]), layout), layout.counts.expand(2, k)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
@pytest.mark.parametrize(("n", "d", "k"), SIZES)
def test_agrees_with_numpy(n: int, d: int, k: int, dtype: torch.dtype, tolerance: float, device: str) -> None:
    Z, Z_hat, y = features(n, d, k)
    expected = reference(Z.numpy(), Z_hat.numpy(), y.numpy(), k)
    Z, Z_hat, y = Z.to(device, dtype), Z_hat.to(device, dtype), y.to(device)
    S, count = moments(Z, y, k)
    S_hat, count_hat = moments(Z_hat, y, k)
    rates = transcription_rates(*both(Z, Z_hat, y, k), EPS_SQ)
    for value, target in zip(rates, expected):
        scale = max(1.0, float(np.max(np.abs(target))))
        np.testing.assert_allclose(value.cpu().numpy(), target, rtol=0, atol=tolerance * scale)
    # the same quantities one by one
    assert torch.allclose(rate_reduction(S, count, EPS_SQ), rates.reduction)
    assert torch.allclose(rate_distance(S, count, S_hat, count_hat, EPS_SQ), rates.distance)


def objective(Z: Tensor, Z_hat: Tensor, y: Tensor, k: int) -> Tensor:
    rates = transcription_rates(*both(Z, Z_hat, y, k), EPS_SQ)
    weights = torch.arange(1, k + 1, dtype=Z.dtype)
    return rates.reduction + 2 * rates.reduction_hat + (weights * rates.distance).sum()


@pytest.mark.parametrize(("n", "d", "k"), [(7, 5, 1), (6, 9, 3), (20, 4, 5), (4, 34, 2)])
def test_gradient_in_closed_form(n: int, d: int, k: int) -> None:
    Z, Z_hat, y = features(n, d, k)
    assert torch.autograd.gradcheck(lambda a, b: objective(a, b, y, k), (Z.requires_grad_(), Z_hat.requires_grad_()))


def test_gradient_of_the_rate_alone() -> None:
    M = torch.randn(3, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    n = torch.tensor([4.0, 4.0, 0.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda m: coding_rate(m.transpose(1, 2) @ m, n, EPS_SQ), (M,))


@pytest.mark.parametrize("seed", range(5))
class TestProperties:
    def test_invariant_to_rotation_and_row_order(self, seed: int) -> None:
        Z, Z_hat, y = features(60, 7, 4, seed)
        Q = torch.linalg.qr(torch.randn(7, 7, dtype=Z.dtype, generator=torch.Generator().manual_seed(seed))).Q
        order = torch.randperm(60, generator=torch.Generator().manual_seed(seed))
        value = objective(Z, Z_hat, y, 4)
        assert torch.allclose(objective(Z @ Q, Z_hat @ Q, y, 4), value)
        assert torch.allclose(objective(Z[order], Z_hat[order], y[order], 4), value)

    def test_renaming_classes_only_permutes_distances(self, seed: int) -> None:
        Z, Z_hat, y = features(60, 7, 4, seed)
        names = torch.tensor([2, 0, 3, 1])
        before = transcription_rates(*both(Z, Z_hat, y, 4), EPS_SQ)
        after = transcription_rates(*both(Z, Z_hat, names[y], 4), EPS_SQ)
        assert torch.allclose(after.distance[names], before.distance)
        assert torch.allclose(after.reduction, before.reduction)

    def test_nothing_is_negative(self, seed: int) -> None:
        Z, Z_hat, y = features(40, 6, 3, seed)
        S, n = moments(Z, y, 3)
        rates = transcription_rates(*both(Z, Z_hat, y, 3), EPS_SQ)
        assert (coding_rate(S, n, EPS_SQ) >= 0).all()
        assert rates.reduction >= 0
        assert (rates.distance >= 0).all()

    def test_distance_to_itself_is_zero(self, seed: int) -> None:
        Z, Z_hat, y = features(40, 6, 3, seed)
        S, n = moments(Z, y, 3)
        assert torch.allclose(rate_distance(S, n, S, n, EPS_SQ), torch.zeros(3, dtype=Z.dtype), atol=1e-12)
        assert (rate_distance(S, n, *moments(Z_hat, y, 3), EPS_SQ) > 1e-3).all()


def test_zero_features_and_empty_classes_cost_nothing() -> None:
    assert coding_rate(torch.zeros(2, 3, 3), torch.tensor([5.0, 0.0]), 1.0).tolist() == [0.0, 0.0]
    S, n = moments(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), 2)
    rates = transcription_rates(torch.stack([S, S]), torch.stack([n, n]), 1.0)
    assert [float(value.sum()) for value in rates] == [0.0, 0.0, 0.0]


def test_an_empty_class_changes_nothing_and_gets_no_gradient() -> None:
    Z, Z_hat, y = features(30, 5, 2)
    assert torch.allclose(objective(Z, Z_hat, y, 2), objective(Z, Z_hat, y, 6))
    S, n = moments(Z, y, 3)
    S.requires_grad_()
    coding_rate(S, n, EPS_SQ).sum().backward()
    assert S.grad is not None
    assert float(S.grad[2].abs().sum()) == 0.0
    assert float(S.grad[0].abs().sum()) > 0.0


def test_one_class_has_no_rate_reduction() -> None:
    Z, _, y = features(30, 5, 1)
    assert float(rate_reduction(*moments(Z, y, 1), EPS_SQ)) == pytest.approx(0.0, abs=1e-12)


def test_half_precision_features_give_float32_rates() -> None:
    Z, _, y = features(50, 8, 2)
    layout = class_layout(y, 2, 8)
    S = class_moments(Z.bfloat16(), layout)
    assert S.dtype == torch.float32
    assert coding_rate(S, layout.counts, 1.0).dtype == torch.float32


def test_a_failed_cholesky_names_the_class_and_the_remedy() -> None:
    indefinite = torch.eye(40).repeat(3, 1, 1)
    indefinite[1, 35, 35] = -100.0
    with pytest.raises(NonFiniteError, match=r"positive definite .* float32 broke it at row 36: .* \(class 1\)"):
        coding_rate(indefinite, torch.ones(3), 1.0)
    S = torch.eye(40).repeat(3, 1, 1)
    with pytest.raises(NonFiniteError, match=r"\(class 1 of Z_hat\)"):
        transcription_rates(torch.stack([S, indefinite]), torch.ones(2, 3), 1.0)


def test_nan_features_are_named_as_such() -> None:
    Z, Z_hat, y = features(30, 5, 3)
    Z[int((y == 2).nonzero()[0])] = float("nan")
    with pytest.raises(
        NonFiniteError, match=r"NaN or infinite second moments: lower the learning rate \(class 2 of Z\)"
    ):
        objective(Z, Z_hat, y, 3)


def test_a_failed_factorisation_can_be_sent_to_another_process() -> None:
    """Or whoever waits for its answer hears of nothing but a process that is gone."""
    with pytest.raises(NonFiniteError) as caught:
        coding_rate(torch.full((2, 3, 3), float("nan")), torch.ones(2), 1.0)
    sent = pickle.loads(pickle.dumps(caught.value))
    assert (type(sent), str(sent), sent.index) == (type(caught.value), str(caught.value), 0)
