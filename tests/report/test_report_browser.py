"""The report in a real browser: Chromium, without a window."""

import json
import os
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest
from page_parser import at

from ictrl.experiment.results import Results
from ictrl.report import write_report

CIFAR10 = Path(__file__).parents[1] / "cifar10-run"
CHROMIUM = os.environ.get("ICTRL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium: apt-get install chromium, or name one in the environment variable ICTRL_CHROMIUM",
)

# What the page looks like from inside. It goes into a copy, whose policy lets this one script run. Pictures within
# drawings are loaded once more as images, before the page is said to be loaded: then they can be asked.
LOOK = """
<script>
const refused = [], inside = [];
addEventListener("securitypolicyviolation", event => refused.push(event.blockedURI + " " + event.violatedDirective));
addEventListener("DOMContentLoaded", () => {
  for (const drawn of document.querySelectorAll("svg image")) {
    const image = document.createElement("img");
    image.src = drawn.getAttribute("href");
    image.style.position = "fixed";
    document.body.append(image);
    inside.push(image);
  }
});
addEventListener("load", () => {
  const found = parent.document.createElement("pre");
  found.id = "found";
  found.textContent = JSON.stringify({
    refused,
    requests: performance.getEntriesByType("resource").map(entry => entry.name).filter(n => !n.startsWith("data:")),
    images: document.images.length - inside.length,
    drawn: inside.length,
    missing: [...document.images].filter(image => !image.complete || image.naturalWidth === 0).length,
    width: document.documentElement.clientWidth,
    sideways: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    charts: [...document.querySelectorAll("svg")].map(chart => Math.round(chart.getBoundingClientRect().width)),
    numbers: [...document.querySelectorAll("data[data-key]")].map(number => [
      Number(number.closest("[data-run]").dataset.run), number.dataset.key, number.value, number.textContent]),
  });
  parent.document.body.append(found);
});
</script>
"""
# A frame of any width: a window without a screen is never narrower than 500 pixels.
FRAME = """<!DOCTYPE html>
<iframe srcdoc="PAGE" style="width: WIDTHpx; height: 900px; border: 0"></iframe>
"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def chromium(page: Path) -> tuple[str, list[str]]:
    """The page as it stands once loaded, and what the console said."""
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        f"--user-data-dir={page.parent / 'profile'}", "--disable-background-networking", "--enable-logging=stderr",
        "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def look(page: Path, width: int = 1100, spoiled: str = "") -> tuple[dict[str, Any], list[str]]:
    """What the script in a copy of the page found, and the console; something may be spoiled on purpose."""
    html = page.read_text(encoding="utf-8")
    assert html.count(POLICY) == 1
    html = html.replace(POLICY, POLICY + "; script-src 'unsafe-inline'").replace("</style>", "</style>" + LOOK, 1)
    frame, inside = page.with_name("frame.html"), html.replace("</main>", spoiled + "</main>")
    frame.write_text(FRAME.replace("WIDTH", str(width)).replace("PAGE", escape(inside)), encoding="utf-8")
    dom, console = chromium(frame)
    found = re.search(r'<pre id="found">(.*?)</pre>', dom, flags=re.DOTALL)
    assert found is not None
    return json.loads(unescape(found[1])), console


@pytest.fixture(scope="module")
def page(odd_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    return write_report([odd_run], folder / "report.html", folder / "figures").page  # the run stays as it is


@pytest.fixture(scope="module")
def both(odd_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("both")
    shutil.copytree(odd_run, folder / "other")
    return write_report([odd_run, folder / "other"], folder / "report.html").page


@pytest.fixture(scope="module")
def cifar10(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run on a GPU of what version 0.1 called best-cifar10-5; the learner, which is large, was left out."""
    folder = tmp_path_factory.mktemp("cifar10")
    return write_report([CIFAR10], folder / "report.html", folder / "figures").page


def test_it_opens_without_a_word_on_the_console(page: Path, both: Path, cifar10: Path) -> None:
    for path in (page, both, cifar10):
        dom, console = chromium(path)
        assert console == []
        assert "<script" not in dom


def test_everything_loads_from_the_file_alone(page: Path, both: Path, cifar10: Path, odd_run: Path) -> None:
    for path, runs, run in ((page, 1, odd_run), (both, 2, odd_run), (cifar10, 1, CIFAR10)):
        results = Results.read(run / "results.json").to_table()  # one of them has the names of version 0.1
        found, console = look(path)
        assert (found["refused"], found["requests"], found["missing"], console) == ([], [], 0, [])
        assert found["images"] >= 4 * 3 * runs
        assert found["drawn"] >= (4 * runs if run == odd_run else 0)  # maps of memory need a learner
        assert {run for run, _, _, _ in found["numbers"]} == set(range(runs))
        for _, key, value, shown in found["numbers"]:
            assert float(value) == at(results, key)
            if key.endswith(("last", "average", "forgetting")):
                assert shown == f"{at(results, key):.3f}"


def test_it_fits_a_phone(page: Path, both: Path, cifar10: Path) -> None:
    """Tables scroll within themselves; the page does not move sideways, and charts are as wide as it is."""
    for path in (page, both, cifar10):
        found, _ = look(path, width=390)
        assert found["width"] <= 390
        assert found["sideways"] <= 0
        assert min(found["charts"]) > 300


def test_a_picture_opens_larger_without_a_script(page: Path) -> None:
    """By mouse and by keyboard, in light and in dark, on a desk and on a phone; it closes where it was."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width, scheme in ((1200, "light"), (390, "dark")):
            size: Any = {"width": width, "height": 800}
            context = browser.new_context(viewport=size, color_scheme=scheme, java_script_enabled=False)  # type: ignore[arg-type]
            shown = context.new_page()
            shown.goto(page.as_uri())
            picture, close = shown.locator(".larger img").first, shown.locator(".smaller").first
            small = picture.bounding_box()
            assert not close.is_visible()
            picture.click()
            large = picture.bounding_box()
            assert small is not None
            assert large is not None
            assert large["width"] > width - 50
            assert large["height"] > 600
            assert (large["x"] >= 0, large["y"] >= 0) == (True, True)
            close.click()
            closed = picture.bounding_box()
            assert closed is not None
            assert closed == pytest.approx({**small, "y": closed["y"]})  # the page may still be moving
            assert not close.is_visible()
            shown.locator(".larger").nth(1).focus()
            shown.keyboard.press("Enter")
            assert shown.locator(".smaller").nth(1).is_visible()
            shown.keyboard.press("Tab")
            shown.keyboard.press("Enter")  # the link after a picture closes it
            assert not shown.locator(".smaller").nth(1).is_visible()
            context.close()
        browser.close()


def test_the_look_sees_what_is_wrong(page: Path) -> None:
    broken = '<img src="data:image/png;base64,AAAA" alt="">'
    outside = '<img src="http://127.0.0.1:9/outside.png" alt="">'
    found, console = look(page, spoiled=broken + outside)
    assert found["missing"] == 2
    assert len(found["refused"]) == 1
    assert "127.0.0.1:9" in found["refused"][0]
    assert console


def test_it_prints(page: Path) -> None:
    paper = page.with_name("paper.pdf")
    subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'profile'}",
         f"--print-to-pdf={paper}", page.as_uri()],
        capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    assert paper.read_bytes().startswith(b"%PDF")
    assert paper.stat().st_size > 30_000
