"""The critic under spectral normalisation, and what it is told of classes."""

import pytest
import torch
from torch import nn

from ictrl.nets.spectral import SpectralCritic, SpectralNorm


def critic(size: int = 16, channels: int = 3, code: int = 5) -> SpectralCritic:
    return SpectralCritic(size, channels, 8, code, torch.Generator().manual_seed(0))


def settled(network: nn.Module, *given: torch.Tensor) -> nn.Module:
    """After as many passes as power iteration needs."""
    network.train()
    with torch.no_grad():
        for _ in range(200):
            network(*given)
    return network.eval()


def test_the_largest_singular_value_becomes_one() -> None:
    weight = torch.randn(7, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    norm = settled(SpectralNorm(7, torch.Generator().manual_seed(2)), weight)
    found = norm(weight)
    torch.testing.assert_close(found, weight / torch.linalg.matrix_norm(weight.flatten(1), 2))


def test_its_gradient_is_that_of_the_weight_over_its_norm() -> None:
    weight = torch.randn(4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    norm = settled(SpectralNorm(4, torch.Generator().manual_seed(2)).double(), weight.detach())
    target = torch.randn(4, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (norm(weight) * target).sum().backward()
    other = weight.detach().clone().requires_grad_()
    (other / torch.linalg.matrix_norm(other, 2) * target).sum().backward()
    torch.testing.assert_close(weight.grad, other.grad)


def test_looking_changes_nothing_and_training_follows_the_weight() -> None:
    weight = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    norm = SpectralNorm(7, torch.Generator().manual_seed(2))
    before = norm.u.clone()
    norm.eval()(weight)
    assert torch.equal(norm.u, before)
    norm.train()(weight)
    assert not torch.equal(norm.u, before)


def test_scores_are_one_number_for_each_image_whatever_the_others_are() -> None:
    network, generator = critic().eval(), torch.Generator().manual_seed(1)
    X, codes = torch.randn(6, 3, 16, 16, generator=generator), torch.randn(6, 5, generator=generator)
    with torch.no_grad():
        scores = network(X, codes)
        assert (scores.shape, scores.dtype) == ((6,), torch.float32)
        torch.testing.assert_close(network(X[2:3], codes[2:3]), scores[2:3])
        assert not torch.equal(network(X, codes.flip(0)), scores)  # the class counts


def test_no_score_changes_faster_than_the_image() -> None:
    """But for overlapping windows: kernels of 4 with a stride of 2 show a pixel four times, those of 3 nine times."""
    generator = torch.Generator().manual_seed(1)
    X, codes = torch.rand(8, 3, 16, 16, generator=generator) * 2 - 1, torch.zeros(8, 5)
    network = settled(critic(), X, codes)
    moved = X + 0.01 * torch.randn(X.shape, generator=generator)
    with torch.no_grad():
        change = (network(moved, codes) - network(X, codes)).abs()
    # 3 and 3 for the first and last layer, 2 for each halving; 4, the root of its 16 places, for the sum over the map
    bound = 3 * 2 * 2 * 3 * 4 * (moved - X).flatten(1).norm(dim=1)
    assert bool((change <= bound).all())


@pytest.mark.parametrize(("size", "channels"), [(8, 1), (32, 3), (64, 3)])
def test_any_size(size: int, channels: int) -> None:
    assert critic(size, channels)(torch.zeros(2, channels, size, size), torch.zeros(2, 5)).shape == (2,)
