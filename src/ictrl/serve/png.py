"""Pictures that come in as bytes, and those that go out as PNG. Nothing here touches a file."""

import base64
import io

from torch import Tensor

from ictrl.data.pictures import DRAFT, explained, from_picture
from ictrl.errors import InputError
from ictrl.shapes import UInt8

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""What is decoded; everything else that Pillow knows stays shut."""


def decode(content: bytes, image_size: int, channels: int, million_pixels: int) -> UInt8[Tensor, "channels side side"]:
    """A picture that was sent, as `ictrl predict` reads a file of it; an InputError says why it cannot be."""
    from PIL import Image

    try:
        with explained("the picture"):
            _check_size(_webp_size(content), million_pixels)
            with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
                _check_size(picture.size, million_pixels)
                picture.draft(None, (DRAFT * image_size, DRAFT * image_size))
                return from_picture(picture, image_size, channels)
    except MemoryError:
        raise InputError("Expected a picture that fits into memory but got a larger one: lower --max-pixels.") from None


def _webp_size(content: bytes) -> tuple[int, int]:
    """What an extended WebP file says of its size: its decoder takes the memory for that as soon as it is opened."""
    if content[:4] != b"RIFF" or content[8:16] != b"WEBPVP8X" or len(content) < 30:
        return 0, 0
    return 1 + int.from_bytes(content[24:27], "little"), 1 + int.from_bytes(content[27:30], "little")


def _check_size(size: tuple[int, int], million_pixels: int) -> None:
    """By the header, before anything is decoded."""
    width, height = size
    if width * height > million_pixels * 1_000_000:
        raise ValueError(f"it has {width}×{height} pixels, and --max-pixels allows {million_pixels} million")


def png(image: UInt8[Tensor, "c h w"]) -> bytes:
    """One picture as a PNG file. One channel is grey, three are colours; of other numbers the first."""
    from PIL import Image

    shown = image if len(image) in (1, 3) else image[:1]
    buffer = io.BytesIO()
    Image.fromarray(shown.permute(1, 2, 0).squeeze(-1).contiguous().cpu().numpy()).save(buffer, format="PNG")
    return buffer.getvalue()


def data_url(image: UInt8[Tensor, "c h w"]) -> str:
    """One picture as text, for JSON and for the `src` of an `img`."""
    return "data:image/png;base64," + base64.b64encode(png(image)).decode()
