"""Maps: a square of numbers from 0 to 1, each as a shade."""

from collections.abc import Sequence
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from ictrl.report.drawing import WIDTH, canvas, picture, short, text, thinned, written

SHADE = (37, 115, 181)  # over whatever lies behind: white on paper, dark at night
WIDEST, TOP, LETTER = 118, 6, 7  # room for names, above the field, for a letter
NAMED = 20  # classes whose names fit beside the field
DARK_ENOUGH = 0.75  # from this shade on, letters must be white


def heat_map(
    values: NDArray[np.floating],
    blocks: Sequence[tuple[str, int]],
    *,
    x_label: str,
    y_label: str,
    alt: str,
    words: Sequence[Sequence[str]] | None = None,
    root: bool = False,
) -> str:
    """The values as SVG. `blocks` are the names of the rows, and of the columns, each with how many it covers.

    `words` are written into the cells. With `root`, a shade grows with the square root of its value, so that small ones
    can be seen.
    """
    side = len(values)
    shades = np.sqrt(values) if root else values
    longest = max(len(short(name)) for name, _ in blocks)
    left = min(WIDEST, 32 + LETTER * longest)
    field = WIDTH - left - 8
    below = TOP + field + (20 if longest <= 2 else 14 + 0.7 * LETTER * longest) + 16
    drawing = canvas(below + 6, alt)
    picture(drawing, left, TOP, field, field, _shaded(shades))
    cell = field / side
    begin, places = 0, []
    for _, size in blocks:
        places.append((begin + size / 2) * cell)
        begin += size
    for i in thinned(range(len(blocks)), NAMED):
        name, place = short(blocks[i][0]), places[i]
        text(drawing, left - 6, TOP + place + 4, name, "end", fill="var(--quiet)", font_size="11")
        x, y = left + place, TOP + field + 14
        turn = {"transform": f"rotate(-45 {x:.1f} {y})"} if len(name) > 2 else {}
        text(drawing, x, y, name, "end" if turn else "middle", fill="var(--quiet)", font_size="11", **turn)
    for i, row in enumerate(words or ()):
        for j, word in enumerate(row):
            ink = "#ffffff" if shades[i, j] > DARK_ENOUGH else "var(--ink)"
            text(drawing, left + (j + 0.5) * cell, TOP + (i + 0.5) * cell + 4, word, "middle", fill=ink, font_size="11")
    middle = TOP + field / 2
    text(drawing, 12, middle, y_label, "middle", transform=f"rotate(-90 12 {middle:g})")
    text(drawing, left, below, x_label)
    key = left + field - 12  # where the key of shades ends
    picture(drawing, key - 96, below - 10, 96, 10, _shaded(np.linspace(0, 1, 96)[None] ** (0.5 if root else 1)))
    text(drawing, key - 102, below, "0", "end", fill="var(--quiet)", font_size="11")
    text(drawing, key + 5, below, "1", fill="var(--quiet)", font_size="11")
    return written(drawing)


def _shaded(values: NDArray[np.floating]) -> bytes:
    """A PNG of one colour, more or less transparent."""
    from PIL import Image

    image = Image.fromarray(np.round(255 * np.clip(values, 0, 1)).astype(np.uint8)).convert("L")
    image = Image.frombytes("P", image.size, image.tobytes())
    image.putpalette(SHADE * 256)
    buffer = BytesIO()
    image.save(buffer, format="PNG", transparency=bytes(range(256)), optimize=True)
    return buffer.getvalue()
