"""Panels of pictures with titles in a PNG file."""

from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from ictrl import InputError
from ictrl.visualize.titled_sheet import APART, GAP, WIDEST, Panel, Row, titled_sheet

WHITE = 255


def plain(n: int, value: int, side: int = 16, channels: int = 1) -> torch.Tensor:
    return torch.full((n, channels, side, side), value, dtype=torch.uint8)


def opened(content: bytes) -> Image.Image:
    return Image.open(BytesIO(content))


def squares(sheet: Image.Image, value: int) -> list[tuple[int, int, int, int]]:
    """Left, top, width and height of every square of one grey value; what is smaller belongs to letters."""
    pixels, found = np.asarray(sheet.convert("L")) == value, []
    while pixels.any():
        top, left = np.argwhere(pixels)[0]
        width = int(np.argmin(np.append(pixels[top, left:], False)))
        height = int(np.argmin(np.append(pixels[top:, left], False)))
        pixels[top : top + height, left : left + width] = False
        found.append((int(left), int(top), width, height))
    return [one for one in found if min(one[2:]) > 8]


def test_the_same_class_stands_at_one_height_in_every_panel_whatever_the_size_of_pictures() -> None:
    one = Panel("ours", "a", [""], [Row("cat", [plain(2, 40)]), Row("dog", [plain(2, 90)])])
    other = Panel("theirs", "b", [""], [Row("cat", [plain(2, 40, side=32)]), Row("dog", [plain(2, 90, side=32)])])
    sheet = opened(titled_sheet([one, other]))
    assert (sheet.format, sheet.mode) == ("PNG", "L")
    for value in (40, 90):
        found = squares(sheet, value)
        assert [size[2:] for size in found] == [(32, 32)] * 4  # 16 pixels are enlarged to 32
        assert len({top for _, top, *_ in found}) == 1
        lefts = [left for left, *_ in found]
        assert lefts[1] - lefts[0] == lefts[3] - lefts[2] == 32 + GAP
        assert lefts[2] - lefts[1] > 32 + APART


def test_titles_and_names_are_drawn_where_nothing_else_is() -> None:
    def ink(title: str, name: str) -> np.ndarray:
        return np.asarray(opened(titled_sheet([Panel(title, "", [""], [Row(name, [plain(1, 255)])])])))

    nothing = ink(" ", " ")
    assert (nothing == WHITE).all()
    assert (ink("Ours", " ")[: 2 * 20 + 5] < 128).sum() > 50
    below = ink(" ", "cat")
    assert (below[: 2 * 20] == WHITE).all()
    assert (below < 128).sum() > 20
    assert ink(" ", "a name of two hundred characters " * 6).shape[1] < 200  # cut off


def test_a_cell_without_pictures_is_a_dash_and_heads_stand_over_columns() -> None:
    rows = [Row("cat", [plain(2, 40), plain(2, 60)]), Row("dog", [None, plain(2, 90)])]
    sheet = opened(titled_sheet([Panel("ours", "", ["after 1", "after 2"], rows)]))
    ((left, top, *_), _) = squares(sheet, 90)
    assert left == squares(sheet, 60)[0][0]
    pixels = np.asarray(sheet)
    blank = pixels[top : top + 32, squares(sheet, 40)[0][0] : left - GAP]
    assert 0 < (blank < WHITE).sum() < 60


def test_pictures_to_compare_stand_right_below() -> None:
    row = Row("cat", [plain(2, 40)], below=[plain(2, 70)], below_name="nearest")
    sheet = opened(titled_sheet([Panel("ours", "", [""], [row])]))
    for above, below in zip(squares(sheet, 40), squares(sheet, 70), strict=True):
        assert (below[0], below[1]) == (above[0], above[1] + 32 + GAP)


def test_many_panels_and_many_rows_stay_within_a_page() -> None:
    panel = Panel("ours", "a", [""], [Row(str(i), [plain(5, 40)]) for i in range(10)])
    sheet = opened(titled_sheet([panel] * 7))
    assert sheet.width <= WIDEST + APART
    assert sheet.height < 1000
    firsts = sorted({top for _, top, *_ in squares(sheet, 40)})
    assert len(firsts) == 20  # four panels above three
    hundred = Panel("ours", "a", [""], [Row(str(i), [plain(8, 40)]) for i in range(100)])
    sheet = opened(titled_sheet([hundred]))
    assert sheet.width <= WIDEST + APART
    assert sheet.height < 2000
    assert len(squares(sheet, 40)) == 800


def test_colours_are_kept_in_a_palette() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8, generator=generator)
    sheet = opened(titled_sheet([Panel("ours", "", [""], [Row("cat", [noise])]), _grey()]))
    assert sheet.mode == "P"
    red = plain(1, 0, channels=3)
    red[:, 0] = 200
    shown = np.asarray(opened(titled_sheet([Panel("ours", "", [""], [Row("cat", [red])])])).convert("RGB"))
    assert (np.abs(shown.astype(int) - [200, 0, 0]).max(-1) <= 4).sum() == 32 * 32


def _grey() -> Panel:
    return Panel("theirs", "", [""], [Row("cat", [plain(2, 40)])])


def test_what_no_viewer_opens_is_refused_before_it_is_made() -> None:
    row = Row("cat", [plain(1, 40).expand(700, -1, -1, -1)])
    with pytest.raises(InputError, match="at most 20,000 × 20,000 pixels .* show fewer"):
        titled_sheet([Panel("ours", "", [""], [row])])
