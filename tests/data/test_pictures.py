"""Single picture files of every kind."""

import contextlib
import io
import os
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from ictrl.data import decode_picture, read_picture
from ictrl.data import pictures as module
from ictrl.data.pictures import FORMATS
from ictrl.data.resize import fit
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


def saved(picture: Image.Image, kind: str, **options: object) -> bytes:
    """The bytes of a picture file."""
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def png_of_size(width: int, height: int) -> bytes:
    """The beginning of a PNG file that says it has so many pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = b"IDAT" + zlib.compress(bytes(1000))
    chunks = [struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in (header, pixels)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP"])
def test_bytes_of_every_format_give_what_the_file_gives(kind: str, tmp_path: Path) -> None:
    content = saved(Image.new("RGB", (12, 12), BLUE), kind)
    (tmp_path / "picture").write_bytes(content)
    image = decode_picture(content, 8, 3)
    assert torch.equal(image, read_picture(tmp_path / "picture", 8, 3))
    assert (image[:, 4, 4].int() - torch.tensor(BLUE)).abs().max() < 4
    assert kind in FORMATS


@pytest.mark.parametrize("orientation", range(10))
def test_every_orientation_is_as_pillow_has_it(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    colours = np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    content = saved(Image.fromarray(colours), "PNG", exif=exif)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(content))))
    assert np.array_equal(decode_picture(content, 8, 3).permute(1, 2, 0), upright)


def test_more_pixels_than_the_limit_are_refused_by_the_header_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError) as caught:
        decode_picture(png_of_size(13370, 13370), 8, 3, "bomb.png")
    assert str(caught.value) == (
        "Expected a picture but could not read bomb.png: it has 178,756,900 pixels, above the limit of 50,000,000 "
        "(ICTRL_MAX_PIXELS)."
    )
    with pytest.raises(InputError, match=r"more pixels than the limit of 50,000,000 \(ICTRL_MAX_PIXELS\)"):
        decode_picture(png_of_size(2**31 - 1, 2**31 - 1), 8, 3)
    webp = b"RIFF\x40\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff\x3f\0" * 2 + bytes(40)
    with pytest.raises(InputError, match=r"268,435,456 pixels, .*ICTRL_MAX_PIXELS"):
        decode_picture(webp, 8, 3)
    monkeypatch.setenv("ICTRL_MAX_PIXELS", "63")
    small = Image.new("RGB", (8, 8))
    for kind, options in [
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("GIF", {}),
        ("JPEG", {}),
        ("TIFF", {}),
        ("BMP", {}),
    ]:
        with pytest.raises(InputError, match=r"64 pixels, above the limit of 63 \(ICTRL_MAX_PIXELS\)"):
            decode_picture(saved(small, kind, **options), 8, 3)
    monkeypatch.setenv("ICTRL_MAX_PIXELS", "64")
    monkeypatch.setenv("ICTRL_MAX_PICTURE_BYTES", "50")
    with pytest.raises(InputError, match=r"bytes in one picture file, above the limit of 50"):
        decode_picture(saved(small, "PNG"), 8, 3)


def test_formats_whose_decoders_start_programs_are_not_known() -> None:
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    with pytest.raises(InputError, match="no known picture format"):
        decode_picture(eps, 8, 3)


def test_a_pipe_is_named_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(InputError, match=r"could not read pipe\.png: a pipe, and no regular file\."):
        read_picture(tmp_path / "pipe.png", 8, 3)


@pytest.mark.parametrize("mode", ["L", "P", "RGB", "RGBA", "LA", "CMYK", "I;16", "1"])
def test_bands_of_a_large_picture_make_the_same_image(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    colours = Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 40, 4)).astype(np.uint8))
    picture = colours.convert("L").convert("I;16") if mode == "I;16" else colours.convert(mode)
    content = saved(picture, "TIFF" if mode == "CMYK" else "PNG")
    whole = [decode_picture(content, 16, channels) for channels in (1, 3)]
    monkeypatch.setattr(module, "BAND", 7 * 40)
    monkeypatch.setattr("ictrl.data.resize.CHUNK_PIXELS", 1000)  # and channel by channel
    assert all(torch.equal(decode_picture(content, 16, channels), whole[channels // 2]) for channels in (1, 3))


def test_channels_resized_one_by_one_are_those_resized_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.randint(0, 256, (3, 3, 40, 50), dtype=torch.uint8)
    together = fit(images, 16, 3)
    monkeypatch.setattr("ictrl.data.resize.CHUNK_PIXELS", 40 * 40)
    assert torch.equal(fit(images, 16, 3), together)


def test_a_chunk_that_says_it_is_huge_allocates_nothing(tmp_path: Path) -> None:
    """Pillow asks a file for as much as the chunk says that follows the last pixel."""
    content = bytearray(saved(Image.new("L", (8, 8)), "PNG"))
    place = content.index(b"IDAT") - 4
    content[place : place + 4] = (2**31 - 1).to_bytes(4, "big")
    (tmp_path / "huge.png").write_bytes(content)
    tracemalloc.start()
    try:
        with contextlib.suppress(InputError):
            read_picture(tmp_path / "huge.png", 8, 1)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
