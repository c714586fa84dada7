"""What a critic is shown: colours, place and a missing patch, drawn for each image, with a gradient."""

import torch
from torch import Tensor

from ictrl.training.diff_augment import _moves, _patch, diff_augment


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(n: int = 64, channels: int = 3, side: int = 16) -> Tensor:
    return torch.rand(n, channels, side, side, generator=seeded(1)) * 2 - 1


def test_what_is_drawn_is_drawn_for_each_image_and_decided_by_the_generator() -> None:
    X = images()
    shown = diff_augment(X, seeded())
    assert torch.equal(shown, diff_augment(X, seeded()))
    assert not torch.equal(shown, diff_augment(X, seeded(2)))
    alike = diff_augment(X[:1].expand(8, -1, -1, -1), seeded())
    assert all(not torch.equal(alike[0], other) for other in alike[1:])


def test_a_move_shifts_rows_and_lets_grey_in() -> None:
    X = images(n=5, side=8)
    drawn = torch.tensor([0.0, 0.34, 0.5, 0.67, 0.99])  # of a side of 8, at most one row either way
    moved = _moves(drawn, 8)[:, None] @ X
    for by, before, after in zip((-1, 0, 0, 1, 1), X, moved):
        expected = torch.roll(before, by, dims=1)
        if by:
            expected[:, 0 if by > 0 else -1] = 0
        torch.testing.assert_close(after, expected)


def test_half_a_side_is_missing_at_most() -> None:
    drawn = torch.rand(1000, generator=seeded())
    for side in (8, 15, 32):
        missing = _patch(drawn, side).sum(1)
        assert int(missing.max()) == int(side / 2 + 0.5)
        assert int(missing.min()) >= side // 4  # a patch at the edge lies half outside
        assert bool(_patch(drawn, side).any(0).all())  # and any row may be missing


def test_colours_move_about_the_images_own() -> None:
    """Many draws of one image: their mean is the image with the share of the patch taken out, and it hardly moved."""
    flat = torch.full((4000, 3, 16, 16), 0.4)
    flat[:, 0] = -0.2
    shown = diff_augment(flat, seeded())
    there = shown[:, :, 4:12, 4:12].abs().sum(1) > 0  # a middle that no move reaches
    for channel, expected in enumerate((-0.2, 0.4, 0.4)):
        mean = float(shown[:, channel, 4:12, 4:12][there].mean())
        assert abs(mean - expected) < 0.03
    assert float(shown[:, 1, 4:12, 4:12][there].std()) > 0.2


def test_grey_images_stay_grey() -> None:
    assert diff_augment(images(channels=1), seeded()).shape == (64, 1, 16, 16)


def test_gradients_pass_where_the_image_is_shown() -> None:
    X = images(n=4).requires_grad_()
    shown = diff_augment(X, seeded())
    shown.square().sum().backward()
    assert X.grad is not None
    assert bool((X.grad.flatten(1).abs().sum(1) > 0).all())
    one = images(n=2, side=8).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda given: diff_augment(given, seeded()).sum((1, 2, 3)), (one,))
