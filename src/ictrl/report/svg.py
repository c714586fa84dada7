"""Drawings as SVG that can stand on a page among others.

Matplotlib writes an SVG as a file of its own. Here it becomes part of a page: no address and no style sheet in it, only
ids that are referred to, each with a prefix that no other drawing has, words for those who cannot see it, and colours
that are the page's variables. As a file, the same drawing keeps the colours it was drawn in.
"""

import base64
import re
import warnings
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from io import BytesIO
from xml.etree.ElementTree import Element

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Drawing
from PIL import Image

from ictrl.report.palette import VARIABLES

TOOLTIP = "tooltip:"  # how the gid of an artist begins that has one
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # they name addresses, and the time
PNG = "data:image/png;base64,"
REFERENCE = re.compile(r"(^#|url\(#)([\w-]+)")
COLOUR = re.compile("#[0-9a-f]{6}")


@dataclass(frozen=True)
class Svg:
    """A drawing in both its forms."""

    page: str
    """part of an HTML page; its colours are the page's variables"""
    file: bytes
    """a file for a paper, in light colours"""


def to_svg(drawing: Drawing, alt: str, ids: str) -> Svg:
    """The drawing as SVG; `alt` says in words what is to be seen, and no other drawing's ids may begin with `ids`."""
    root = _drawn(drawing)
    everything = list(root.iter())
    referred = {
        found[2] for element in everything for value in element.attrib.values() for found in REFERENCE.finditer(value)
    }
    for element in everything:
        _tidy(element, referred, ids)
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": alt,
        "fill": "#000000",
        "stroke-linejoin": "round",
    }
    file = ElementTree.tostring(root, encoding="unicode").encode()
    for element in everything:
        for name in {"fill", "style"} & element.attrib.keys():
            element.attrib[name] = COLOUR.sub(lambda found: VARIABLES.get(found[0], found[0]), element.attrib[name])
    return Svg(ElementTree.tostring(root, encoding="unicode"), file)


def tooltip(words: str) -> str:
    """The gid of an artist that is to show these words to whoever points at it."""
    return TOOLTIP + words


def data_uri(png: bytes) -> str:
    """A PNG file as an address that holds all of it."""
    return PNG + base64.b64encode(png).decode()


def _drawn(drawing: Drawing) -> Element:
    """What matplotlib makes of it."""
    buffer = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a browser has letters that our font lacks
        FigureCanvasSVG(drawing).print_svg(buffer, metadata=NO_METADATA)
    return ElementTree.fromstring(buffer.getvalue())


def _tidy(element: Element, referred: set[str], ids: str) -> None:
    """Leave out name spaces, style sheets, blanks, and ids that nothing refers to; the others get the prefix."""
    element.tag = element.tag.rpartition("}")[2]
    for style in element.findall("{*}style"):
        element.remove(style)  # it would hold for the whole page
    if element.tag != "text":
        element.text = None
    element.tail = None
    attributes = {name.rpartition("}")[2]: " ".join(value.split()) for name, value in element.items()}
    name = attributes.pop("id", "")
    element.attrib = {key: REFERENCE.sub(rf"\g<1>{ids}\g<2>", value) for key, value in attributes.items()}
    if name in referred:
        element.attrib["id"] = ids + name
    elif name.startswith(TOOLTIP):
        words = Element("title")
        words.text = name.removeprefix(TOOLTIP)
        element.insert(0, words)
    if element.tag == "image":
        element.attrib["href"] = _smaller(attributes["href"])


def _smaller(uri: str) -> str:
    """A picture's data, with a byte per pixel instead of four if it is of one colour, more or less transparent."""
    picture = Image.open(BytesIO(base64.b64decode(uri.removeprefix(PNG)))).convert("RGBA")
    *colours, shades = picture.split()
    if any(len(set(colour.tobytes())) > 1 for colour in colours):
        return uri
    small = Image.frombytes("P", picture.size, shades.tobytes())
    small.putpalette(b"".join(colour.tobytes()[:1] for colour in colours) * 256)
    buffer = BytesIO()
    small.save(buffer, format="PNG", transparency=bytes(range(256)))
    return data_uri(buffer.getvalue())
