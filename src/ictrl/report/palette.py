"""The report's colours: by name, in light and in dark, and one for each method.

Charts are drawn in the light colours, which is what a paper wants. On the page every one of them becomes a CSS variable
(`svg`), so that it follows the reader's choice of light or dark. No two names share a light colour: that is how a
variable is found again.
"""

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
    "method-4": "#d42975",
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
    "method-4": "#e15e8e",
    "method-5": "#5cc9cc",
}
FURTHER = (
    ("#321b8b", "#786cfe"),
    ("#660a3c", "#fb2c9c"),
    ("#4f4022", "#a08142"),
    ("#cb11b0", "#a9719b"),
    ("#72009d", "#c452fd"),
    ("#0c466f", "#378ccf"),
    ("#6c4d60", "#fbbae2"),
    ("#06390a", "#349f3a"),
    ("#db2a36", "#da5351"),
    ("#055c3e", "#86f9c4"),
    ("#ad5890", "#ff6bcf"),
    ("#511900", "#f3743f"),
    ("#8946fb", "#9781da"),
    ("#7f5c1d", "#f2ca8d"),
    ("#053be0", "#b4c5e5"),
    ("#86281d", "#c37d71"),
    ("#9f1b9a", "#ca66c3"),
    ("#433049", "#e078ff"),
    ("#396bf5", "#15ca02"),
    ("#be02f3", "#c2da29"),
    ("#040059", "#fcff15"),
    ("#3d0050", "#3c8d80"),
    ("#6108de", "#fd01e8"),
    ("#2b0012", "#b5a916"),
)
"""Colours of further methods, in light and in dark. Each was chosen as far as it can be, in OKLab, from all before it
and from `reencoded`, `untrained` and `ink`, with a contrast of at least 4.5 to the page."""
for light, dark in FURTHER:
    name = f"method-{sum(name.startswith('method-') for name in LIGHT)}"
    LIGHT[name], DARK[name] = light, dark
METHOD_COLOURS = sum(name.startswith("method-") for name in LIGHT)
SHAPES = ("o", "s", "^", "D", "v", "P", "X")
"""Of the dots of a method's curve, for who cannot tell the colours."""

# the page's own ground is white as letters on a dark shade are, and these stay white at night
VARIABLES = {"#000000": "var(--ink)"} | {colour: f"var(--{name})" for name, colour in LIGHT.items() if name != "page"}


def method_colour(method: str) -> str:
    """The name of a method's colour, the same on every page: methods are numbered as they become known.

    >>> method_colour("ictrl") == method_colour("frozen")
    False
    """
    return f"method-{list(METHODS).index(method) % METHOD_COLOURS}"


def method_shape(method: str) -> str:
    """The shape of the dots of a method's curve, by matplotlib's name for it; the same on every page."""
    return SHAPES[list(METHODS).index(method) % len(SHAPES)]
