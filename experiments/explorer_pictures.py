"""The picture of docs/explorer.md: the page of `ictrl serve` on a desk and on a telephone, in a real Chromium.

    python experiments/explorer_pictures.py --out docs/explorer.png

A learner of eight digits is learned first, which takes about half a minute; or a run of ten by `wide-ictrl-digits` is
named. The nine among the pictures that it is shown was never learned.
"""

import argparse
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, FilePayload, expect, sync_playwright
from serving import served
from sklearn.datasets import load_digits

SHOWN = [(3, 50), (9, 51)]  # digits, and which of their images
FORGOTTEN = ["8", "9"]
HEIGHT, DESK, PHONE, GAP = 860, 1120, 390, 30


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", type=Path, help="a run folder of wide-ictrl-digits; it stays as it is")
    parser.add_argument("--out", type=Path, default=Path("docs/explorer.png"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        learner = Path(folder) / "run"
        if arguments.run is None:
            ictrl("run", "wide-ictrl-digits", "--out", str(learner))
        else:
            shutil.copytree(arguments.run, learner)
        ictrl("forget", str(learner), *FORGOTTEN, "--yes")
        with served(learner) as server, sync_playwright() as playwright:
            chromium = os.environ.get("ICTRL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            beside(desk(browser, server.url), phone(browser, server.url)).save(arguments.out, optimize=True)
            browser.close()
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1000:.0f} kB")


def ictrl(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "ictrl", *arguments], check=True, stdout=subprocess.DEVNULL)


def digit(label: int, which: int) -> FilePayload:
    """One of scikit-learn's digits as a file."""
    data = load_digits()
    image = (data.images[data.target == label][which] * 255 / 16).astype(np.uint8)
    content = io.BytesIO()
    Image.fromarray(image).save(content, "PNG")
    return {"name": f"{label}.png", "mimeType": "image/png", "buffer": content.getvalue()}


def desk(browser: Browser, url: str) -> Image.Image:
    """What the learner makes of two pictures, one of them unknown."""
    page = browser.new_page(viewport={"width": DESK, "height": HEIGHT}, color_scheme="light", reduced_motion="reduce")
    page.goto(url)
    page.locator("input[type=file]").set_input_files([digit(*shown) for shown in SHOWN])
    expect(page.locator(".verdict")).to_have_count(len(SHOWN))
    return opened(page.screenshot())


def phone(browser: Browser, url: str) -> Image.Image:
    """A class, moved along the first two directions in which it varies."""
    page = browser.new_page(viewport={"width": PHONE, "height": HEIGHT}, color_scheme="dark", reduced_motion="reduce")
    page.goto(f"{url}/#/classes/2")
    for direction, sigmas in (("1", "1.6"), ("2", "-1.2")):
        with page.expect_response(lambda response: "/picture?at=" in response.url):
            page.get_by_role("slider", name=f"Direction {direction}", exact=True).fill(sigmas)
    expect(page.locator(".replayed img")).to_have_count(16)
    page.get_by_role("heading", name="Replayed pictures").click()  # and away from the slider
    page.get_by_role("heading", name="How it varies").evaluate(
        "heading => scrollTo(0, scrollY + heading.getBoundingClientRect().top - 330)"
    )
    return opened(page.screenshot())


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content)).convert("RGB")


def beside(desk: Image.Image, phone: Image.Image) -> Image.Image:
    """Both on one ground that is neither light nor dark."""
    whole = Image.new("RGB", (DESK + PHONE + 3 * GAP, HEIGHT + 2 * GAP), "#8a949e")
    whole.paste(desk, (GAP, GAP))
    whole.paste(phone, (DESK + 2 * GAP, GAP))
    return whole


if __name__ == "__main__":
    main()
