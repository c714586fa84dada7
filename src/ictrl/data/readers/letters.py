"""Capital letters in many fonts and colours: a dataset without a download, in which there is something to learn.

They are drawn with the fonts that matplotlib carries, turned, stretched and moved a little, light on dark or dark on
light, on a background that shades from one colour into another, with noise. Nothing but its shape tells a letter: its
pixels say as much about the colours. The training images are set in DejaVu and STIX; the test images in Computer
Modern, so that what is measured is knowledge of letters and not of sixteen fonts.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import affine_grid, avg_pool2d, grid_sample

from ictrl.config import StreamConfig
from ictrl.data.dataset import Dataset
from ictrl.data.registry import register_dataset
from ictrl.errors import InputError
from ictrl.shapes import Float, Int, UInt8

LETTERS = "ABCDEFGHIJKLMNOPQRST"
_DEJAVU = [f"DejaVuSans{kind}{style}" for kind in ("", "Mono") for style in ("", "-Bold", "-Oblique", "-BoldOblique")]
_DEJAVU += [f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")]
FONTS = (*_DEJAVU, *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")))
TEST_FONTS = ("cmr10", "cmb10", "cmss10", "cmti10", "cmtt10")

SIDE = 32
CANVAS = 64  # on which a font draws, twice as large
FONT_SIZE = 56
PER_CLASS, TEST_PER_CLASS = 200, 50
TURN = 15.0  # degrees, at most, either way
SCALE = (0.75, 1.05)  # of width and height, each by itself
MOVE = 0.15  # of half the side
CONTRAST = 90.0  # of 255, between letter and background, at least
NOISE = 12.0  # of 255, standard deviation
LUMA = np.array([0.299, 0.587, 0.114])  # brightness of red, green and blue


@register_dataset(
    "letters",
    "capital letters in many fonts and colours, drawn here",
    classes=len(LETTERS),
    images=PER_CLASS * len(LETTERS),
    test_images=TEST_PER_CLASS * len(LETTERS),
    side=SIDE,
    channels=3,
)
def read_letters(stream: StreamConfig, image_size: int, channels: int) -> Dataset:
    """Letters of 32×32 pixels in colour, the same ones every time; the test images show other fonts."""
    if stream.root:
        raise InputError(
            f"Expected no stream.root for the embedded letters but got {stream.root}: for pictures of your own take "
            "the recipe pictures, or give --stream.dataset folder as well."
        )
    random = np.random.default_rng(0)
    images, labels = _drawn(FONTS, PER_CLASS, random)
    test_images, test_labels = _drawn(TEST_FONTS, TEST_PER_CLASS, random)
    return Dataset("letters", images, labels, test_images, test_labels, dict(enumerate(LETTERS)))


def _drawn(
    fonts: tuple[str, ...], per_class: int, random: np.random.Generator
) -> tuple[UInt8[Tensor, "n 3 side side"], Int[Tensor, " n"]]:
    """So many images of every letter, each in a font drawn at random."""
    labels = np.repeat(np.arange(len(LETTERS)), per_class)
    n = len(labels)
    ink = _moved(_canvases(fonts)[random.integers(len(fonts), size=n), labels], random)  # (n, 1, side, side)
    letter, near, far = torch.from_numpy(_colours(n, random)).float()[..., None, None]  # each (n, 3, 1, 1)
    background = near + _shades(n, random)[:, None] * (far - near)
    pixels = torch.lerp(background, letter, ink)
    pixels += NOISE * torch.from_numpy(random.standard_normal(pixels.shape, dtype=np.float32))
    return pixels.round_().clamp_(0, 255).to(torch.uint8), torch.from_numpy(labels)


def _shades(n: int, random: np.random.Generator) -> Float[Tensor, "n side side"]:
    """From 0 to 1 across each image, in some direction."""
    angle = torch.from_numpy(random.uniform(0, 2 * np.pi, (n, 1, 1))).float()
    line = torch.linspace(-0.5, 0.5, SIDE) / 2**0.5
    return 0.5 + angle.cos() * line + angle.sin() * line[:, None]


def _canvases(fonts: tuple[str, ...]) -> Float[Tensor, "fonts letters canvas canvas"]:
    """Every letter of every font, its box in the middle, ink from 0 to 1."""
    import matplotlib  # only for the place of its fonts, and only here
    from PIL import Image, ImageDraw, ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    found = np.zeros((len(fonts), len(LETTERS), CANVAS, CANVAS), dtype=np.float32)
    for i, name in enumerate(fonts):
        path = folder / f"{name}.ttf"
        if not path.is_file():
            raise InputError(f"Expected the font {path}, which matplotlib carries, but it is not there: reinstall it.")
        font = ImageFont.truetype(str(path), FONT_SIZE)
        for j, letter in enumerate(LETTERS):
            left, top, right, bottom = font.getbbox(letter)
            canvas = Image.new("L", (CANVAS, CANVAS))
            corner = (CANVAS - left - right) / 2, (CANVAS - top - bottom) / 2
            ImageDraw.Draw(canvas).text(corner, letter, fill=255, font=font)
            found[i, j] = np.asarray(canvas, dtype=np.float32) / 255
    return torch.from_numpy(found)


def _moved(canvases: Float[Tensor, "n canvas canvas"], random: np.random.Generator) -> Float[Tensor, "n 1 side side"]:
    """Each letter turned, stretched and moved, at the images' size."""
    n = len(canvases)
    angle = np.deg2rad(random.uniform(-TURN, TURN, n))
    wide, high = random.uniform(*SCALE, (2, n))
    right, down = random.uniform(-MOVE, MOVE, (2, n))
    # from where a pixel is to where its ink comes from: the inverse of what is done to the letter
    rows = [np.cos(angle) / wide, np.sin(angle) / wide, right], [-np.sin(angle) / high, np.cos(angle) / high, down]
    matrices = torch.from_numpy(np.stack([np.stack(row, 1) for row in rows], 1)).float()  # (n, 2, 3)
    grid = affine_grid(matrices, [n, 1, CANVAS, CANVAS], align_corners=False)
    moved = grid_sample(canvases[:, None], grid, align_corners=False)
    return avg_pool2d(moved, CANVAS // SIDE)


def _colours(n: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Of letters and of both ends of their backgrounds, 0 to 255: (3, n, 3).

    A letter is brighter than both ends, or darker, by CONTRAST at least.
    """
    colours = random.uniform(0, 255, (3, n, 3))
    while True:
        letter, *ends = colours @ LUMA  # each (n,)
        contrast = np.maximum(letter - np.max(ends, 0), np.min(ends, 0) - letter)
        poor = np.flatnonzero(contrast < CONTRAST)
        if not len(poor):
            return colours
        colours[:, poor] = random.uniform(0, 255, (3, len(poor), 3))
