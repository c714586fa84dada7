"""Sheets of pictures: written, cut again, kept by a run that is stopped."""

from pathlib import Path

import pytest
import torch
from PIL import Image, PngImagePlugin

from ictrl import InputError
from ictrl.experiment.sheets import read_sheet, to_png


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_a_sheet_can_be_cut_again(channels: int, tmp_path: Path, generator: torch.Generator) -> None:
    shown = 3 if channels >= 3 else 1
    sizes = {7: 4, 2: 1, 5: 3}
    pictures = {
        label: torch.randint(0, 256, (n, channels, 8, 8), dtype=torch.uint8, generator=generator)
        for label, n in sizes.items()
    }
    (tmp_path / "sheet.png").write_bytes(to_png(pictures))
    again = read_sheet(tmp_path / "sheet.png")
    assert list(again) == [7, 2, 5]
    for label, images in pictures.items():
        assert torch.equal(again[label], images[:, :shown])
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size == (4 * 8, 3 * 8)
        assert sheet.mode == ("RGB" if shown == 3 else "L")


def test_what_is_no_sheet_is_refused(tmp_path: Path) -> None:
    plain, cut = tmp_path / "plain.png", tmp_path / "cut.png"
    Image.new("L", (8, 8)).save(plain)
    cut.write_bytes(to_png({0: torch.zeros(2, 1, 8, 8, dtype=torch.uint8)})[:90])
    for path in (plain, cut, tmp_path / "missing.png"):
        with pytest.raises(InputError, match="Expected a sheet of pictures but could not read"):
            read_sheet(path)


def test_a_sheet_of_another_size_than_its_entry_says_is_not_decoded(tmp_path: Path, monkeypatch) -> None:
    text = PngImagePlugin.PngInfo()
    text.add_text("ictrl", '{"labels": [1, 2], "counts": [1, 1], "across": 1, "side": 8}')
    Image.new("L", (8, 17)).save(tmp_path / "sheet.png", pnginfo=text)
    with pytest.raises(InputError, match="its entry says 8×16 but it has 8×17"):
        read_sheet(tmp_path / "sheet.png")
    monkeypatch.setenv("ICTRL_MAX_PIXELS", "100")
    with pytest.raises(InputError, match=r"136 pixels, above the limit of 100 \(ICTRL_MAX_PIXELS\)"):
        read_sheet(tmp_path / "sheet.png")
