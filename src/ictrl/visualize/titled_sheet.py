"""Titled sheets: panels of pictures side by side, with the names of rows and columns drawn in, as one small PNG file.

A panel is what one learner draws: a row per class, in each of its columns a few pictures. Panels of different picture
sizes are enlarged by whole factors to about one size, so that the same class stands at the same height in all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from ictrl.errors import InputError
from ictrl.shapes import UInt8

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

SMALLEST = 32  # pixels of a picture's side: smaller ones are enlarged
GAP, BETWEEN, APART, LINE = 2, 10, 28, 20  # pixels between pictures, columns, panels; height of a line of text
WIDEST = 960  # pixels of a sheet: a page shows no more without making the titles small
LONGEST = 120  # pixels of a name
TALL = 25  # rows from which on a panel has several blocks of them
MOST = 20_000  # pixels of a side, beyond which viewers fail
INK, QUIET = "#1d2329", "#5b6670"

Pictures = UInt8[Tensor, "n c h w"]


@dataclass(frozen=True)
class Row:
    """A class: its name and, in each column, pictures of it, or None where there are none."""

    name: str
    cells: Sequence[Pictures | None]
    below: Sequence[Pictures | None] = ()
    """other pictures to compare each with"""
    below_name: str = ""


@dataclass(frozen=True)
class Panel:
    """What one learner draws."""

    title: str
    subtitle: str
    columns: Sequence[str]
    """their names; one without a name has no head"""
    rows: Sequence[Row]


def titled_sheet(panels: Sequence[Panel]) -> bytes:
    """A PNG file of panels side by side, in several lines where they are many.

    Pictures of one channel are shown as grey, of three as colours; of other numbers the first three, and of two the
    first. A sheet with colours has at most 256 of them, which keeps the file small.
    """
    from PIL import Image, ImageDraw

    side = max(SMALLEST, *(picture_side(panel) for panel in panels))
    laid = [_Laid.of(panel, side) for panel in panels]
    across = max(1, (WIDEST + APART) // (max(one.width for one in laid) + APART))
    lines = -(-len(laid) // across)
    across = -(-len(laid) // lines)  # 4 and 3 rather than 6 and 1
    placed = [laid[start : start + across] for start in range(0, len(laid), across)]
    widths = [max(line[j].width for line in placed if j < len(line)) for j in range(across)]
    heights = [max(one.height for one in line) for line in placed]
    width, height = sum(widths) + APART * across, sum(heights) + APART * lines
    if max(width, height) > MOST:
        raise InputError(
            f"Expected a sheet of at most {MOST:,} × {MOST:,} pixels but it would have {width:,} × {height:,}: show "
            "fewer classes, runs or pictures."
        )
    sheet = Image.new("RGB", (width, height), "white")
    pen, top = ImageDraw.Draw(sheet), APART // 2
    for line, high in zip(placed, heights):
        left = APART // 2
        for one, wide in zip(line, widths):
            one.draw(sheet, pen, left, top)
            left += wide + APART
        top += high + APART
    coloured = any(_shown_channels(pictures) == 3 for panel in panels for pictures in _pictures(panel))
    made = sheet.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE) if coloured else sheet.convert("L")
    buffer = BytesIO()
    made.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


@dataclass(frozen=True)
class _Laid:
    """A panel and the places of its parts."""

    panel: Panel
    side: int
    """of a picture, enlarged or not"""
    names: int
    """width of the column of names"""
    columns: Sequence[int]
    """their widths"""
    blocks: int
    """of rows, side by side"""

    @classmethod
    def of(cls, panel: Panel, side: int) -> "_Laid":
        side = (side // picture_side(panel)) * picture_side(panel)
        each = [_most(panel, j) for j in range(len(panel.columns))]
        columns = [
            max(n * (side + GAP) - GAP, _length(head, _font(12))) for n, head in zip(each, panel.columns, strict=True)
        ]
        told = [name for row in panel.rows for name in (row.name, row.below_name)]
        names = max(min(LONGEST, _length(name, _font(13))) for name in told) + BETWEEN
        wide = names + sum(columns) + BETWEEN * len(columns)
        blocks = max(1, min(-(-len(panel.rows) // TALL), WIDEST // wide))
        return cls(panel, side, names, columns, blocks)

    @property
    def each(self) -> int:
        """Rows of a block."""
        return -(-len(self.panel.rows) // self.blocks)

    @property
    def block_width(self) -> int:
        return self.names + sum(self.columns) + BETWEEN * (len(self.columns) - 1)

    @property
    def width(self) -> int:
        titles = _length(self.panel.title, _font(16, bold=True)), _length(self.panel.subtitle, _font(12))
        return max(self.blocks * (self.block_width + APART) - APART, min(WIDEST, max(titles)))

    @property
    def head(self) -> int:
        """Height of what stands above the rows."""
        return LINE * (2 + any(self.panel.columns)) + BETWEEN // 2

    @property
    def row_height(self) -> int:
        lines = 2 if any(row.below for row in self.panel.rows) else 1
        return lines * (self.side + GAP) + (BETWEEN // 2 if lines == 2 else 0)

    @property
    def height(self) -> int:
        return self.head + self.each * self.row_height

    def draw(self, sheet: "Image", pen: "ImageDraw", left: int, top: int) -> None:
        """Onto a sheet, from that corner on."""
        title, subtitle = _font(16, bold=True), _font(12)
        pen.text((left, top), _cut(self.panel.title, title, self.width), INK, title)
        pen.text((left, top + LINE), _cut(self.panel.subtitle, subtitle, self.width), QUIET, subtitle)
        for block in range(self.blocks):
            x = left + block * (self.block_width + APART)
            self._draw_heads(pen, x + self.names, top + 2 * LINE)
            for i, row in enumerate(self.panel.rows[block * self.each : (block + 1) * self.each]):
                self._draw_row(sheet, pen, row, x, top + self.head + i * self.row_height)

    def _draw_heads(self, pen: "ImageDraw", x: int, y: int) -> None:
        for head, width in zip(self.panel.columns, self.columns):
            pen.text((x + width / 2, y), head, QUIET, _font(12), anchor="ma")
            x += width + BETWEEN

    def _draw_row(self, sheet: "Image", pen: "ImageDraw", row: Row, left: int, top: int) -> None:
        named = ((row.name, row.cells, INK), (row.below_name, row.below, QUIET))
        for line, (name, cells, colour) in enumerate(named):
            y, x = top + line * (self.side + GAP), left + self.names
            font = _font(13)
            pen.text((left, y + self.side / 2), _cut(name, font, LONGEST), colour, font, anchor="lm")
            for cell, width in zip(cells, self.columns):
                if cell is None:
                    pen.text((x + width / 2, y + self.side / 2), "–", QUIET, font, anchor="mm")
                else:
                    for k, picture in enumerate(cell):
                        sheet.paste(_enlarged(picture, self.side), (x + k * (self.side + GAP), y))
                x += width + BETWEEN


def picture_side(panel: Panel) -> int:
    """Pixels of the longer side of a panel's pictures."""
    return max(max(pictures.shape[-2:]) for pictures in _pictures(panel))


def _pictures(panel: Panel) -> list[Pictures]:
    return [cell for row in panel.rows for cell in (*row.cells, *row.below) if cell is not None]


def _most(panel: Panel, column: int) -> int:
    """Pictures of the fullest cell of a column."""
    return max((len(cell) for row in panel.rows if (cell := row.cells[column]) is not None), default=1)


def _shown_channels(pictures: Pictures) -> int:
    return 3 if pictures.shape[1] >= 3 else 1


def _enlarged(picture: UInt8[Tensor, "c h w"], side: int) -> "Image":
    from PIL import Image

    shown = picture[: 3 if len(picture) >= 3 else 1].permute(1, 2, 0).squeeze(-1).contiguous()
    opened = Image.fromarray(shown.numpy())
    factor = max(1, side // max(opened.size))
    return opened.resize((factor * opened.width, factor * opened.height), Image.Resampling.NEAREST)


# Text


@cache
def _font(size: int, bold: bool = False) -> "FreeTypeFont":
    """DejaVu, which comes with matplotlib and has most alphabets."""
    from matplotlib import get_data_path
    from PIL import ImageFont

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(str(Path(get_data_path()) / "fonts" / "ttf" / name), size)


def _length(text: str, font: "FreeTypeFont") -> int:
    return int(-(-font.getlength(text) // 1))


def _cut(text: str, font: "FreeTypeFont", most: int) -> str:
    """The text, or as much of it as there is room for."""
    if _length(text, font) <= most:
        return text
    while text and _length(f"{text}…", font) > most:
        text = text[:-1]
    return f"{text}…"
