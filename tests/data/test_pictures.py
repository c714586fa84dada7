"""Single picture files of every kind."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ictrl.data import read_picture
from ictrl.errors import InputError

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def test_grey_palette_bilevel_and_16_bit_pictures(tmp_path: Path) -> None:
    Image.new("L", (8, 8), 100).save(tmp_path / "grey.png")
    Image.new("RGB", (8, 8), BLUE).quantize(4).save(tmp_path / "palette.png")
    Image.new("1", (8, 8), 1).save(tmp_path / "bilevel.png")
    Image.fromarray(np.full((8, 8), 100 * 256 + 7, dtype=np.uint16)).save(tmp_path / "deep.png")
    assert read_picture(tmp_path / "grey.png", 8, 3).unique().tolist() == [100]
    assert read_picture(tmp_path / "palette.png", 8, 3)[:, 0, 0].tolist() == list(BLUE)
    assert read_picture(tmp_path / "bilevel.png", 8, 1).unique().tolist() == [255]
    assert read_picture(tmp_path / "deep.png", 8, 1).unique().tolist() == [100]


def test_colour_becomes_grey_by_luma(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), GREEN).save(tmp_path / "green.png")
    assert read_picture(tmp_path / "green.png", 8, 1).unique().tolist() == [150]


def test_transparency_shows_white(tmp_path: Path) -> None:
    Image.new("RGBA", (8, 8), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    Image.new("RGBA", (8, 8), (255, 0, 0, 255)).save(tmp_path / "opaque.png")
    Image.new("LA", (8, 8), (0, 0)).save(tmp_path / "grey.png")
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([0, 0, 0])
    palette.save(tmp_path / "palette.png", transparency=0)
    assert read_picture(tmp_path / "opaque.png", 8, 3)[:, 0, 0].tolist() == list(RED)
    for name in ("clear", "grey", "palette"):
        assert read_picture(tmp_path / f"{name}.png", 8, 3).unique().tolist() == [255], name


def test_exif_orientation_is_followed(tmp_path: Path) -> None:
    picture = Image.new("RGB", (16, 16), RED)
    picture.paste(BLUE, (0, 0, 16, 8))  # blue above red, to be turned clockwise: blue to the right
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.save(tmp_path / "turned.png", exif=exif)
    image = read_picture(tmp_path / "turned.png", 16, 3)
    assert image[:, 8, 12].tolist() == list(BLUE)
    assert image[:, 8, 3].tolist() == list(RED)


def test_a_large_jpeg_is_close_to_the_same_picture_in_full(tmp_path: Path) -> None:
    gradient = np.linspace(0, 255, 640).astype(np.uint8)[None, :].repeat(640, axis=0)
    Image.fromarray(gradient).save(tmp_path / "large.jpg", quality=95)
    Image.fromarray(gradient).save(tmp_path / "large.png")
    jpeg, png = (read_picture(tmp_path / f"large.{kind}", 8, 1).int() for kind in ("jpg", "png"))
    assert int((jpeg - png).abs().max()) <= 2


def test_one_broken_picture_alone_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"")
    with pytest.raises(InputError) as caught:
        read_picture(tmp_path / "x.png", 8, 3)
    assert str(caught.value) == "Expected a picture but could not read x.png: it is in no known picture format."
    with pytest.raises(InputError, match=r"could not read absent\.png: .*No such file"):
        read_picture(tmp_path / "absent.png", 8, 3)
