"""The report's page: its numbers are those of results.json, it needs nothing else, and names are only names."""

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest
from page_parser import Page, check_numbers
from support import CLASS_NAMES

from ictrl import InputError
from ictrl.report import page as report_page
from ictrl.report import write_report


def test_the_numbers_are_those_of_the_results(run: Path) -> None:
    page = Page(write_report([run]).page)
    check_numbers(page, [run])
    assert "drift.mean.1.3" in page.places()


def test_the_page_needs_nothing_and_says_what_it_shows(run: Path) -> None:
    page = Page(write_report([run]).page)
    assert page.all("html") == [{"lang": "en"}]
    assert not page.all("script")
    assert len(page.all("main")) == 1
    assert page.all("a")[0]["href"] == "#main"
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))  # no level is left out
    images = page.all("img") + page.all("image")
    assert all(str(image.get("src") or image.get("href")).startswith("data:image/png;base64,") for image in images)
    assert all(image["alt"] for image in page.all("img"))
    drawings = page.all("svg")
    assert len(drawings) == 12
    assert all(drawing["role"] == "img" and len(str(drawing["aria-label"])) > 20 for drawing in drawings)
    assert all(str(drawing["viewbox"]).startswith("0 0 440 ") and "width" not in drawing for drawing in drawings)
    assert len(page.ids) == len(set(page.ids))
    assert {str(link["href"]).removeprefix("#") for link in page.all("a")} <= set(page.ids)
    scrolled = [attributes for _, attributes in page.tags if attributes.get("class") == "scroll"]
    assert scrolled
    assert all(area["tabindex"] == "0" and area["aria-label"] for area in scrolled)
    assert "drawn from memory: no image is kept" in page.words
    assert "prefers-color-scheme: dark" in page.words
    assert "@media print" in page.words
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", (run / "report.html").read_text())


def test_names_of_classes_are_text(run: Path) -> None:
    """They come from folder names, which may hold anything."""
    written = write_report([run])
    text = written.page.read_text(encoding="utf-8")
    assert "<script" not in text
    page = Page(written.page)
    for name in CLASS_NAMES:
        assert name in page.words
        assert f"{name}, replayed" in {image["alt"] for image in page.all("img")}
    for figure in written.figures:
        if figure.suffix == ".svg":
            ElementTree.fromstring(figure.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("bell\x07 and half a letter\udcff", "bell\ufffd and half a letter\ufffd"),
        ("$x^2$ costs $5", "$x^2$ costs $5"),  # no formula
        ("猫 と 犬", "猫 と 犬"),  # letters that matplotlib's font lacks
        ("var(--memory) #1566a3", "var(--memory) #1566a3"),  # no colour
    ],
)
def test_odd_names(run: Path, name: str, shown: str) -> None:
    results = json.loads((run / "results.json").read_text())
    results["class_names"]["0"] = name
    (run / "results.json").write_text(json.dumps(results))
    written = write_report([run])
    assert shown in Page(written.page).words
    assert shown in (run / "figures" / "energy.svg").read_text(encoding="utf-8")


def test_the_figures_are_files_too(run: Path, tmp_path: Path) -> None:
    written = write_report([run], tmp_path / "new" / "page.html", tmp_path / "new" / "drawn")
    names = [path.name for path in written.figures]
    assert names == [
        "accuracy.svg", "forgetting.svg", "class-accuracy.svg", "confusion-memory.svg", "confusion-reencoded.svg",
        "training.svg", "blocks.svg", "affinity.svg", "energy.svg", "drift-means.svg", "drift-subspaces.svg",
        "replayed.png", "reconstructions.png", "kept-bytes.svg",
    ]  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "new" / "drawn").iterdir()) == sorted(names)
    for path in written.figures:
        content = path.read_bytes()
        assert b"var(--" not in content
        assert content.startswith(b"\x89PNG" if path.suffix == ".png" else b"<svg xmlns=")


def test_the_same_folder_gives_the_same_page(run: Path) -> None:
    assert write_report([run]).page.read_bytes() == write_report([run]).page.read_bytes()


def test_no_data_is_needed_and_no_place_is_told(run: Path, odd_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ictrl.data.registry.load_dataset", None)
    text = write_report([run]).page.read_text()
    assert str(odd_run.parent) not in text
    assert "ictrl run odd.toml --stream.root DATA --out runs/run" in text


def test_several_runs_side_by_side(run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "elsewhere" / "run"))
    written = write_report([run, other], tmp_path / "both.html")
    page = Page(written.page)
    check_numbers(page, [run, other])
    assert written.figures == []
    assert page.words.index("Comparison") < page.words.index("Structure")
    assert str(run) in page.words  # two folders of one name are told apart
    assert str(other) in page.words
    assert len(page.ids) == len(set(page.ids))  # the very same charts twice, but no id
    legend = page.words[: page.words.index("Nothing but what each learner kept")]
    assert len(re.findall("…[^…]*elsewhere/run", legend)) == 1  # long names are cut in the middle
    drawn = write_report([run, other], tmp_path / "both.html", tmp_path / "figures").figures
    assert {path.name for path in drawn} >= {"compared-memory.svg", "1-run-accuracy.svg", "2-run-accuracy.svg"}


def test_a_page_that_would_be_too_large_leaves_classes_out(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = len(write_report([run]).page.read_bytes())
    assert whole < report_page.LARGEST
    monkeypatch.setattr(report_page, "LARGEST", whole - 2000)
    page = Page(write_report([run]).page)
    assert len((run / "report.html").read_bytes()) <= whole - 2000
    assert re.search(r"[12] of 4 classes are left out to keep this page small", page.words)
    monkeypatch.setattr(report_page, "LARGEST", 10_000)
    with pytest.raises(InputError, match="report on fewer at a time"):
        write_report([run])
