"""Counts, means, covariances and spectra against NumPy and scikit-learn: by n − 1, wherever they come from."""

import numpy as np
import pytest
import torch
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA
from torch import Tensor

from ictrl.errors import InputError
from ictrl.memory.store import form_class_memory
from ictrl.theory.statistics import (
    ClassStatistics,
    Moments,
    class_layout,
    class_moments,
    covariance_factors,
    present,
    spectrum,
)


def features(n: int, d: int, seed: int = 0) -> Tensor:
    """Correlated, and away from the origin."""
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(d, d, dtype=torch.float64, generator=generator)
    return torch.randn(n, d, dtype=torch.float64, generator=generator) @ mixing + seed + 1


# Means and covariances


@pytest.mark.parametrize(("n", "d"), [(2, 3), (50, 6), (4, 9), (5, 1)])
def test_every_covariance_is_by_n_minus_1(n: int, d: int) -> None:
    """One set of features on every way that leads to a covariance."""
    Z = features(n, d)
    centred = (Z - Z.mean(0))[None]
    (factor,) = covariance_factors(centred)
    kept = form_class_memory(Z, directions=1, neighbours=n, disjoint=False)
    found = {
        "statistics": ClassStatistics.of(Z).covariance,
        "of_features": Moments.of_features(Z, torch.zeros(n, dtype=torch.long)).covariances[0],
        "of_classes": Moments.of_classes({3: kept}).covariances[0],
        "memory": kept.covariance,
        "factors": factor.T @ factor,
        "direction": kept.direction_factors[0].T @ kept.direction_factors[0],
    }
    expected = np.cov(Z.numpy().T).reshape(d, d)
    np.testing.assert_allclose(expected, EmpiricalCovariance().fit(Z.numpy()).covariance_ * n / (n - 1), atol=1e-12)
    for way, covariance in found.items():
        np.testing.assert_allclose(covariance, expected, atol=1e-11, err_msg=way)


def test_count_mean_and_second_moment() -> None:
    Z = features(50, 6)
    found = ClassStatistics.of(Z)
    assert int(found.count) == 50
    np.testing.assert_allclose(found.mean, Z.numpy().mean(0))
    second = Z.numpy().T @ Z.numpy() / 50
    np.testing.assert_allclose(found.second_moment, second + np.cov(Z.numpy().T) / 50, atol=1e-12)  # up to n − 1


def test_the_mean_of_one_feature_is_refused() -> None:
    with pytest.raises(InputError, match="at least 2 features of a class but got 1: the mean of one is that feature"):
        ClassStatistics.of(features(1, 3))


@pytest.mark.parametrize(("n", "m"), [(2, 2), (30, 5), (7, 400)])
def test_joined_statistics_are_those_of_all_features_together(n: int, m: int) -> None:
    one, other = features(n, 4, seed=1), features(m, 4, seed=5)
    expected = ClassStatistics.of(torch.cat([one, other]))
    for found in (
        ClassStatistics.of(one).joined(ClassStatistics.of(other)),
        ClassStatistics.of(other).joined(ClassStatistics.of(one)),
    ):
        assert int(found.count) == n + m
        assert torch.allclose(found.mean, expected.mean)
        assert torch.allclose(found.covariance, expected.covariance)


def test_joining_goes_on_part_by_part() -> None:
    Z = features(40, 3)
    first, *rest = (ClassStatistics.of(part) for part in Z.split([5, 20, 2, 13]))
    for part in rest:
        first = first.joined(part)
    assert int(first.count) == 40
    assert torch.allclose(first.covariance, torch.cov(Z.T))


def test_variances_along_components_are_pcas() -> None:
    Z = features(30, 5)
    values, vectors = ClassStatistics.of(Z).spectrum
    pca = PCA().fit(Z.numpy())
    np.testing.assert_allclose(values, pca.explained_variance_)
    np.testing.assert_allclose(np.abs(pca.components_ @ vectors.numpy()), np.eye(5), atol=1e-9)


def test_no_variance_is_negative() -> None:
    values, _ = ClassStatistics.of(features(3, 40).float()).spectrum  # 38 of them are nothing but rounding
    assert float(values.min()) >= 0


# Several classes


def test_moments_are_in_ascending_order_of_labels() -> None:
    Z, y = features(40, 4), torch.tensor([7, -1, 40, 3] * 10)
    found = Moments.of_features(Z, y)
    assert found.labels.tolist() == [-1, 3, 7, 40]
    for row, label in enumerate((-1, 3, 7, 40)):
        np.testing.assert_allclose(found.means[row], Z[y == label].numpy().mean(0))
        np.testing.assert_allclose(found.covariances[row], np.cov(Z[y == label].numpy().T))
    stored = Moments.of_classes({label: ClassStatistics.of(Z[y == label]) for label in (40, 7, -1, 3)})
    assert torch.equal(stored.labels, found.labels)
    assert torch.equal(stored.covariances, found.covariances)


def test_some_classes_among_all() -> None:
    Z, y = features(40, 4), torch.tensor([7, -1, 40, 3] * 10)
    found = Moments.of_features(Z, y).among([40, -1, 99])
    assert found.labels.tolist() == [-1, 40]
    assert torch.equal(found.means[1], Z[y == 40].mean(0))


def test_no_classes_are_refused() -> None:
    with pytest.raises(InputError, match="learn a task first"):
        Moments.of_classes({})


def test_leading_bases_hold_no_components_that_a_class_does_not_have() -> None:
    Z, y = features(40, 6), torch.tensor([0, 1] * 20)
    Z[y == 1] = Z[y == 1][:2].repeat(10, 1)  # two points: one direction
    bases = Moments.of_features(Z, y).leading_bases(3)
    assert bases.shape == (2, 6, 3)
    assert torch.allclose(bases.mT @ bases, torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, 0, 0]))]).double())
    pca = PCA(n_components=3).fit(Z[y == 0].numpy())
    np.testing.assert_allclose(np.abs(pca.components_ @ bases[0].numpy()), np.eye(3), atol=1e-9)


# Spectra


@pytest.mark.parametrize("d", [1, 2, 7, 33])
def test_a_spectrum_is_numpys_the_largest_first(d: int) -> None:
    S = features(d, d)
    S = S + S.T  # of any sign
    values, vectors = spectrum(S)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(S.numpy())[::-1], atol=1e-10)
    np.testing.assert_allclose(S @ vectors, vectors * values, atol=1e-10)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(d), atol=1e-10)


def test_the_largest_entry_of_an_eigenvector_is_positive() -> None:
    S = torch.cov(features(50, 9).T)
    _, vectors = spectrum(S)
    rows = vectors.abs().argmax(0)
    assert (vectors[rows, torch.arange(9)] > 0).all()
    _, negated = spectrum(S.flip(0, 1))  # the same matrix with its axes renamed
    assert torch.allclose(negated.flip(0), vectors)


def test_what_is_only_rounding_is_not_present() -> None:
    values = torch.tensor([[2.0, 1e-3, 1e-7, 0.0], [0.0, 0.0, 0.0, 0.0]])
    assert present(values).tolist() == [[True, True, False, False], [False] * 4]


@pytest.mark.parametrize(("k", "d", "rank"), [(8, 20, 7), (30, 4, 4), (2, 3, 1)])
def test_factors_have_as_many_rows_as_the_rank(k: int, d: int, rank: int) -> None:
    Z = torch.stack([features(k, d, seed) for seed in range(3)])
    factors = covariance_factors(Z - Z.mean(1, keepdim=True))
    assert factors.shape == (3, rank, d)
    for set_of, factor in zip(Z, factors):
        np.testing.assert_allclose(factor.T @ factor, np.cov(set_of.numpy().T), atol=1e-10)
        gram = (factor @ factor.T).numpy()
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)  # rows are principal components


def test_factors_of_sets_of_other_ranks_share_the_largest() -> None:
    Z = features(6, 5)
    factors = covariance_factors(torch.stack([Z - Z.mean(0), torch.zeros(6, 5, dtype=torch.float64)]))
    assert factors.shape == (2, 5, 5)
    assert float(factors[1].abs().max()) == 0
    assert covariance_factors(torch.zeros(2, 6, 5)).shape == (2, 0, 5)


# Second moments of every class at once

# n, d, k: one class, fewer and more rows than dimensions, more classes than rows, many classes, wide features
SIZES = [(7, 5, 1), (6, 20, 3), (200, 8, 4), (5, 6, 9), (3000, 4, 1000), (300, 512, 2), (1, 3, 1)]


@pytest.mark.parametrize(("n", "d", "k"), SIZES)
def test_moments_are_those_of_each_class(n: int, d: int, k: int, device: str) -> None:
    generator = torch.Generator().manual_seed(0)
    Z = torch.nn.functional.normalize(torch.randn(n, d, generator=generator, dtype=torch.float64))
    y = torch.randint(k, (n,), generator=generator)
    layout = class_layout(y.to(device), k, d, torch.float64)
    S = class_moments(Z.to(device), layout).cpu()
    for j in range(k):
        assert torch.allclose(S[j], Z[y == j].T @ Z[y == j], atol=1e-12)
    assert layout.counts.tolist() == torch.bincount(y, minlength=k).tolist()


@pytest.mark.parametrize("counts", [[50, 1, 1], [0, 0, 40], [3, 40, 0, 17, 5], [20, 20, 20]])
def test_moments_of_unequal_classes(counts: list[int]) -> None:
    """One large class among small ones takes another layout than classes of one size."""
    y = torch.cat([torch.full((count,), j) for j, count in enumerate(counts)])
    y = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(1))]
    Z = features(len(y), 6)
    layout = class_layout(y, len(counts), 6, Z.dtype)
    S = class_moments(Z, layout)
    assert layout.counts.tolist() == counts
    for j in range(len(counts)):
        assert torch.allclose(S[j], Z[y == j].T @ Z[y == j])


def test_several_sets_are_done_at_once() -> None:
    sets = torch.stack([features(30, 5, seed) for seed in (0, 1)])
    layout = class_layout(torch.arange(30) % 4, 4, 5, torch.float64)
    assert torch.allclose(class_moments(sets, layout), torch.stack([class_moments(Z, layout) for Z in sets]))


def test_the_gradient_of_moments() -> None:
    layout = class_layout(torch.tensor([0, 2, 2, 0, 0]), 3, 4, torch.float64)
    assert torch.autograd.gradcheck(lambda Z: class_moments(Z, layout), (features(5, 4).requires_grad_(),))


def test_labels_out_of_range_are_refused() -> None:
    for wrong in ([0, 1, 3], [-1, 0, 1]):
        with pytest.raises(InputError, match="Expected labels from 0 to 2 but got"):
            class_layout(torch.tensor(wrong), 3, 4)


def test_rows_without_labels_are_refused() -> None:
    with pytest.raises(InputError, match="Expected one label a row but got 2 labels for 3 rows"):
        class_moments(torch.zeros(3, 4), class_layout(torch.tensor([0, 1]), 2, 4))
