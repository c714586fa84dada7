"""Drawing: a figure as SVG, whose colours follow the page it stands on.

Charts are written by hand, element by element: small, with texts that are texts, and escaped by the XML library. A
colour is a name, `var(--memory)`; the page says what it is in light and in dark, and `Figure.file` fills in the light
ones, for a paper.
"""

import base64
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from xml.etree.ElementTree import Element, SubElement

import numpy as np
from numpy.typing import NDArray

LIGHT = {
    "page": "#ffffff",
    "soft": "#f4f5f7",
    "ink": "#1d2329",
    "quiet": "#5b6670",
    "rule": "#d5dade",
    "memory": "#1566a3",
    "reencoded": "#b4560b",
    "floor": "#6b747c",
    "frozen": "#7d4fa0",
    "run-0": "#1566a3",
    "run-1": "#b4560b",
    "run-2": "#2b7a3d",
    "run-3": "#7d4fa0",
    "run-4": "#a8324a",
    "run-5": "#4d6b00",
}
DARK = {
    "page": "#14181c",
    "soft": "#1e242a",
    "ink": "#e4e8eb",
    "quiet": "#a3adb6",
    "rule": "#3a434b",
    "memory": "#6cb6ee",
    "reencoded": "#f0a25c",
    "floor": "#a0aab3",
    "frozen": "#c49be3",
    "run-0": "#6cb6ee",
    "run-1": "#f0a25c",
    "run-2": "#79c98a",
    "run-3": "#c49be3",
    "run-4": "#f08ba0",
    "run-5": "#b5cf5a",
}
RUN_COLOURS = 6
WIDTH = 440  # of a chart: on a phone its texts are still large enough to read

Number = int | float


@dataclass(frozen=True)
class Figure:
    """A chart with what one should know to read it."""

    name: str
    """of its file"""
    title: str
    caption: str
    svg: str

    def file(self) -> bytes:
        """For a paper: the same drawing with colours filled in, on white."""
        return re.sub(r"var\(--([a-z0-9-]+)\)", lambda found: LIGHT[found[1]], self.svg).encode()


def canvas(height: Number, alt: str) -> Element:
    """An empty drawing; `alt` says in words what will be seen on it."""
    return Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {WIDTH} {number(height)}",
            "role": "img",
            "aria-label": alt,
            "font-family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif",
            "font-size": "12",
        },
    )


def line(parent: Element, x1: Number, y1: Number, x2: Number, y2: Number, colour: str, **more: str) -> None:
    ends = {"x1": number(x1), "y1": number(y1), "x2": number(x2), "y2": number(y2)}
    SubElement(parent, "line", {**ends, "stroke": f"var(--{colour})", **_attributes(more)})


def rectangle(
    parent: Element, x: Number, y: Number, width: Number, height: Number, colour: str, **more: str
) -> Element:
    place = {"x": number(x), "y": number(y), "width": number(width), "height": number(height)}
    return SubElement(parent, "rect", {**place, "fill": f"var(--{colour})", **_attributes(more)})


def text(parent: Element, x: Number, y: Number, words: str, anchor: str = "start", **more: str) -> None:
    attributes = {"fill": "var(--ink)", **_attributes(more)}
    SubElement(parent, "text", {"x": number(x), "y": number(y), "text-anchor": anchor, **attributes}).text = words


def picture(parent: Element, x: Number, y: Number, width: Number, height: Number, png: bytes) -> None:
    place = {"x": number(x), "y": number(y), "width": number(width), "height": number(height)}
    look = {"preserveAspectRatio": "none", "style": "image-rendering:pixelated"}
    SubElement(parent, "image", {**place, **look, "href": data_uri(png)})


def tooltip(parent: Element, words: str) -> None:
    SubElement(parent, "title").text = words


def written(drawing: Element) -> str:
    return ElementTree.tostring(drawing, encoding="unicode")


def data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Pixels (h, w) or (h, w, 3) as a file."""
    from PIL import Image

    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def number(value: Number) -> str:
    """A coordinate, without digits that nobody sees."""
    return f"{value:.1f}".removesuffix(".0")


def short(name: str, longest: int = 12) -> str:
    """A name that fits beside an axis."""
    return name if len(name) <= longest else name[: longest - 1] + "…"


def ticks(low: Number, high: Number, about: int = 5) -> list[float]:
    """Round numbers from low to high.

    >>> ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / about
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first = np.ceil(low / step - 1e-9)
    return [round(float(step * (first + i)), 10) for i in range(int((high - first * step) / step + 1e-9) + 1)]


def rounded_up(highest: Number) -> float:
    """Where an axis from 0 should end.

    >>> rounded_up(0.27)
    0.3
    """
    step = ticks(0, highest)[1] if highest > 0 else 1.0
    return round(float(np.ceil(highest / step - 1e-9)) * step, 10) or 1.0


def thinned(items: Sequence[int], most: int) -> list[int]:
    """Every second, third … of the items, so that at most so many are left."""
    return list(items[:: max(1, -(-len(items) // most))])


def _attributes(more: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in more.items()}
