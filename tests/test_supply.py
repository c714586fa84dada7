"""Images reach the device whole and in order, from wherever they wait."""

import pytest
import torch
from conftest import pictures, tiny_recipe

import ictrl.supply
from ictrl import ICTRL
from ictrl.supply import Supply

ROWS = torch.tensor([5, 3, 8, 1, 0, 7, 2, 6, 9]).split(4)


@pytest.mark.parametrize("streamed", [False, True])
def test_batches_are_the_rows_asked_for(streamed: bool, device: str) -> None:
    images = torch.randint(256, (10, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    supply = Supply(images, torch.device(device), streamed)
    assert len(supply) == 10
    rows = [part.to(device) for part in ROWS]
    for _ in range(3):  # buffers are used again and again
        batches = [batch.clone() for batch in supply.batches(rows)]
        assert [batch.device.type for batch in batches] == [device] * 3
        assert all(torch.equal(batch.cpu(), images[part]) for batch, part in zip(batches, ROWS, strict=True))


def test_images_that_do_not_fit_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    images, gpu = torch.zeros(10, 1, 8, 8, dtype=torch.uint8), torch.device("cuda")
    for free, fits in ((2 * images.nbytes, True), (2 * images.nbytes - 2, False)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 10**12))
        assert ictrl.supply._fits(images, gpu) is fits
    assert ictrl.supply._fits(images, torch.device("cpu"))  # where they are already


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a GPU to stream to")
def test_a_streamed_task_is_learned_like_one_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = []
    for share in (0.5, 0.0):
        monkeypatch.setattr(ictrl.supply, "SHARE", share)
        learner = ICTRL(tiny_recipe(), device="cuda")
        learner.learn(*pictures([0, 1]))
        outcomes.append(torch.cat([parameter.detach().flatten() for parameter in learner.encoder.parameters()]))
    assert torch.allclose(outcomes[0], outcomes[1], atol=2e-3)
