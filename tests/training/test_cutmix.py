"""CutMix: a box of another image, and the classes of both by their share."""

import numpy as np
import pytest
import torch

from ictrl.training.cutmix import cutmix, mixed_cross_entropy


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_without_a_chance_nothing_is_mixed() -> None:
    X = torch.randn(6, 3, 8, 8, generator=seeded())
    for seed in range(20):
        mixed = cutmix(X, 0.0, seeded(seed))
        assert torch.equal(mixed.X, X)
        assert float(mixed.share) == 0.0


def test_a_box_comes_from_the_partner_and_is_counted() -> None:
    X = torch.randn(6, 3, 8, 12, generator=seeded())
    shares = []
    for seed in range(300):
        mixed = cutmix(X, 1.0, seeded(seed))
        assert sorted(mixed.partners.tolist()) == list(range(6))
        assert torch.equal(cutmix(X, 1.0, seeded(seed)).X, mixed.X)
        others = [i for i, j in enumerate(mixed.partners.tolist()) if i != j]
        foreign = (mixed.X != X)[others]
        if not others:
            continue
        inside = foreign[0, 0]
        assert bool((foreign == inside).all())  # one box for all
        rows, columns = inside.any(1), inside.any(0)
        assert torch.equal(inside, rows[:, None] & columns)
        assert all("01" not in "".join(str(int(i)) for i in side).lstrip("0") for side in (rows, columns))  # no gap
        assert torch.equal(torch.where(inside, X[mixed.partners], X), mixed.X)
        assert float(mixed.share) == pytest.approx(float(inside.float().mean()))
        shares.append(float(mixed.share))
    assert min(shares) < 0.05
    assert max(shares) > 0.75


def test_it_happens_as_often_as_was_asked_for() -> None:
    X = torch.randn(4, 1, 16, 16, generator=seeded())
    generator = seeded(1)
    happened = sum(float(cutmix(X, 0.3, generator).share) > 0 for _ in range(1000))
    assert 240 < happened < 350  # a box of less than a pixel is none


def test_the_loss_against_numpy() -> None:
    logits, rows = torch.randn(5, 3, generator=seeded()), torch.tensor([0, 1, 2, 0, 1])
    partners, share = torch.tensor([3, 2, 1, 0, 4]), torch.tensor(0.3)
    z = logits.double().numpy()
    log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
    soft = 0.7 * np.eye(3)[rows] + 0.3 * np.eye(3)[rows[partners]]
    found = mixed_cross_entropy(logits, rows, partners, share)
    assert float(found) == pytest.approx(-(soft * log_p).sum(1).mean(), rel=1e-5)
