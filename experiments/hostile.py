"""Requests that nobody should send: each as bytes for a socket, with pauses between them, and what may come back.

`serve_hostile.py` sends them.
"""

import io
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image

CRLF = b"\r\n"
BOUNDARY = b"b0undary"
FORM = b"multipart/form-data; boundary=" + BOUNDARY


@dataclass(frozen=True)
class Hostile:
    """A request: pieces to send, seconds to wait between them, and whether a closed connection is an answer too."""

    kind: str
    pieces: list[bytes]
    pause: float = 0.0
    may_close: bool = False
    leave: bool = False
    """close the connection without reading anything"""


def request(
    method: bytes = b"POST",
    target: bytes = b"/predict",
    body: bytes = b"",
    kind: bytes | None = b"image/png",
    *extra: bytes,
) -> bytes:
    """A request that is well-formed, as far as its parts are."""
    lines = [b"%s %s HTTP/1.1" % (method, target), b"Host: 127.0.0.1", *extra]
    if kind is not None:
        lines.append(b"Content-Type: " + kind)
    if body or method in (b"POST", b"PUT"):
        lines.append(b"Content-Length: %d" % len(body))
    return CRLF.join([*lines, b"", body])


def form(*parts: tuple[bytes, bytes], end: bool = True) -> bytes:
    """A form of files: names and contents."""
    pieces = [
        b'--%s\r\nContent-Disposition: form-data; name="%s"; filename="x.png"\r\nContent-Type: image/png\r\n\r\n%s\r\n'
        % (BOUNDARY, name, content)
        for name, content in parts
    ]
    return b"".join(pieces) + (b"--%s--\r\n" % BOUNDARY if end else b"")


def picture(chance: random.Random, kind: str = "PNG", side: int = 16) -> bytes:
    """A good picture."""
    pixels = np.random.default_rng(chance.getrandbits(32)).integers(0, 256, (side, side, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format=kind)
    return buffer.getvalue()


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def bomb(chance: random.Random) -> bytes:
    """A PNG of some kilobytes that says it has billions of pixels, or hides gigabytes in its text or its profile."""
    width, height = chance.choice([(50_000, 50_000), (2**31 - 1, 2**31 - 1), (65_000, 2_000), (0, 0), (8, 8)])
    head = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    zeros = zlib.compress(bytes(4_000_000), 9)
    text, profile = (_chunk(name, b"a\0\0" + zeros) for name in (b"zTXt", b"iCCP"))
    extra = chance.choice([text, profile, b""]) if width != 8 else text
    return head + extra + _chunk(b"IDAT", zeros[: chance.randrange(10, len(zeros))]) + _chunk(b"IEND", b"")


def bombs(chance: random.Random) -> Hostile:
    return Hostile("bomb", [request(body=bomb(chance))])


def large_headers(chance: random.Random) -> Hostile:
    """Other formats whose header promises more than may be decoded."""
    side = chance.randrange(20_000, 60_000)
    gif = (
        b"GIF89a"
        + struct.pack("<HH", side, side)
        + b"\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0"
        + struct.pack("<HH", side, side)
    )
    bmp = (
        b"BM"
        + struct.pack("<IHHI", 60, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, side, side, 1, 24, 0, 0, 0, 0, 0, 0)
    )
    return Hostile("large header", [request(body=chance.choice([gif + b"\0\x02\x02D\x01\0;", bmp]), kind=b"image/gif")])


def truncated(chance: random.Random) -> Hostile:
    kind = chance.choice(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
    content = picture(chance, kind, 64)
    return Hostile(f"truncated {kind}", [request(body=content[: chance.randrange(1, len(content) // 2)])])


def noise(chance: random.Random) -> Hostile:
    start = chance.choice(
        [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe1", b"GIF89a", b"II*\0", b"RIFF\0\0\0\0WEBPVP8 ", b"BM"]
    )
    return Hostile("noise", [request(body=start + chance.randbytes(chance.randrange(0, 3000)))])


def other_formats(chance: random.Random) -> Hostile:
    contents = [
        *(
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
            b"%PDF-1.7\n",
            b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        ),
        *(
            b"P6 2 2 255 aaaaaaaaaaaa",
            b"8BPS\0\1",
            b"\0\0\1\0\1\0",
            b"PK\3\4",
            b"\x7fELF",
            b"#!/bin/sh\n",
            b"id=ImageMagick",
        ),
    ]
    return Hostile("other format", [request(body=chance.choice(contents))])


def wrong_types(chance: random.Random) -> Hostile:
    kinds = [
        b"application/json",
        b"text/plain",
        b"application/x-www-form-urlencoded",
        b"text/html",
        b"multipart/mixed",
        b";;;",
    ]
    return Hostile("wrong type", [request(body=picture(chance), kind=chance.choice(kinds))])


def forms(chance: random.Random) -> Hostile:
    """Forms that are none."""
    good = picture(chance)
    part = b"--%s\r\n" % BOUNDARY
    bodies = [
        *(form((b"a", good), end=False), b"", good, b"--%s--\r\n" % BOUNDARY, b"--other\r\n" + form((b"a", good))[12:]),
        *(part + b"\r\n" + good, part + b"Content-Disposition: form-data\r\n\r\nx\r\n", part + b"X: " + b"y" * 9000),
        part + b"".join(b"H%d: v\r\n" % i for i in range(50)) + b"\r\nx\r\n--%s--" % BOUNDARY,
        part + b'Content-Disposition: form-data; name="\xff\xfe"; filename="\xc3"\r\n\r\nx\r\n--%s--' % BOUNDARY,
        part
        + b'Content-Disposition: form-data; name="text"\r\n\r\n'
        + b"x" * chance.randrange(2000)
        + b"\r\n--%s--" % BOUNDARY,
        form(*[(b"a", b"x")] * 400),
        form((b"a", chance.randbytes(50))),
    ]
    kind = chance.choice([FORM] * 6 + [b"multipart/form-data", b"multipart/form-data; boundary=" + b"x" * 300])
    return Hostile("wrong form", [request(body=chance.choice(bodies), kind=kind)])


def huge(chance: random.Random) -> Hostile:
    """Bodies beyond every limit: announced, or chunk after chunk."""
    target = chance.choice([b"/predict", b"/teach"])
    if chance.random() < 0.7:
        length = chance.choice([10**9, 10**12, 10**18])
        head = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
        return Hostile("huge", [head % (target, FORM if target == b"/teach" else b"image/png", length), bytes(1000)])
    head = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece = b"100000\r\n" + bytes(2**20) + CRLF
    return Hostile("huge", [head, *[piece] * 4], may_close=True)


def queries(chance: random.Random) -> Hostile:
    wrong = [
        *(
            "unknown=abc",
            "unknown=nan",
            "unknown=1e999",
            "unknown=0",
            "unknown=1",
            "unknown=-1",
            "unknown=",
            "reconstruct=2",
        ),
        *(
            "reconstruct=%00",
            "top=0",
            "top=-1",
            "top=1e9",
            "top=99999999999999999999",
            "x=1",
            "unknown=0.1&unknown=0.2",
        ),
        *("a[]=1", "%ff=%ff", "unknown=%F0%9F%92%A3", "__proto__=1", "top=1;drop"),
    ]
    return Hostile("wrong query", [request(target=b"/predict?" + chance.choice(wrong).encode(), body=picture(chance))])


def paths(chance: random.Random) -> Hostile:
    targets = [
        *(
            b"/../../etc/passwd",
            b"/static/../app.py",
            b"/static/%2e%2e/app.py",
            b"/static/..%2fapp.py",
            b"/static//etc/passwd",
        ),
        *(
            b"/static/%00",
            b"/static/" + b"a" * 5000,
            b"/classes/%ff",
            b"/classes/%00/samples",
            b"/classes//",
            b"/classes/",
        ),
        *(b"/classes/0/../../versions", b"/classes/nobody/samples", b"/classes/0/samples/1", b"/classes/0%2Fsamples/x"),
        *(
            b"//predict",
            b"/predict/",
            b"/%70redict%00",
            b"/teach.php",
            b"/.env",
            b"/admin",
            b"/versions/1/2",
            b"/static/..\\app.py",
        ),
        *(b"/classes/0/samples?n=1000000000", b"/classes/0/samples?n=-1", b"/classes/0/samples?direction=99999"),
        *(b"/classes/0/picture?at=nan", b"/classes/0/picture?at=1e308", b"/classes/0/picture?at=" + b"1," * 4000),
        *(b"/classes/0/directions?x=1", b"/classes/0/samples?seed=-1", b"/%c0%ae%c0%ae/", b"/static/%E2%80%AE"),
    ]
    return Hostile("path", [request(b"GET", chance.choice(targets), kind=None)])


def methods(chance: random.Random) -> Hostile:
    method = chance.choice([b"PUT", b"PATCH", b"TRACE", b"OPTIONS", b"FOO", b"get", b"POST", b"DELETE"])
    target = chance.choice([b"/healthz", b"/classes", b"/metrics", b"/", b"/versions", b"/static/index.html"])
    return Hostile("wrong method", [request(method, target, kind=None)])


def changes(chance: random.Random) -> Hostile:
    """Changes that must not happen."""
    return Hostile(
        "wrong change",
        [
            chance.choice(
                [
                    *(request(b"DELETE", b"/classes/nobody"), request(b"DELETE", b"/classes/0?versions=all")),
                    *(
                        request(b"DELETE", b"/teaching"),
                        request(target=b"/versions/999999"),
                        request(target=b"/versions/x"),
                    ),
                    *(request(target=b"/versions/-1"), request(target=b"/versions/%F0%9F%92%A3")),
                    request(target=b"/versions/" + b"9" * 3000),
                ]
            )
        ],
    )


def lessons(chance: random.Random) -> Hostile:
    """Teaching that must be refused before anything is learned."""
    good = picture(chance)
    names = [b"", b" ", b"0", b"\x01", b"new\x00", b"n" * 500, b"\xe2\x80\xae", b"new"]
    bodies = [
        form(*[(chance.choice(names[:-1]), good)] * 12),
        form(*[(b"new", good)] * 3),
        form(*[(b"new", good)] * 11, (b"new", good[:40])),
        *(form((b"new", bomb(chance))), b"", good),
    ]
    target = chance.choice(
        [b"/teach"] * 6 + [b"/teach?held_out=1", b"/teach?held_out=nan", b"/teach?seed=x", b"/teach?epochs=1"]
    )
    kind = chance.choice([FORM] * 9 + [b"image/png", b"application/json"])
    return Hostile("wrong lesson", [request(target=target, body=chance.choice(bodies), kind=kind)])


def headers(chance: random.Random) -> Hostile:
    """HTTP that is none, or that pretends."""
    post = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    raw = [
        *(b"GET /classes HTTP/1.1\r\n\r\n", b"GET /classes HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        *(
            b"GET /classes HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            b"GET /classes HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n",
        ),
        request(b"POST", b"/versions/1", b"", None, b"Origin: http://evil.example"),
        request(b"DELETE", b"/classes/0", b"", None, b"Origin: null"),
        request(b"DELETE", b"/classes/0", b"", None, b"Sec-Fetch-Site: cross-site"),
        b"GET /classes HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"GET /classes HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 20_000 + CRLF,
        *(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"GET /classes HTTP/9.9\r\n\r\n"),
        *(
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100) + b"\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ),
        *(chance.randbytes(300) + b"\r\n\r\n", b"\r\n\r\n\r\n\0\r\n\r\n", b"GET /classes HTTP/1.1\nHost\n\n"),
        post + b"Content-Length: -5\r\n\r\n",
        post + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        post + b"Content-Length: abc\r\n\r\n",
        post + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        post + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
        post + b"Transfer-Encoding: gzip\r\n\r\n",
        b"GET /classes HTTP/1.1\r\nHost: 127.0.0.1\r\nX\0: y\r\n\r\n",
        b"GET /classes HTTP/1.1\r\nHost: 127.0.0.1\r\n X: folded\r\n\r\n",
    ]
    return Hostile("wrong head", [chance.choice(raw)])


def slow(chance: random.Random) -> Hostile:
    """Bytes that come too slowly: of the head, of the body, or never."""
    head = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: image/png\r\nContent-Length: 1000\r\n\r\n"
    drip = [bytes([byte]) for byte in head]
    return Hostile(
        "slow",
        chance.choice([[head, *[b"x"] * 30], [head], drip[:60], [b"POST /predict HT"], [head[:-2]]]),
        pause=0.3,
    )


def silent(chance: random.Random) -> Hostile:
    """A connection on which nothing is ever asked."""
    return Hostile("silent", [], may_close=True)


def gone(chance: random.Random) -> Hostile:
    """A client that goes away in the middle."""
    whole = request(body=picture(chance, side=64))
    return Hostile("gone", [whole[: chance.randrange(1, len(whole))]], leave=True)


QUICK: list[Callable[[random.Random], Hostile]] = [
    *(bombs, large_headers, truncated, noise, other_formats, wrong_types, forms, queries, paths, methods),
    *(changes, lessons, headers, huge, gone),
]
SLOW = [slow, silent]
SLOWLY = 0.02  # share of requests that wait until the server has enough of them


def hostile(chance: random.Random) -> Hostile:
    """One of them."""
    return chance.choice(SLOW if chance.random() < SLOWLY else QUICK)(chance)
