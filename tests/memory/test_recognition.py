"""Unlabelled features are taken for the class they belong to, and for none if they belong to none."""

import pytest
import torch
from torch import Tensor

from ictrl.memory.recognition import COMPONENTS, LEAST_AFFINITY, Recognition, recognise
from ictrl.memory.store import Memory, form_class_memory

D = 64


def features(label: int, n: int = 200, seed: int = 0) -> Tensor:
    """Unit features around a subspace of the class's own."""
    basis = torch.randn(D, 12, generator=torch.Generator().manual_seed(100 + label))
    drawn = torch.randn(n, 12, generator=torch.Generator().manual_seed(seed)) + 1
    noise = 0.3 * torch.randn(n, D, generator=torch.Generator().manual_seed(seed + 1))
    return torch.nn.functional.normalize(drawn @ basis.T + noise, dim=1)


def memory(*labels: int) -> Memory:
    return Memory({label: form_class_memory(features(label), 3, 20) for label in labels})


def test_each_class_is_recognised() -> None:
    kept = memory(4, -7, 30)
    for label in (4, -7, 30):
        seen = recognise(features(label, seed=5), kept)
        assert seen.label == label
        assert seen.doubt is None
        assert list(seen.affinities.values()) == sorted(seen.affinities.values(), reverse=True)
        others = [a for other, a in seen.affinities.items() if other != label]
        assert seen.margin == pytest.approx(seen.affinity - max(others))


def test_a_class_never_learned_is_doubted() -> None:
    seen = recognise(features(99), memory(4, -7, 30))
    assert seen.doubt is not None
    assert seen.affinity < LEAST_AFFINITY
    assert "affinity" in seen.doubt


def test_two_classes_mixed_are_doubted() -> None:
    mixed = torch.cat([features(4, seed=5), features(30, seed=6)])
    seen = recognise(mixed, memory(4, -7, 30))
    assert seen.share == pytest.approx(0.5, abs=0.1)
    assert seen.doubt is not None


def test_a_class_with_a_few_strangers_is_recognised_and_with_many_doubted() -> None:
    kept = memory(4, -7, 30)
    shares = []
    for strangers in (0, 10, 80):
        some = torch.cat([features(4, seed=5), features(30, n=strangers, seed=6)])
        seen = recognise(some, kept)
        assert seen.label == 4
        shares.append(seen.share)
    assert shares == pytest.approx([1, 200 / 210, 200 / 280], abs=0.05)
    assert "a mixture of classes" in str(Recognition(4, {4: 0.9, 30: 0.5}, share=0.6).doubt)
    assert Recognition(4, {4: 0.9, 30: 0.5}, share=0.9).doubt is None


def test_a_class_that_has_drifted_is_still_recognised() -> None:
    """Directions turned away and a mean left behind, as after many tasks: not alike any more, and yet nearest."""
    kept = memory(4, -7, 30)
    turn = torch.linalg.qr(torch.eye(D) + 0.08 * torch.randn(D, D, generator=torch.Generator().manual_seed(0))).Q
    turn = turn * turn.diagonal().sign()
    seen = recognise(features(4, seed=5) @ turn, kept)
    assert seen.label == 4
    assert 0.5 < seen.affinity < 0.95


def test_two_classes_that_are_alike_are_doubted() -> None:
    kept = Memory({1: form_class_memory(features(1, seed=0), 3, 20), 2: form_class_memory(features(1, seed=3), 3, 20)})
    doubt = recognise(features(1, seed=7), kept).doubt
    assert doubt is not None
    assert "runner-up" in doubt


def test_fewer_features_than_components_span_what_they_can() -> None:
    few = COMPONENTS - 2
    seen = recognise(features(4, n=few), memory(4, 30))
    assert all(0 <= a <= 1.1 for a in seen.affinities.values())
    assert 0 <= seen.share <= 1


def test_the_only_class_there_is_has_all_the_margin() -> None:
    seen = recognise(features(4, seed=5), memory(4))
    assert seen.margin == seen.affinity
