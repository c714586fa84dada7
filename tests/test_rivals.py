"""The page that shows all methods side by side says what the files say, however many of them there are."""

import importlib
import json
import re
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, script

from ictrl.experiment.study import Line, load_study
from ictrl.experiment.study_table import read_published
from ictrl.methods.base import LEARNERS
from ictrl.recipes.reader import stream_names

RESULTS = ROOT / "docs" / "results"


@pytest.fixture
def rivals(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))  # where it finds its neighbours
    return importlib.import_module("publish_rivals")


def line_of(study: str, label: str) -> Line:
    return next(line for line in load_study(study).lines if line.label == label)


def put(folder: Path, line: Line, seed: int, last: float, old: float = 0.25) -> None:
    """A made-up result of the line, among those of its study."""
    found = next(iter(read_published(RESULTS / "methods-digits").values()))[0]
    matrix = [*found.memory.matrix[:-1], [old] * 4 + [0.75]]
    memory = replace(found.memory, last=last, average=0.6, forgetting=0.125, matrix=matrix)
    about = {"line": line.label, "recipe": line.recipe, "seed": seed, "device": "cuda, a GPU"}
    made = replace(found, memory=memory, kept_bytes=6_144_000, parameters=1_180_000, seconds={"learn": 12.0}, **about)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{len(list(folder.iterdir()))}.json").write_text(json.dumps(made.to_table()))


@pytest.fixture
def some(tmp_path: Path) -> Path:
    """Our own results, and a few of other methods."""
    for name in ("best", "table1", "cifar100"):
        shutil.copytree(RESULTS / name, tmp_path / name)
    for seed, last in ((0, 0.5), (1, 0.7)):
        put(tmp_path / "rivals", line_of("rivals", "cifar10-5, icarl, 2000 images"), seed, last)
    put(tmp_path / "rivals", line_of("rivals", "cifar10-5, icarl, 500 images"), 0, 0.4)
    put(tmp_path / "rivals", line_of("rivals", "cifar10-5, lwf"), 0, 0.2, old=0.0625)
    put(tmp_path / "rivals", line_of("rivals", "cifar10-5, si"), 0, 0.2, old=0.125)
    put(tmp_path / "rivals", line_of("rivals", "cifar10-5, agem, 500 images"), 0, 0.2)
    put(tmp_path / "references", line_of("references", "cifar10-5, er, 200 images"), 0, 0.4579)
    put(tmp_path / "references", line_of("references", "cifar100-10, fecam"), 0, 0.424)
    return tmp_path


def test_the_page_is_that_of_the_files(rivals: Any) -> None:
    """It is there as soon as there is a result to show."""
    measured = read_published(RESULTS / "rivals")
    assert rivals.PAGE.exists() == rivals.FIGURE.exists() == bool(measured)
    if measured:
        assert rivals.page() == rivals.PAGE.read_text(encoding="utf-8")


def test_rows_are_made_of_runs(rivals: Any, some: Path) -> None:
    page = rivals.page(some)
    name = "[`icarl`](api/methods.md#ictrl.methods.icarl)"
    rest = "0.600 | 0.125 | 6,144 kB | 2,000 images | 1.18 M | 12"
    assert f"| {name} | 2,000 | 0.600 ± 0.141 | {rest} | 0, 1 | 0.487 / 0.632 |" in page
    assert f"| {name} | 500 | 0.400 | {rest} | 0 |  |" in page  # the paper's figure stands once
    assert re.search(r"\[`ictrl`\]\(\S+\), `paper-cifar10-5` \| none \|.*\| 0\.627 / 0\.723 \|", page)
    assert re.search(r"\[`ictrl`\]\(\S+\), `ictrl-cifar10-5` \| none \|.*\| 0, 1, 2 \|  \|", page)
    table = page.partition("## CIFAR-10, 5 tasks")[2].partition("\n## ")[0]
    order = [table.index(text) for text in ("best-cifar10-5`", "`lwf`]", "**some images**", "`agem`]", "`icarl`]")]
    assert order == sorted(order)


def test_what_has_no_file_is_left_out_and_named(rivals: Any, some: Path) -> None:
    page = rivals.page(some)
    assert "| [`er`]" not in page
    missing = re.findall(r"^No results yet: (.*)\.$", page, flags=re.MULTILINE)
    assert len(missing) == len(rivals.STREAMS) + 2  # and two tables of other people's figures
    assert "cifar10-5, er, 200 images; " in missing[0]
    assert "cifar10-5, icarl, 200 images; " in missing[0]
    assert "cifar10-5, lwf" not in missing[0]
    assert "cifar10-5, derpp, 200 images; " in missing[-2]
    assert "cifar100-10, adagauss; " in missing[-1]


def test_why_old_classes_are_lost_is_said_with_figures(rivals: Any, some: Path) -> None:
    said = "earlier tasks is 6.2% to 12.5% by `lwf`, `si` (on the last task's 75.0%) and 25.0% by `agem`"
    assert rivals.page(some).count(said) == 1


def test_published_figures_are_compared(rivals: Any, some: Path) -> None:
    page = rivals.page(some)
    assert re.search(r"er, 200 images \|.*\| 0\.458 / 0\.600 \| 0\.448 / –, Buzzega.* \| \+1\.0 \| within two", page)
    assert re.search(r"fecam \|.*\| 0\.424 / 0\.600 \| 0\.324 / 0\.483, .* \| \+10\.0 / \+11\.7 \| FeCAM's own", page)


@pytest.mark.parametrize("empty", [True, False])
def test_the_figure_is_drawn_from_what_there_is(rivals: Any, some: Path, empty: bool) -> None:
    rows, _ = rivals.rows_of("cifar10-5", {} if empty else rivals.read(some))
    drawn = rivals.figure(rows)
    assert drawn.startswith(b"<svg")
    assert (b">icarl</text>" in drawn) != empty
    assert b">wide, other readings</text>" in drawn
    assert drawn == rivals.figure(rows)


def test_every_line_has_its_place(rivals: Any) -> None:
    labels = importlib.import_module("rivals_rows").labels
    places = [label for stream in rivals.STREAMS for label in labels(stream)]
    assert {line.label for line in load_study("rivals").lines} <= set(places)
    assert len(places) == len(set(places))


def test_the_words_fit_the_study(rivals: Any) -> None:
    words = tomllib.loads((ROOT / "experiments" / "references.toml").read_text(encoding="utf-8"))
    lines = load_study("references").lines
    assert [entry["label"] for entry in words["runs"]] == [line.label for line in lines]
    run = {line.recipe.method.name for line in lines}
    checked = {entry["method"] for entry in words["checked"]}
    assert run | checked == {method for methods in rivals.GROUPS.values() for method in methods}


def test_quoted_figures_are_of_methods_and_streams_that_exist(rivals: Any) -> None:
    quoted = tomllib.loads(rivals.QUOTED.read_text(encoding="utf-8"))
    assert set(quoted) == set(rivals.STREAMS) <= set(stream_names())
    for methods in quoted.values():
        assert set(methods) <= set(LEARNERS)
        assert all(set(figures) <= {"last", "average"} for figures in methods.values())


def test_labels_cover_neither_each_other_nor_dots() -> None:
    places = script("label_places")
    dots = [(100.0, 100.0), (104.0, 100.0), (100.0, 104.0), (104.0, 104.0)]
    labels = [places.Label(f"method {i}", [dot]) for i, dot in enumerate(dots)]
    found = places.spread(labels, dots, (200.0, 200.0))
    boxes = [(place.middle, label.half) for place, label in zip(found, labels)]
    for i, ((x, y), (width, height)) in enumerate(boxes):
        assert all(abs(x - a) >= width or abs(y - b) >= height for a, b in dots)
        for (a, b), (wide, high) in boxes[:i]:
            assert abs(x - a) >= width + wide or abs(y - b) >= height + high


def test_a_recipe_reaches_what_the_line_reached_that_changes_nothing(tmp_path: Path) -> None:
    publish = script("publish")
    for images, last in ((200, 0.3), (500, 0.4)):
        put(tmp_path, line_of("rivals", f"cifar10-5, er, {images} images"), 0, last)
    found = publish.as_they_are(load_study("rivals"), tmp_path)
    assert {name: [run.memory.last for run in runs] for name, runs in found.items()} == {"er-cifar10-5": [0.4]}
    assert publish.as_they_are(load_study("rivals"), tmp_path / "none") == {}
