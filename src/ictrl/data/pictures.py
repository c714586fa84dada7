"""One picture file, of whatever kind, as an image for the network.

Pictures are turned upright as their EXIF orientation says, transparent parts become white, 16 bits become 8, and of an
animation the first frame is taken; `resize.fit` does the rest.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import torch
from torch import Tensor

from ictrl.data.resize import fit
from ictrl.errors import InputError
from ictrl.shapes import UInt8

if TYPE_CHECKING:
    from PIL.Image import Image

DRAFT = 8  # a large JPEG is decoded at a fraction of its size, but at least this many times the side wanted


def read_picture(source: Path | bytes, image_size: int, channels: int) -> UInt8[Tensor, "channels side side"]:
    """A picture from a file or from its bytes, as a square image; an error says why it cannot be read."""
    from PIL import Image

    with explained(source.name if isinstance(source, Path) else "the picture"):
        file: BinaryIO = source.open("rb") if isinstance(source, Path) else io.BytesIO(source)
        with file, Image.open(file) as picture:
            picture.draft(None, (DRAFT * image_size, DRAFT * image_size))
            return from_picture(picture, image_size, channels)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turns whatever goes wrong while a picture is read into one line that names it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd metadata: what matters is whether there are pixels
            yield
    except MemoryError:
        raise
    except Exception as error:  # a broken file can fail in any way that the format's decoder can
        raise InputError(f"Expected a picture but could not read {name}: {_reason(error)}.") from None


def from_picture(picture: "Image", image_size: int, channels: int) -> UInt8[Tensor, "channels side side"]:
    """An opened picture as a square image of that size, which is what the network takes."""
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(picture)
    array = np.array(_plain(upright, grey=channels == 1))  # a copy, which may be written to
    image = torch.from_numpy(array.reshape(array.shape[0], array.shape[1], -1)).permute(2, 0, 1)
    return fit(image[None], image_size, channels)[0]


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


def _reason(error: Exception) -> str:
    """The first line of the error, without the object addresses that Pillow puts into some."""
    from PIL import UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return "it is in no known picture format"
    lines = str(error).splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
