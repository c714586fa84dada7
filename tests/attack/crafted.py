"""Files that were made to break their reader, one by one: small, and asking for much."""

import gzip
import io
import struct
import zlib
from collections.abc import Callable

from PIL import Image

from attack import samples


def crafted() -> list[tuple[str, Callable[[], bytes]]]:
    """Each under a name whose ending says how it is read."""
    return [
        ("png-13370-square.png", lambda: _png(13370, 13370)),
        ("png-largest.png", lambda: _png(2**31 - 1, 2**31 - 1)),
        ("png-as-large-as-allowed.png", lambda: _saved((7071, 7071), "RGBA", "PNG")),
        ("gif-as-large-as-allowed.gif", lambda: _saved((7071, 7071), "P", "GIF")),
        ("bits-as-large-as-allowed.tiff", lambda: _saved((7071, 7071), "1", "TIFF", compression="group4")),
        ("jpeg-as-large-as-allowed.jpg", lambda: _saved((7071, 7071), "RGB", "JPEG", progressive=True, subsampling=0)),
        ("webp-as-large-as-allowed.webp", lambda: _saved((7071, 7071), "RGB", "WEBP", method=0, quality=1)),
        ("flat.png", lambda: _saved((50_000_000, 1), "L", "PNG")),
        ("high.png", lambda: _saved((1, 50_000_000), "L", "PNG")),
        ("webp-canvas.webp", _webp),
        ("gif-frame.gif", _gif),
        ("postscript.png", lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"),
        ("text-bomb.png", _text_bomb),
        ("bomb.npz", lambda: _npz("(300000, 1, 32, 32)", bytes(307_200_000))),
        ("huge-shape.npz", lambda: _npz("(1000000000000, 3, 8, 8)", b"")),
        ("upscaled.npz", lambda: _npz("(4000000, 8, 8)", bytes(256_000_000))),
        ("overflowing.npz", lambda: _npz("(4294967296, 4294967296, 8)", b"")),
        ("bomb.gz", lambda: gzip.compress(struct.pack(">HBBIII", 0, 8, 3, 10, 28, 28) + bytes(500_000_000), 9)),
        ("lie.gz", lambda: gzip.compress(struct.pack(">HBBIII", 0, 8, 3, 2**32 - 1, 2**32 - 1, 1))),
        ("far.pickle", lambda: b"}r\xff\xff\xff\x7f."),
        ("nested.pickle", lambda: b"}U\1k" + b"]" * 900_000 + b"a" * 899_999 + b"s."),
        ("shared.pickle", lambda: b"}U\4data)" + b"q\0h\0\x86" * 1000 + b"s."),
        ("long.pickle", lambda: b"\x8b" + struct.pack("<i", 50_000_000) + b"\xff" * 50_000_000 + b"."),
        ("system.pickle", lambda: b"cos\nsystem\n(S'touch /tmp/attacked'\ntR."),
        ("steps.pickle", lambda: b"}" + b"]0" * 5_000_000 + b"."),
        ("dotted.toml", lambda: b"a" + b".a" * 60_000 + b" = 1\n"),
        ("quoted.toml", lambda: b'"\\""' + b'."\\""' * 30_000 + b" = 1\n"),
        ("nested.toml", lambda: b"a = " + b"[" * 100_000 + b"]" * 100_000),
        ("tables.toml", lambda: b"a = " + b"{a = " * 30_000),
        ("number.toml", lambda: b"[run]\nseed = " + b"9" * 200_000),
        ("many.toml", lambda: b"".join(b"[a%d.b.c.d]\ne = 1\n" % number for number in range(10_000))),
        ("same.toml", lambda: b"[a]\n" * 60_000),
        ("nested.json", lambda: b"[" * 30_000_000),
        ("number.json", lambda: b"[" + b"9" * 30_000_000 + b"]"),
        ("empty-lists.json", lambda: b"[" + b"[]," * 10_000_000 + b"[]]"),
        ("too-long.json", lambda: b'"' + b"a" * 40_000_000 + b'"'),
    ]


def _saved(size: tuple[int, int], mode: str, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, kind, **options)
    return buffer.getvalue()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _png(width: int, height: int) -> bytes:
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + _chunk(b"IDAT", zlib.compress(bytes(10**7))) + _chunk(b"IEND", b"")


def _text_bomb() -> bytes:
    """Texts of a picture that unpack to far more than it has pixels."""
    whole = samples.pictures()["rgb.png"]
    text = _chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(10**8)))
    return whole[:33] + text * 20 + whole[33:]


def _webp() -> bytes:
    canvas = b"VP8X\x0a\0\0\0\x02\0\0\0" + b"\xff\x3f\0" * 2
    return b"RIFF" + struct.pack("<I", len(canvas) + 100) + b"WEBP" + canvas + bytes(100)


def _gif() -> bytes:
    """A small screen with a frame that is as large as can be."""
    frame = b"\x2c\0\0\0\0" + b"\xff\xff\xff\xff" + b"\0\x02\x02\x44\x01\0\x3b"
    return b"GIF89a" + struct.pack("<HHBBB", 8, 8, 0x80, 0, 0) + bytes(6) + frame


def _npz(shape: str, content: bytes) -> bytes:
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    images = b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + content
    return samples.zipped({"x_train": images, "y_train": samples.npz_members()["y_train"]}, packed=True)
