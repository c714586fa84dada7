"""Files changed at random: bits, lengths, cuts, splices, and tokens that parsers stumble over."""

from collections.abc import Sequence
from copy import deepcopy
from random import Random

NUMBERS = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
TOKENS = [
    b"\0",
    b"\xff" * 8,
    b"-1",
    b"0",
    b"99999999999999999999",
    b"1e999",
    b"NaN",
    b"Infinity",
    b"-0.0",
    b"null",
    b"true",
    b"[" * 200,
    b"]" * 20,
    b"{" * 200,
    b"}" * 20,
    b'""',
    b"''",
    b'"',
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\xed\xa0\x80",
    b"\n",
    b"\r\n",
    b"\x1b[2J",
    "\u202e".encode(),
    b"../../../etc/passwd",
    b"/dev/zero",
    b"a" * 5000,
    b"9" * 5000,
    b".a" * 300,
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b\x08",
    b"\x89PNG\r\n",
    b"IHDR",
    b"IDAT",
    b"IEND",
    b"tRNS",
    b"eXIf",
    b"\xff\xd8",
    b"\xff\xda",
    b"\xff\xc2",
    b"GIF89a",
    b"RIFF",
    b"WEBP",
    b"VP8X",
    b"VP8L",
    b"ANMF",
    b"II*\0",
    b"MM\0*",
    b"BM",
    b"\x93NUMPY",
    b"'descr'",
    b"'|O'",
    b"'shape'",
    b"cos\nsystem\n",
    b"R",
    b"\x93",
    b"%!PS-Adobe",
]
"""What parsers stumble over."""


def mutated(content: bytes, random: Random, others: Sequence[bytes] = ()) -> bytes:
    """The content with one to eight changes; `others` are files to splice with."""
    changed = bytearray(content)
    for _ in range(1 + min(7, int(random.expovariate(0.7)))):
        kind = random.randrange(10)
        place = random.randrange(len(changed) + 1)
        near = min(place, random.randrange(64))  # headers are at the beginning
        at = near if random.random() < 0.4 else place
        if kind <= 2 and changed:
            changed[at % len(changed)] ^= 1 << random.randrange(8)
        elif kind == 3 and changed:
            changed[at % len(changed)] = random.randrange(256)
        elif kind == 4:
            size = random.choice((1, 2, 4, 8))
            value = random.choice(NUMBERS) % 2 ** (8 * size)
            changed[at : at + size] = value.to_bytes(size, random.choice(("little", "big")))
        elif kind == 5:
            del changed[place : place + 1 + int(random.expovariate(0.02))]
        elif kind == 6:
            del changed[place:]
        elif kind == 7:
            changed[at:at] = random.choice(TOKENS)
        elif kind == 8:
            token = random.choice(TOKENS)
            changed[at : at + len(token)] = token
        else:
            other = random.choice(others) if others else bytes(changed)
            start = random.randrange(len(other) + 1)
            changed[place:place] = other[start : start + 1 + int(random.expovariate(0.005))]
    return bytes(changed)


VALUES = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**63,
    2**70,
    -(2**70),
    10**400,
    0.5,
    1e308,
    -1e308,
    "",
    "none",
    "x" * 5000,
    "\x1b[2J",
    "\u202e",
    "\ud800",
    "999999999999999999999",
    [],
    {},
    [[]],
    [None],
    {"a": {}},
    [1] * 300,
    "nan",
)
"""What may stand in place of any value of JSON."""


def mutated_table(value: object, random: Random) -> object:
    """JSON with one value changed somewhere: another, another's, taken away, nested or doubled."""
    places: list[tuple[object, object]] = []
    level = [value]
    while level:
        inner: list[object] = []
        for item in level:
            keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
            places += [(item, key) for key in keys]
            inner += [item[key] for key in keys]  # type: ignore[index]
        level = inner
    if not places:
        return random.choice(VALUES)
    for _ in range(1 + int(random.expovariate(1.2))):
        holder, key = random.choice(places)
        kind = random.randrange(8)
        try:
            old = holder[key]  # type: ignore[index]
        except (KeyError, IndexError):
            continue
        if kind <= 3:
            holder[key] = random.choice(VALUES)  # type: ignore[index]
        elif kind == 4:
            del holder[key]  # type: ignore[attr-defined]
        elif kind == 5:
            other, name = random.choice(places)
            holder[key] = deepcopy(other[name]) if _has(other, name) else [old]  # type: ignore[index]
        elif kind == 6:
            holder[key] = nested(old, random.choice((2, 70, 200)))  # type: ignore[index]
        elif isinstance(holder, list):
            holder.insert(0, old)
        elif isinstance(holder, dict):
            holder[random.choice(("", "x" * 300, "-1", "9" * 30, "\x1b[2J", "__class__", "1.5"))] = old
    return value


def _has(holder: object, key: object) -> bool:
    return key in holder if isinstance(holder, dict) else isinstance(key, int) and key < len(holder)  # type: ignore[arg-type]


def nested(value: object, depth: int) -> object:
    """The value within so many lists."""
    for _ in range(depth):
        value = [value]
    return value
