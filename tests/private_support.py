"""Looking for pictures in files: as pictures, and as the numbers that they are made of."""

import base64
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor


def pictures_in(out: Path) -> Iterator[tuple[str, Tensor]]:
    """Every picture in a run folder as (1, h, w), from PNG files and from pages."""
    for path in out.rglob("*"):
        if path.suffix == ".png":
            yield path.name, _decoded(path.read_bytes())
        if path.suffix in (".html", ".svg", ".json"):
            for found in re.findall(r"data:image/[a-z]+;base64,([A-Za-z0-9+/=]+)", path.read_text(encoding="utf-8")):
                yield path.name, _decoded(base64.b64decode(found))


def _decoded(png: bytes) -> Tensor:
    with Image.open(BytesIO(png)) as picture:
        return torch.from_numpy(np.array(picture.convert("RGBA").convert("L")))


def shows(picture: Tensor, images: Tensor) -> bool:
    """Whether one of the images is somewhere in a picture, at its own size."""
    side = images.shape[-1]
    if min(picture.shape) < side:
        return False
    windows = picture.unfold(0, side, 1).unfold(1, side, 1).reshape(-1, side * side)
    there = {bytes(window) for window in windows.numpy()}
    return any(bytes(image.numpy()) in there for image in images.flatten(1))


def holds(out: Path, images: Tensor) -> list[str]:
    """Files of a run in which an image's bytes stand, as they are or as numbers that networks read."""
    raw = images.flatten(1)
    kinds = (raw, raw.float() / 255, raw.float() / 127.5 - 1)
    needles = [row.numpy().tobytes() for kind in kinds for row in kind]
    return [path.name for path in out.rglob("*") if path.is_file() and any(n in path.read_bytes() for n in needles)]
