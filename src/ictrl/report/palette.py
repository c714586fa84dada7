"""The report's colours: by name, in light and in dark, and one for each method.

Charts are drawn in the light colours, which is what a paper wants. On the page every one of them becomes a CSS variable
(`svg`), so that it follows the reader's choice of light or dark. No two names share a light colour: that is how a
variable is found again.
"""

import colorsys

from ictrl.config import METHODS

LIGHT = {
    "page": "#ffffff",
    "soft": "#f4f5f7",
    "ink": "#1d2329",
    "quiet": "#5b6670",
    "rule": "#d5dade",
    "memory": "#1566a3",
    "reencoded": "#b4560b",
    "untrained": "#6b747c",
    "frozen": "#7d4fa0",
    "method-0": "#7e50a1",
    "method-1": "#1465a2",
    "method-2": "#a8324a",
    "method-3": "#2b7a3d",
    "method-4": "#4d6b00",
    "method-5": "#00767a",
}
DARK = {
    "page": "#14181c",
    "soft": "#1e242a",
    "ink": "#e4e8eb",
    "quiet": "#a3adb6",
    "rule": "#3a434b",
    "memory": "#6cb6ee",
    "reencoded": "#f0a25c",
    "untrained": "#a0aab3",
    "frozen": "#c49be3",
    "method-0": "#c49be3",
    "method-1": "#6cb6ee",
    "method-2": "#f08ba0",
    "method-3": "#79c98a",
    "method-4": "#b5cf5a",
    "method-5": "#5cc9cc",
}
METHOD_COLOURS = 24
GOLDEN = 0.381966  # of the circle: hues that follow one another by it stay apart, however many there are


def _hue(i: int, lightness: float) -> str:
    red, green, blue = colorsys.hls_to_rgb(i * GOLDEN % 1, lightness, 0.55)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


for i in range(sum(name.startswith("method-") for name in LIGHT), METHOD_COLOURS):
    # alternately lighter and darker, so that neighbours on the circle can be told apart
    LIGHT[f"method-{i}"], DARK[f"method-{i}"] = _hue(i, 0.28 + 0.08 * (i % 2)), _hue(i, 0.68 + 0.1 * (i % 2))

# the page's own ground is white as letters on a dark shade are, and these stay white at night
VARIABLES = {"#000000": "var(--ink)"} | {colour: f"var(--{name})" for name, colour in LIGHT.items() if name != "page"}


def method_colour(method: str) -> str:
    """The name of a method's colour, the same on every page: methods are numbered as they become known.

    >>> method_colour("ictrl") == method_colour("frozen")
    False
    """
    return f"method-{list(METHODS).index(method) % METHOD_COLOURS}"
