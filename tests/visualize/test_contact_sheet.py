"""Pictures side by side in a PNG file."""

from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from ictrl.visualize.contact_sheet import contact_sheet


def test_a_sheet_of_unequal_rows_and_many_channels() -> None:
    rows = [torch.full((n, 4, 80, 80), value, dtype=torch.uint8) for n, value in ((1, 10), (2, 20))]
    with Image.open(BytesIO(contact_sheet(rows))) as sheet:
        pixels = np.asarray(sheet)
    assert pixels.shape == (166, 166, 3)
    assert (pixels[2:82, 2:82] == 10).all()
    assert (pixels[84:164, 84:164] == 20).all()
    assert (pixels[2:82, 84:164] == 255).all()


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (2, "L"), (3, "RGB"), (5, "RGB")])
def test_small_pictures_are_enlarged_by_a_whole_factor(channels: int, mode: str) -> None:
    pictures = torch.randint(0, 256, (2, channels, 30, 20), dtype=torch.uint8, generator=torch.manual_seed(0))
    with Image.open(BytesIO(contact_sheet([pictures]))) as sheet:
        assert (sheet.format, sheet.mode, sheet.size) == ("PNG", mode, (3 * (2 * 22 + 2), 3 * 34))
        pixels = np.asarray(sheet)[::3, ::3].reshape(34, 46, -1)
    for i in range(2):
        shown = pixels[2:32, 2 + 22 * i : 22 + 22 * i]
        assert np.array_equal(shown, pictures[i, : shown.shape[-1]].permute(1, 2, 0))
