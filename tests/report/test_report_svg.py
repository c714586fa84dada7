"""Charts as SVG: they can stand among others on a page, and as a file on paper."""

import base64
import re
import xml.etree.ElementTree as ElementTree
from io import BytesIO
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure as Drawing
from PIL import Image

import ictrl.report
from ictrl.report.house_style import canvas, house_style
from ictrl.report.palette import LIGHT
from ictrl.report.plots import Curve, grouped_bars, heat_map, level_bars, line_chart
from ictrl.report.svg import Svg, to_svg, tooltip


def curves() -> Drawing:
    points = [(1.0, 0.9), (2.0, 0.7)]
    return line_chart(
        [Curve("<one> & two", points, "memory"), Curve("faint", points, "frozen", dash=1, faint=True)],
        x_label="task",
        y_label="accuracy",
    )


def chart(kind: str) -> Drawing:
    if kind == "curves":
        return curves()
    if kind == "bars":
        return grouped_bars(
            ["1", "2"], {"memory": [0.1, -0.2], "reencoded": [0.0, 0.3]}, x_label="task", y_label="lost"
        )
    if kind == "level bars":
        return level_bars([("kept", 10, "10 bytes", "memory"), ("images", 0, "nothing", "untrained")])
    values = np.linspace(0, 1, 9).reshape(3, 3)
    words = [["a", "", "b"]] * 3
    return heat_map(values, [("first", 1), ("second", 2)], x_label="to", y_label="from", words=words, root=True)


def svg(kind: str = "curves", ids: str = "here-") -> Svg:
    with house_style():
        return to_svg(chart(kind), "What is to be seen.", ids)


@pytest.mark.parametrize("kind", ["curves", "bars", "level bars", "map"])
def test_a_chart_is_small_clean_and_in_the_colours_of_the_page(kind: str) -> None:
    drawn = svg(kind)
    root = ElementTree.fromstring(drawn.page)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.attrib["viewBox"].startswith("0 0 440 ")
    assert (root.attrib["role"], root.attrib["aria-label"]) == ("img", "What is to be seen.")
    assert {"width", "height"} & root.attrib.keys() == set()  # it is as wide as the page lets it be
    assert not re.search(r"<style|<metadata|<!|xlink|script", drawn.page)
    assert re.findall('https?://[^"]*', drawn.page) == ["http://www.w3.org/2000/svg"]
    assert set(re.findall("#[0-9a-f]{6}", drawn.page)) <= {"#ffffff"}  # letters on a dark shade
    used = set(re.findall(r"var\(--([a-z0-9-]+)\)", drawn.page))
    assert "ink" in used
    assert used <= LIGHT.keys()
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    assert all(text.text for text in texts)  # words, not outlines of letters
    assert len(drawn.page) < 20_000


@pytest.mark.parametrize("kind", ["curves", "bars", "level bars", "map"])
def test_ids_have_the_prefix_and_are_referred_to(kind: str) -> None:
    one, other = svg(kind, "one-"), svg(kind, "other-")
    ids = [set(re.findall(r' id="([^"]*)"', drawn.page)) for drawn in (one, other)]
    assert all(name.startswith("one-") for name in ids[0])
    assert not ids[0] & ids[1]
    assert set(re.findall(r"(?:url\(|href=\")#([^\")]+)", one.page)) == ids[0]


def test_a_file_keeps_its_colours() -> None:
    drawn = svg()
    assert b"var(--" not in drawn.file
    assert LIGHT["memory"].encode() in drawn.file
    assert ElementTree.fromstring(drawn.file).attrib["aria-label"] == "What is to be seen."


def test_words_are_text_whatever_they_hold() -> None:
    drawn = svg().page
    assert "&lt;one&gt; &amp; two" in drawn
    assert "<title>&lt;one&gt; &amp; two</title>" in drawn  # shown to whoever points at the curve


def test_the_same_chart_is_the_same_text_whatever_the_users_settings() -> None:
    before = svg()
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30, "text.usetex": True, "svg.fonttype": "path"}):
        assert svg() == before
        assert matplotlib.rcParams["font.size"] == 30  # and these stay as they are


def test_the_picture_of_a_map_is_small_and_shows_its_values() -> None:
    uris = re.findall(r'href="data:image/png;base64,([^"]*)"', svg("map").page)
    picture = Image.open(BytesIO(base64.b64decode(uris[0])))
    assert picture.mode == "P"
    assert picture.size == (3, 3)
    shades = np.asarray(picture.convert("RGBA"))[..., 3] / 255
    assert shades == pytest.approx(np.sqrt(np.linspace(0, 1, 9)).reshape(3, 3), abs=0.003)


def test_a_picture_of_many_colours_keeps_them() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    with house_style():
        drawing, axes = canvas(height=100)
        axes.imshow(pixels, interpolation="none")
        (uri,) = re.findall(r'href="data:image/png;base64,([^"]*)"', to_svg(drawing, "Pixels.", "p-").page)
    found = np.asarray(Image.open(BytesIO(base64.b64decode(uri))).convert("RGB"))
    assert np.array_equal(found, pixels)


def test_no_global_figure_is_drawn_on() -> None:
    sources = [path.read_text() for path in Path(str(ictrl.report.__file__)).parent.rglob("*.py")]
    assert len(sources) > 20
    assert not any("pyplot" in source for source in sources)


def test_any_artist_may_have_a_tooltip() -> None:
    with house_style():
        drawing, axes = canvas(height=100)
        axes.axhline(0.5, gid=tooltip("half & half"))
        drawn = to_svg(drawing, "A line.", "t-").page
    assert "<title>half &amp; half</title>" in drawn
    assert "tooltip:" not in drawn
