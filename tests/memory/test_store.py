"""Memory holds the moments it says, no feature of an image, and follows a linear map exactly."""

import numpy as np
import pytest
import torch
from torch import Tensor

from ictrl.errors import InputError
from ictrl.memory.store import LABEL_BYTES, ClassMemory, Memory, form_class_memory, merged
from ictrl.memory.wide_memory import nothing_yet


def features(n: int, d: int, seed: int = 0) -> Tensor:
    Z = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(Z * torch.linspace(3, 0.3, d, dtype=torch.float64), dim=1)


def test_class_moments_are_numpys() -> None:
    Z = features(50, 6)
    kept = form_class_memory(Z, directions=3, neighbours=8)
    assert int(kept.count) == 50
    np.testing.assert_allclose(kept.mean, Z.numpy().mean(0))
    np.testing.assert_allclose(kept.covariance, np.cov(Z.numpy().T))


def test_directions_follow_algorithm_1() -> None:
    """Against the algorithm spelled out in NumPy: uncentred directions, largest absolute projections, moments."""
    Z = features(50, 6)
    kept = form_class_memory(Z, directions=3, neighbours=12, disjoint=False)
    values, vectors = np.linalg.eigh(Z.numpy().T @ Z.numpy())
    for i, direction in enumerate(vectors[:, np.argsort(-values)[:3]].T):
        chosen = Z.numpy()[np.argsort(-np.abs(Z.numpy() @ direction))[:12]]
        np.testing.assert_allclose(kept.direction_means[i], chosen.mean(0), atol=1e-12)
        factor = kept.direction_factors[i].numpy()
        np.testing.assert_allclose(factor.T @ factor, np.cov(chosen.T), atol=1e-12)


def test_no_feature_counts_for_two_directions() -> None:
    """Against the algorithm spelled out: what a direction took is gone for those behind it."""
    Z = features(50, 6)
    kept = form_class_memory(Z, directions=3, neighbours=12)
    values, vectors = np.linalg.eigh(Z.numpy().T @ Z.numpy())
    left = Z.numpy()
    for i, direction in enumerate(vectors[:, np.argsort(-values)[:3]].T):
        order = np.argsort(-np.abs(left @ direction))
        np.testing.assert_allclose(kept.direction_means[i], left[order[:12]].mean(0), atol=1e-12)
        left = left[order[12:]]


def test_factors_are_no_larger_than_needed() -> None:
    assert form_class_memory(features(50, 20), 3, 8).direction_factors.shape == (3, 9, 20)  # rank k − 1, ten at least
    assert form_class_memory(features(50, 4), 3, 30).direction_factors.shape == (3, 4, 4)  # rank d


@pytest.mark.parametrize(
    ("n", "r", "k", "expected_r"),
    [(5, 12, 20, 5), (2, 12, 20, 2), (50, 40, 8, 4), (3, 2, 2, 2)],
)
def test_fewer_features_than_asked_for(n: int, r: int, k: int, expected_r: int) -> None:
    kept = form_class_memory(features(n, 6), r, k)
    assert len(kept.direction_means) == expected_r
    Z, y = Memory({4: kept}).gaussians().sample(10, torch.Generator().manual_seed(0))
    assert Z.shape == (10 * expected_r, 6)
    assert Z.isfinite().all()
    assert set(y.tolist()) == {0}


def test_repeated_features_have_no_spread_and_can_be_sampled() -> None:
    kept = form_class_memory(features(1, 6).repeat(9, 1), 2, 5)
    Z, _ = Memory({0: kept}).gaussians().sample(4, torch.Generator().manual_seed(0))
    assert torch.allclose(Z, features(1, 6).expand(8, 6), atol=1e-6)


def test_a_single_feature_is_refused() -> None:
    with pytest.raises(InputError, match="at least 2 features of a class but got 1"):
        form_class_memory(features(1, 6), 2, 5)


def test_no_feature_of_an_image_is_stored() -> None:
    Z = features(40, 12)
    kept = form_class_memory(Z, directions=4, neighbours=5)
    rows = torch.cat([kept.mean[None], kept.direction_means, kept.direction_factors.flatten(0, 1), kept.covariance])
    centred = [Z, -Z, *(part - mean for mean in (kept.mean, *kept.direction_means) for part in (Z,))]
    for stored in centred:
        assert float(torch.cdist(rows, stored).min()) > 1e-2


@pytest.mark.parametrize(("n", "k"), [(11, 10), (12, 10), (19, 10), (25, 20), (41, 40), (49, 40), (50, 40)])
def test_no_feature_can_be_computed_from_the_means(n: int, k: int) -> None:
    """The attack: n times the class's mean less k times a direction's is the sum of what that direction leaves out."""
    Z = features(n, 6)
    kept = form_class_memory(Z, directions=3, neighbours=k)
    for size in range(1, n):  # the attacker need not be told how many a direction has
        for mean in kept.direction_means:
            guess = n * kept.mean - size * mean
            for rest in range(1, 10):
                assert float((Z - guess / rest).norm(dim=1).min()) > 1e-3
    if n < 30:  # too few for two sets and ten more: all directions are the class itself
        assert torch.allclose(kept.direction_means, kept.mean.expand(3, 6), atol=1e-6)


def test_samples_have_the_stored_moments() -> None:
    kept = form_class_memory(features(60, 5), directions=2, neighbours=30)
    Z, _ = Memory({7: kept}).gaussians().sample(200_000, torch.Generator().manual_seed(0))
    assert Z.shape == (400_000, 5)
    for i, part in enumerate(Z.view(2, 200_000, 5)):
        factor = kept.direction_factors[i]
        assert torch.allclose(part.mean(0), kept.direction_means[i], atol=5e-3)
        assert torch.allclose(torch.cov(part.T), factor.T @ factor, atol=5e-3)


def test_sampling_is_a_function_of_the_generator() -> None:
    memory = Memory({0: form_class_memory(features(30, 5), 2, 6)})
    draws = [memory.gaussians().sample(3, torch.Generator().manual_seed(seed))[0] for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_gaussians_of_classes_with_other_ranks_are_one_batch() -> None:
    memory = Memory({9: form_class_memory(features(60, 8), 3, 6), 2: form_class_memory(features(3, 8), 3, 6)})
    gaussians = memory.gaussians()
    assert gaussians.labels.tolist() == [0, 0, 0, 1, 1, 1]  # in the order of learning, whatever the labels
    assert gaussians.factors.shape == (6, 8, 8)
    _, y = gaussians.sample(2, torch.Generator().manual_seed(0))
    assert y.tolist() == [0] * 6 + [1] * 6


def test_nbytes_counts_every_number() -> None:
    kept = form_class_memory(features(60, 12).float(), 3, 6)
    numbers = 12 + 144 + 3 * 12 + 3 * 9 * 12
    assert kept.nbytes == 8 + 4 * numbers  # the count has 8 bytes, the rest 4 each
    assert Memory({0: kept, 1: kept}).nbytes == 2 * (kept.nbytes + LABEL_BYTES)


def test_memory_does_not_grow_with_the_number_of_images() -> None:
    assert form_class_memory(features(40, 8), 3, 6).nbytes == form_class_memory(features(4000, 8), 3, 6).nbytes


def test_moving_equals_forming_memory_from_moved_features() -> None:
    Z = features(60, 6)
    W = torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    moved = Memory({0: form_class_memory(Z, 3, 8)}).moved(W)[0]
    direct = form_class_memory(Z @ W.T, 3, 8)
    assert torch.allclose(moved.mean, direct.mean)
    assert torch.allclose(moved.covariance, direct.covariance)
    kept = form_class_memory(Z, 3, 8)
    factor, old = moved.direction_factors[1], kept.direction_factors[1]
    assert torch.allclose(factor.T @ factor, W @ old.T @ old @ W.T)
    assert int(moved.count) == 60


def test_merged_memory_has_the_moments_of_both_sets_and_directions_of_either() -> None:
    one, other = features(30, 8, 1), features(90, 8, 2)
    stored, seen = form_class_memory(one, 3, 6), form_class_memory(other, 3, 9)
    both = merged(stored, seen, torch.Generator().manual_seed(0))
    together = form_class_memory(torch.cat([one, other]), 3, 6)
    assert int(both.count) == 120
    assert torch.allclose(both.mean, together.mean)
    assert torch.allclose(both.covariance, together.covariance)
    assert both.direction_factors.shape == (2, 8, 8)  # as many rows as the larger rank
    for mean, factor in zip(both.direction_means, both.direction_factors):
        (origin,) = [kept for kept in (stored, seen) if (kept.direction_means == mean).all(1).any()]
        index = int((origin.direction_means == mean).all(1).nonzero())
        own = origin.direction_factors[index]
        assert torch.allclose(factor.T @ factor, own.T @ own)


def test_directions_are_merged_with_the_odds_of_the_counts() -> None:
    stored, seen = (form_class_memory(features(n, 40, n), 25, 6, disjoint=False) for n in (25, 75))
    generator = torch.Generator().manual_seed(0)
    from_seen = 0
    for _ in range(40):
        both = merged(stored, seen, generator)
        from_seen += int((both.direction_means == seen.direction_means).all(1).sum())
    assert from_seen / 1000 == pytest.approx(0.75, abs=0.05)


def test_state_round_trip_and_odd_states() -> None:
    memory = Memory({5: form_class_memory(features(30, 8), 3, 6), -2: form_class_memory(features(9, 8), 2, 4)})
    again = Memory.from_state([5, -2], memory.state(), feature_dim=8)
    assert list(again) == [5, -2]
    assert all(torch.equal(again.state()[name], tensor) for name, tensor in memory.state().items())
    with pytest.raises(KeyError):
        Memory.from_state([5, 6], memory.state(), feature_dim=8)
    with pytest.raises(ValueError, match="class 5 has shapes"):
        Memory.from_state([5, -2], memory.state(), feature_dim=9)


def test_a_memory_is_not_changed_by_adding_to_it() -> None:
    first = Memory({0: form_class_memory(features(30, 8), 3, 6)})
    second = first.with_classes({1: form_class_memory(features(30, 8, 1), 3, 6)})
    assert (list(first), list(second)) == ([0], [0, 1])
    assert isinstance(second[1], ClassMemory)


def test_memories_introduce_themselves_in_a_line() -> None:
    Z = torch.nn.functional.normalize(torch.randn(40, 8, generator=torch.Generator().manual_seed(0)))
    kept = form_class_memory(Z, 3, 10)
    assert repr(kept) == f"ClassMemory(40 images, 3 directions in 8 dimensions, {kept.nbytes} bytes)"
    assert repr(Memory({1: kept})) == f"Memory(1 classes, {kept.nbytes + LABEL_BYTES} bytes)"
    wide = nothing_yet(torch.device("cpu")).with_classes(Z, torch.arange(40) % 2)
    assert repr(wide).startswith("WideMemory(2 classes of 40 images, 8 wide features, ")
    assert "\n" not in repr(wide)
