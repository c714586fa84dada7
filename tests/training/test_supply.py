"""Images reach the device whole and in order, from wherever they wait."""

import pytest
import torch
from support import pictures, tiny_recipe

import ictrl.training.loader
from ictrl import ICTRL
from ictrl.training.loader import Passes, Supply, shown

ROWS = torch.tensor([5, 3, 8, 1, 0, 7, 2, 6, 9]).split(4)


@pytest.mark.parametrize("streamed", [False, True])
def test_batches_are_the_rows_asked_for(streamed: bool, device: str) -> None:
    images = torch.randint(256, (10, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    supply = Supply(images, torch.device(device), streamed)
    assert len(supply) == 10
    rows = [part.to(device) for part in ROWS]
    for _ in range(3):  # buffers are used again and again
        batches = [supply.pixels(*given).clone() for given in supply.batches(rows)]
        assert [batch.device.type for batch in batches] == [device] * 3
        assert all(torch.equal(batch.cpu(), images[part]) for batch, part in zip(batches, ROWS, strict=True))


def test_a_pass_shows_every_row_once_in_equal_batches_and_another_order(device: str) -> None:
    generator = torch.Generator(device).manual_seed(0)
    passes = Passes(20, 6, generator, torch.device(device))
    assert [len(batch) for batch in passes.batches] == [5, 5, 5, 5]
    orders = []
    for _ in range(2):
        passes.shuffle()
        orders.append(torch.cat(passes.batches).tolist())
        assert sorted(orders[-1]) == list(range(20))
    assert orders[0] != orders[1]
    uneven = Passes(20, 7, generator, torch.device(device))  # two rows are left out of each pass, not always the same
    left = set()
    for _ in range(8):
        uneven.shuffle()
        assert [len(batch) for batch in uneven.batches] == [6, 6, 6]
        left |= set(range(20)) - set(torch.cat(uneven.batches).tolist())
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
    for share in (0.5, 0.0):
        monkeypatch.setattr(ictrl.training.loader, "SHARE", share)
        learner = ICTRL(tiny_recipe(), device="cuda")
        learner.learn(*pictures([0, 1]))
        outcomes.append(torch.cat([parameter.detach().flatten() for parameter in learner.encoder.parameters()]))
    assert torch.allclose(outcomes[0], outcomes[1], atol=2e-3)


def test_what_is_shown_is_the_image_mirrored_and_elsewhere(device: str) -> None:
    images = torch.randint(256, (100, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(images.float(), (2, 2, 2, 2), mode="replicate")
    flipped = torch.arange(100) % 2
    moves = torch.stack([torch.arange(100) % 5, torch.arange(100) // 5 % 5]) - 2
    seen = shown(images.to(device), flipped.to(device), moves.to(device), None, torch.float32).cpu()
    for i in range(100):
        i_down, i_right = (moves[:, i] + 2).tolist()
        whole = padded[i].flip(-1) if flipped[i] else padded[i]
        assert torch.allclose(seen[i], whole[:, i_down : i_down + 8, i_right : i_right + 8] / 127.5 - 1, atol=1e-6)
    still = shown(images.to(device), torch.zeros_like(flipped).to(device), None, None, torch.float32).cpu()
    assert torch.allclose(still, images / 127.5 - 1, atol=1e-6)


def test_quarters_turn_what_was_mirrored_and_moved(device: str) -> None:
    images = torch.randint(256, (8, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)).to(device)
    flipped, moves = torch.arange(8, device=device) % 2, torch.arange(16, device=device).view(2, 8) % 5 - 2
    straight = shown(images, flipped, moves, None, torch.float32)
    turned = torch.arange(8, device=device) // 2
    seen = shown(images, flipped, moves, turned, torch.float32)
    for i in range(8):
        assert torch.equal(seen[i], straight[i].rot90(i // 2, (1, 2)))


def test_black_and_white_are_the_ends_of_the_range(device: str) -> None:
    ends = torch.tensor([0, 255], dtype=torch.uint8, device=device).view(1, 1, 1, 2)
    still = torch.zeros(1, dtype=torch.long, device=device)
    assert shown(ends, still, None, None, torch.bfloat16).flatten().tolist() == [-1, 1]
