"""Contact sheets: pictures side by side in a PNG file."""

from collections.abc import Sequence
from io import BytesIO

import torch
from torch import Tensor

from ictrl.shapes import UInt8

SMALLEST = 64  # pixels: smaller pictures are enlarged by a whole factor, so that one can see them
GAP = 2  # white pixels between pictures


def contact_sheet(rows: Sequence[UInt8[Tensor, "_ c h w"]]) -> bytes:
    """A PNG file of pictures in rows, one tensor per row.

    One channel is shown as grey and three as colours; of other numbers the first three, and of two the first.
    """
    from PIL import Image

    _, channels, height, width = rows[0].shape
    shown = 3 if channels >= 3 else 1
    longest = max(len(row) for row in rows)
    sheet = torch.full((shown, len(rows) * (height + GAP) + GAP, longest * (width + GAP) + GAP), 255, dtype=torch.uint8)
    for i, row in enumerate(rows):
        for j, picture in enumerate(row):
            top, left = GAP + i * (height + GAP), GAP + j * (width + GAP)
            sheet[:, top : top + height, left : left + width] = picture[:shown]
    factor = max(1, -(-SMALLEST // max(height, width)))
    sheet = sheet.repeat_interleave(factor, 1).repeat_interleave(factor, 2)
    buffer = BytesIO()
    Image.fromarray(sheet.permute(1, 2, 0).squeeze(-1).contiguous().numpy()).save(buffer, format="PNG")
    return buffer.getvalue()
