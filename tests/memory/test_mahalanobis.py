"""Distances in each class's own measure, against NumPy."""

import numpy as np
import pytest
import torch

from ictrl.memory.mahalanobis import correlations, normalised_distances, shrunk
from ictrl.theory.statistics import spectrum


def covariances(k: int, d: int, n: int, seed: int = 0) -> torch.Tensor:
    Z = torch.randn(k, n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.stack([torch.cov((z @ torch.diag(torch.arange(1.0, d + 1).double())).T) for z in Z])


@pytest.mark.parametrize(("variance", "covariance"), [(1.0, 1.0), (3.0, 0.0), (2.0, 0.5)])
def test_shrinkage_against_numpy(variance: float, covariance: float) -> None:
    S = covariances(3, 6, 20)
    for found, plain in zip(shrunk(S, variance, covariance).numpy(), S.numpy()):
        off = plain[~np.eye(6, dtype=bool)].mean()
        expected = plain + variance * np.diag(plain).mean() * np.eye(6) + covariance * off * (1 - np.eye(6))
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_shrunk_is_a_covariance(seed: int) -> None:
    """Of three images in ten dimensions, however the mean covariance turns out."""
    for S in shrunk(covariances(4, 10, 3, seed), 1.0, 1.0):
        assert float(spectrum(S)[0][-1]) > 0


def test_correlations_against_numpy_and_a_feature_that_does_not_vary() -> None:
    S = covariances(2, 5, 40)
    for found, plain in zip(correlations(S).numpy(), S.numpy()):
        s = np.sqrt(np.diag(plain))
        np.testing.assert_allclose(found, plain / np.outer(s, s), atol=1e-12)
    S[:, 2, :] = S[:, :, 2] = 0
    found = correlations(S)
    assert found.isfinite().all()
    assert found[:, 2].tolist() == [[0, 0, 1, 0, 0]] * 2


def test_distances_against_numpy(generator: torch.Generator) -> None:
    Z, means, S = torch.randn(7, 5, generator=generator), torch.randn(3, 5, generator=generator), covariances(3, 5, 60)
    found = normalised_distances(Z, means, S).numpy()
    for i, z in enumerate(Z.double().numpy()):
        for j, mean in enumerate(means.double().numpy()):
            s = np.sqrt(np.diag(S[j].numpy()))
            u = z / np.linalg.norm(z) - mean / np.linalg.norm(mean)
            expected = u @ np.linalg.inv(S[j].numpy() / np.outer(s, s)) @ u
            assert found[i, j] == pytest.approx(expected, rel=1e-4)


def test_distances_of_features_that_never_vary_are_finite() -> None:
    found = normalised_distances(torch.ones(2, 4), torch.zeros(3, 4), torch.zeros(3, 4, 4))
    assert found.isfinite().all()
