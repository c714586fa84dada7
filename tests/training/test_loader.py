"""Images reach the device whole and in order, from wherever they wait."""

import pytest
import torch
from support import pictures, tiny_recipe

import ictrl.training.loader
from ictrl import ICTRL
from ictrl.training.loader import Batches, ImageSource

ROWS = torch.tensor([5, 3, 8, 1, 0, 7, 2, 6, 9]).split(4)


@pytest.mark.parametrize("streamed", [False, True])
def test_batches_are_the_rows_asked_for(streamed: bool, device: str) -> None:
    images = torch.randint(256, (10, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    source = ImageSource(images, torch.device(device), streamed)
    assert len(source) == 10
    rows = [part.to(device) for part in ROWS]
    for _ in range(3):  # buffers are used again and again
        batches = [source.pixels(*given).clone() for given in source.batches(rows)]
        assert [batch.device.type for batch in batches] == [device] * 3
        assert all(torch.equal(batch.cpu(), images[part]) for batch, part in zip(batches, ROWS, strict=True))


def test_a_pass_shows_every_row_once_in_equal_batches_and_another_order(device: str) -> None:
    generator = torch.Generator(device).manual_seed(0)
    batches = Batches(20, 6, generator, torch.device(device))
    assert len(batches) == 4
    assert [len(rows) for rows in batches.rows] == [5, 5, 5, 5]
    orders = []
    for _ in range(2):
        batches.shuffle()
        orders.append(torch.cat(batches.rows).tolist())
        assert sorted(orders[-1]) == list(range(20))
    assert orders[0] != orders[1]
    uneven = Batches(20, 7, generator, torch.device(device))  # two rows are left out of each pass, not always the same
    left = set()
    for _ in range(8):
        uneven.shuffle()
        assert [len(rows) for rows in uneven.rows] == [6, 6, 6]
        left |= set(range(20)) - set(torch.cat(uneven.rows).tolist())
    assert len(left) > 4


def test_images_that_do_not_fit_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    images, gpu = torch.zeros(10, 1, 8, 8, dtype=torch.uint8), torch.device("cuda")
    for free, fits in ((2 * images.nbytes, True), (2 * images.nbytes - 2, False)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 10**12))
        assert ictrl.training.loader.fits(images, gpu) is fits
    assert ictrl.training.loader.fits(images, torch.device("cpu"))  # where they are already


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a GPU to stream to")
def test_a_streamed_task_is_learned_like_one_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = []
    for fits in (True, False):
        monkeypatch.setattr(ictrl.training.loader, "fits", lambda images, device, fits=fits: fits)
        learner = ICTRL(tiny_recipe(), device="cuda")
        learner.learn(*pictures([0, 1]))
        outcomes.append(torch.cat([parameter.detach().flatten() for parameter in learner.encoder.parameters()]))
    assert torch.allclose(outcomes[0], outcomes[1], atol=2e-3)
