"""Images brought to a side and channels."""

import numpy as np
import pytest
import torch
from PIL import Image

from ictrl.data.resize import fit, to_channels, to_side
from ictrl.errors import InputError


def images(n: int, c: int, h: int, w: int) -> torch.Tensor:
    return torch.randint(0, 256, (n, c, h, w), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_what_fits_is_returned_without_a_copy() -> None:
    given = images(3, 3, 32, 32)
    assert fit(given, 32, 3) is given


def test_mnist_is_padded_to_32_and_not_interpolated() -> None:
    given = images(2, 1, 28, 28)
    padded = fit(given, 32, 1)
    assert torch.equal(padded[:, :, 2:30, 2:30], given)
    assert int(padded.sum()) == int(given.sum())


def test_mnist_is_resized_to_any_other_side() -> None:
    assert torch.equal(to_side(torch.full((1, 1, 28, 28), 200, dtype=torch.uint8), 16), torch.full((1, 1, 16, 16), 200))


@pytest.mark.parametrize(("size", "side"), [((64, 64), 16), ((20, 20), 32), ((40, 40), 32)])
def test_agrees_with_pillow_to_one_level(size: tuple[int, int], side: int) -> None:
    given = images(1, 3, *size)
    picture = Image.fromarray(given[0].permute(1, 2, 0).numpy())
    reference = np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(to_side(given, side)[0].permute(1, 2, 0).numpy() - reference).max() <= 1


def test_fine_stripes_fade_to_grey() -> None:
    stripes = torch.zeros(1, 1, 64, 64, dtype=torch.uint8)
    stripes[..., ::2] = 255
    inner = to_side(stripes, 16)[..., 1:-1].int()
    assert int((inner - 127).abs().max()) <= 2


@pytest.mark.parametrize(("height", "width"), [(8, 20), (20, 8)])
def test_the_middle_square_is_kept(height: int, width: int) -> None:
    given = torch.zeros(1, 1, height, width, dtype=torch.uint8)
    top, left = (height - 8) // 2, (width - 8) // 2
    given[:, :, top : top + 8, left : left + 8] = 255
    assert torch.equal(to_side(given, 8), torch.full((1, 1, 8, 8), 255))


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    given = images(7, 3, 20, 20)
    whole = fit(given, 8, 1)
    monkeypatch.setattr("ictrl.data.resize.CHUNK_PIXELS", 2 * 3 * 20 * 20)
    assert torch.equal(fit(given, 8, 1), whole)


def test_grey_becomes_colour_by_repetition_and_colour_grey_by_pillows_luma() -> None:
    grey, colour = images(2, 1, 5, 5), images(2, 3, 5, 5)
    assert torch.equal(to_channels(grey, 3), torch.cat([grey, grey, grey], dim=1))
    luma = [np.asarray(Image.fromarray(image.permute(1, 2, 0).numpy()).convert("L")) for image in colour]
    assert np.array_equal(to_channels(colour, 1)[:, 0].numpy(), np.stack(luma))


def test_other_channels_are_refused() -> None:
    with pytest.raises(InputError, match="Expected images of 1 or 3 channels, to become 3, but got 4"):
        fit(images(1, 4, 8, 8), 8, 3)
    with pytest.raises(InputError, match=r"Expected network\.channels to be 1 or 3, or the 1 of the images, but got 2"):
        fit(images(1, 1, 8, 8), 8, 2)
