"""How the explorer looks and how it is used without a mouse: colours, widths, names of controls, the keyboard."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from explorer_support import NAMES, NO_CHROMIUM, Explorer, folder, png, upload, wait_for
from playwright.sync_api import FileChooser, expect

from ictrl.report.palette import DARK, LIGHT

PAGE = Path(__file__).parents[2] / "src" / "ictrl" / "serve" / "page"
SIDES = {"light": LIGHT, "dark": DARK}
# every control, with what a screen reader calls it; as far as no library of rules is at hand
CONTROLS = "a[href], button, input, select, textarea, summary, [role=img], canvas"
NAMELESS = """controls => [...document.querySelectorAll(controls)]
  .filter(control => control.checkVisibility() && !control.closest("[aria-hidden=true]"))
  .filter(control => !(
    control.getAttribute("aria-label") || control.textContent.trim() || control.labels?.length
    || document.getElementById(control.getAttribute("aria-labelledby") ?? "")))
  .map(control => control.outerHTML)"""
UNNAMED_PICTURES = "[...document.images].filter(image => !image.hasAttribute('alt')).map(image => image.outerHTML)"
SMALL = """() => [...document.querySelectorAll("main a.button, button, select, .tabs a, input[type=text], .chip")]
  .filter(control => control.checkVisibility())
  .map(control => [control.getBoundingClientRect(), control.outerHTML])
  .filter(([box]) => box.height < 44 || box.width < 44).map(([box, html]) => html)"""


def luminance(colour: list[float]) -> float:
    """Relative luminance as WCAG defines it, of red, green and blue from 0 to 1."""
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: list[float], other: list[float]) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def declared() -> dict[str, tuple[str, str]]:
    """The colours of the style sheet, in light and in dark."""
    text = (PAGE / "styles" / "colours.css").read_text(encoding="utf-8")
    found = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", text)
    return {name: (light, dark) for name, light, dark in found}


def test_its_colours_are_those_of_the_report() -> None:
    assert len(declared()) >= 10
    for name, pair in declared().items():
        assert pair == (LIGHT[name], DARK[name]), name


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_of_words_can_be_read_on_every_ground(theme: str) -> None:
    colours = {name: rgb(pair[theme == "dark"]) for name, pair in declared().items()}
    page, memory = colours["page"], colours["memory"]
    mix = lambda one, other, share: [share * a + (1 - share) * b for a, b in zip(one, other)]  # noqa: E731
    tint, map_ = mix(memory, page, 0.09), mix(memory, page, 0.5)
    for ground in (page, colours["soft"]):
        for words in ("ink", "quiet", "memory", "reencoded", "method-2", "method-3"):
            assert contrast(colours[words], ground) >= 4.5, words
    for words in ("ink", "quiet", "memory"):
        assert contrast(colours[words], tint) >= 4.5, words
    for ground in ("memory", "method-2"):  # buttons and the banner
        assert contrast(page, colours[ground]) >= 4.5, ground
    assert contrast(colours["ink"], map_) >= 4.5
    text = (PAGE / "styles" / "classes.css").read_text(encoding="utf-8")
    assert "calc(6% + var(--share) * 44%)" in text  # the strongest cell of the map is what was computed here


def test_nothing_is_asked_of_others_and_nothing_is_inline() -> None:
    for path in PAGE.rglob("*"):
        if path.suffix in (".html", ".css", ".js", ".svg"):
            text = path.read_text(encoding="utf-8")
            addresses = set(re.findall(r"https?://[^\s\"'`]+", text)) - {"http://www.w3.org/2000/svg"}
            assert addresses == set(), path
            assert "innerHTML" not in text, path
            assert len(text.splitlines()) <= 250, path
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\son\w+=|\sstyle=|<script(?![^>]*\bsrc=)", html)


def every_view(explorer: Explorer) -> Any:
    """Go through the views, each with something in it."""
    explorer.open()
    explorer.show(upload("a very long name of a file that goes on and on and on.png", png(1)), upload("x.png", png(5)))
    expect(explorer.page.locator(".verdict")).to_have_count(2)
    yield "try"
    explorer.open("classes")
    expect(explorer.page.locator(".heat")).to_be_visible()
    expect(explorer.page.locator(".class-card img")).to_have_count(15)
    yield "classes"
    explorer.open(f"classes/{quote(NAMES[0], safe='')}")
    expect(explorer.page.get_by_role("slider").first).to_be_visible()
    expect(explorer.page.locator(".nearest")).to_be_visible()
    yield "class"
    explorer.open("gallery")
    expect(explorer.page.locator(".pictures-of img")).to_have_count(30)
    yield "gallery"
    explorer.open(f"classes/{quote(NAMES[0], safe='')}")
    explorer.button("Forget this class …").click()
    expect(explorer.page.get_by_role("dialog")).to_be_visible()
    yield "forget"
    explorer.button("Cancel").click()
    explorer.open("teach")
    explorer.show(*(upload(f"{i}.png", png(3, seed=i)) for i in range(3)))
    expect(explorer.page.locator(".thumbs img")).to_have_count(3)
    yield "teach"
    explorer.open("versions")
    expect(explorer.page.locator(".version")).to_have_count(1)
    yield "versions"


@NO_CHROMIUM
def test_on_a_phone_nothing_moves_sideways_and_everything_can_be_touched(explore: Any) -> None:
    explorer = explore(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    for view in every_view(explorer):
        assert explorer.sideways() <= 0, view
        assert explorer.page.evaluate(SMALL) == [], view


@NO_CHROMIUM
def test_every_control_has_a_name_and_every_view_one_heading(explore: Any) -> None:
    explorer = explore()
    for view in every_view(explorer):
        assert explorer.page.evaluate(NAMELESS, CONTROLS) == [], view
        assert explorer.page.evaluate(UNNAMED_PICTURES) == [], view
        expect(explorer.page.locator("h1")).to_have_count(1)
        ids = explorer.page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
        assert len(ids) == len(set(ids)), view
    assert explorer.page.title() == "Versions · ictrl"


@NO_CHROMIUM
def test_without_a_mouse_a_picture_is_told_and_a_class_is_taught(explore: Any, tmp_path: Path) -> None:
    explorer = explore().open()
    expect(explorer.button("Choose pictures")).to_be_visible()
    press, page = explorer.page.keyboard.press, explorer.page
    choosers: list[FileChooser] = []
    page.on("filechooser", lambda chooser: choosers.append(chooser))
    press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    press("Enter")
    press("Tab")
    expect(explorer.button("Choose pictures")).to_be_focused()
    outline = explorer.button("Choose pictures").evaluate("button => getComputedStyle(button).outlineStyle")
    assert outline == "solid"
    press("Enter")
    wait_for(page, lambda: len(choosers) == 1)
    choosers[0].set_files([upload("a.png", png(1))])
    expect(page.locator(".verdict strong")).to_have_text(NAMES[1])
    expect(page.locator("#said")).to_contain_text(f"a.png: {NAMES[1]}")
    page.get_by_role("link", name="Teach", exact=True).focus()
    press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    press("Tab")
    press("Tab")
    expect(explorer.button("Choose a folder")).to_be_focused()
    press("Space")
    wait_for(page, lambda: len(choosers) == 2)
    choosers[1].set_files(folder(tmp_path / "new", 3))
    expect(page.locator(".thumbs img")).to_have_count(14)
    explorer.button("Learn").focus()
    press("Enter")
    expect(page.locator(".outcome h2")).to_be_focused()
    expect(page.locator("#said")).to_have_text("Learned new")
    explorer.button("Undo").focus()
    press("Enter")
    expect(page.locator("#learner")).to_have_text("3 classes · version 1")


@NO_CHROMIUM
def test_the_theme_is_the_systems_until_another_is_chosen_and_that_is_remembered(explore: Any) -> None:
    explorer = explore(color_scheme="dark").open()
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = (
        "rgb({}, {}, {})".format(*(round(255 * value) for value in rgb(SIDES[side]["page"]))) for side in SIDES
    )
    switch = explorer.button("Dark colours")
    expect(switch).to_have_attribute("aria-pressed", "true")
    assert explorer.page.evaluate(ground) == dark
    switch.click()
    assert explorer.page.evaluate(ground) == light
    explorer.page.reload()
    expect(switch).to_have_attribute("aria-pressed", "false")
    assert explorer.page.evaluate(ground) == light
    switch.click()
    explorer.page.emulate_media(color_scheme="light")  # the system's again: it is followed
    expect(switch).to_have_attribute("aria-pressed", "false")


@NO_CHROMIUM
def test_who_wants_little_motion_sees_none(explore: Any) -> None:
    explorer = explore(reduced_motion="reduce").open()
    explorer.show(upload("a.png", png(1)))
    expect(explorer.page.locator(".verdict")).to_be_visible()
    moving = "document.getAnimations().filter(one => one.playState === 'running').length"
    assert explorer.page.evaluate(moving) == 0
