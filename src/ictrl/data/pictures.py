"""One picture file, of whatever kind, as an image for the network.

Pictures are turned upright as their EXIF orientation says, transparent parts become white, 16 bits become 8, and of an
animation the first frame is taken; `resize.fit` does the rest.

A picture may come from a stranger. Its bytes are given to the decoders of a few formats only, never to those that start
other programs, and its header is compared with the limits (`ictrl.limits`) before a pixel is decoded. Large ones are
converted band by band, so that a picture with as many pixels as allowed takes less than a gigabyte.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ictrl.data.resize import fit
from ictrl.errors import ConfigError, InputError
from ictrl.limits import PICTURE_BYTES, PIXELS, open_regular
from ictrl.shapes import UInt8

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP")
DRAFT = 8  # a large JPEG is decoded at a fraction of its size, but at least this many times the side wanted
BAND = 2**21  # pixels that are converted at a time
ORIENTATION = 0x0112  # in EXIF


def read_picture(path: Path, image_size: int, channels: int) -> UInt8[Tensor, "channels side side"]:
    """A picture file as a square image; an error says why it cannot be read."""
    with explained(path.name), open_regular(path) as file:
        return _read(file, image_size, channels)


def decode_picture(
    content: bytes, image_size: int, channels: int, name: str = "the picture"
) -> UInt8[Tensor, "channels side side"]:
    """The bytes of a picture file as a square image; an error calls it by that name."""
    with explained(name):
        return _read(io.BytesIO(content), image_size, channels)


def _read(file: io.BufferedReader | io.BytesIO, image_size: int, channels: int) -> UInt8[Tensor, "channels side side"]:
    from PIL import Image

    _check(PICTURE_BYTES.exceeded(file.seek(0, io.SEEK_END)))
    file.seek(0)
    width, height = _webp_size(file.read(30))
    _check(PIXELS.exceeded(width * height))  # this decoder allocates what the header says when it is opened
    file.seek(0)
    if Image.MAX_IMAGE_PIXELS is not None:  # Pillow's own limit is not to be below the one that was set
        Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS, PIXELS.value)
    with Image.open(file, formats=FORMATS) as picture:
        _check(PIXELS.exceeded(picture.width * picture.height))
        picture.draft(None, (DRAFT * image_size, DRAFT * image_size))
        pixels = _pixels(picture, grey=channels == 1)
    return _fitted(pixels, image_size, channels)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turns whatever goes wrong while a picture is read into one line that names it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd metadata: what matters is whether there are pixels
            yield
    except (MemoryError, ConfigError):
        raise
    except Exception as error:  # a broken file can fail in any way that the format's decoder can
        raise InputError(f"Expected a picture but could not read {name}: {_reason(error)}.") from None


def from_picture(picture: "Image", image_size: int, channels: int) -> UInt8[Tensor, "channels side side"]:
    """An opened picture as a square image of that size, which is what the network takes."""
    _check(PIXELS.exceeded(picture.width * picture.height))
    return _fitted(_pixels(picture, grey=channels == 1), image_size, channels)


def _fitted(pixels: NDArray[Any], image_size: int, channels: int) -> UInt8[Tensor, "channels side side"]:
    image = torch.from_numpy(pixels.reshape(pixels.shape[0], pixels.shape[1], -1)).permute(2, 0, 1)
    return fit(image[None], image_size, channels)[0]


def _pixels(picture: "Image", grey: bool) -> NDArray[Any]:
    """The picture upright, in grey (height, width) or in colour (height, width, 3), as bytes."""
    picture.load()
    shape = (picture.height, picture.width) if grey else (picture.height, picture.width, 3)
    pixels: NDArray[Any] = np.empty(shape, dtype=np.uint8)
    rows = max(1, BAND // picture.width)
    for top in range(0, picture.height, rows):
        bottom = min(top + rows, picture.height)
        band = picture.crop((0, top, picture.width, bottom)) if rows < picture.height else picture
        pixels[top:bottom] = np.asarray(_plain(band, grey))
    return np.ascontiguousarray(_upright(pixels, picture.getexif().get(ORIENTATION)))


def _upright(pixels: NDArray[Any], orientation: object) -> NDArray[Any]:
    """The pixels turned and mirrored as a camera noted that they are to be."""
    turns = {3: 2, 4: 2, 5: -1, 6: -1, 7: 1, 8: 1}  # quarters, to the left
    turned = np.rot90(pixels, turns[orientation]) if isinstance(orientation, int) and orientation in turns else pixels
    return turned[:, ::-1] if orientation in (2, 4, 5, 7) else turned


def _plain(picture: "Image", grey: bool) -> "Image":
    """The picture in grey or in colour, 8 bits per channel, without transparency."""
    from PIL import Image

    if picture.mode.startswith("I"):  # 16 bits, which Pillow would cut off at 255 instead of scaling them
        levels = np.asarray(picture).astype(np.int64).clip(0, 2**16 - 1)
        picture = Image.fromarray((levels >> 8).astype(np.uint8))
    if picture.mode == "F":
        raise ValueError("its pixels are floating-point numbers of no known range")
    if picture.has_transparency_data:
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture.convert("RGBA"))
    return picture.convert("L" if grey else "RGB")


def _webp_size(header: bytes) -> tuple[int, int]:
    """Width and height in the first 30 bytes of a WebP file; nothing for other formats."""
    if header[:4] != b"RIFF" or header[8:12] != b"WEBP" or len(header) < 30:
        return 0, 0
    if header[12:16] == b"VP8X":
        return 1 + int.from_bytes(header[24:27], "little"), 1 + int.from_bytes(header[27:30], "little")
    if header[12:16] == b"VP8L":
        bits = int.from_bytes(header[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return int.from_bytes(header[26:28], "little") & 0x3FFF, int.from_bytes(header[28:30], "little") & 0x3FFF


def _check(problem: str) -> None:
    if problem:
        raise InputError(f"it has {problem}")


def _reason(error: Exception) -> str:
    """The first line of the error, without the object addresses that Pillow puts into some."""
    from PIL import UnidentifiedImageError
    from PIL.Image import DecompressionBombError

    if isinstance(error, UnidentifiedImageError):
        return "it is in no known picture format"
    if isinstance(error, DecompressionBombError):
        return f"it has more pixels than the limit of {PIXELS.value:,} ({PIXELS.variable})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
