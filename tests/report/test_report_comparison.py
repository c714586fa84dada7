"""Methods side by side: one colour each everywhere on the page, forgetting, bytes and seconds, seeds taken together."""

import re
import shutil
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import ictrl.methods  # noqa: F401 (they become known)
from ictrl.config import METHODS
from ictrl.recipes.tables import recipe_with
from ictrl.report import write_report
from ictrl.report.figures.compared_accuracies import compared_memory
from ictrl.report.figures.compared_costs import compared_forgetting, compared_kept, compared_seconds
from ictrl.report.groups import grouped
from ictrl.report.house_style import house_style
from ictrl.report.palette import DARK, LIGHT, METHOD_COLOURS, method_colour
from ictrl.report.plots import LINE, Row, row_bars
from ictrl.report.record import RunRecord, read_runs

COSTS = {"compared-memory", "compared-forgetting", "compared-kept", "compared-seconds"}
LMS = np.array([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
                [0.0883024619, 0.2817188376, 0.6299787005]])  # fmt: skip
OKLAB = np.array([[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099],
                  [0.0259040371, 0.7827717662, -0.808675766]])  # fmt: skip


def linear(colour: str) -> np.ndarray:
    """Red, green and blue as light, not as the screen counts them."""
    part = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_methods_are_told_apart_by_their_colours(palette: dict[str, str]) -> None:
    assert len(METHODS) <= METHOD_COLOURS
    assert len({method_colour(method) for method in METHODS}) == len(METHODS)
    colours = [palette[method_colour(method)] for method in METHODS]
    assert min(contrast(colour, palette["page"]) for colour in colours) >= 4.5
    places = [OKLAB @ np.cbrt(LMS @ linear(colour)) for colour in colours]
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(places, 2)) > 0.08


def test_one_colour_per_method_everywhere_on_the_page(stripes: dict[str, Path], tmp_path: Path) -> None:
    written = write_report(list(stripes.values()), tmp_path / "page.html", tmp_path / "figures")
    text = written.page.read_text()
    assert {path.stem for path in written.figures} >= COSTS
    for name in COSTS:
        chart = text[text.index(f'id="figure-{name}"') :].split("</figure>")[0]
        used = set(re.findall(r"var\(--(method-\d+)\)", chart))
        assert used == {method_colour(method) for method in stripes}
    for i, method in enumerate(stripes, start=1):
        section = re.search(f'<section class="run" id="run-{i}"[^>]*>', text)
        assert section is not None
        assert f'style="--memory: var(--{method_colour(method)})"' in section[0]
    alone = write_report([stripes["joint"]], tmp_path / "alone.html").page.read_text()
    assert "--memory: var(" not in alone


def test_costs_are_those_of_the_results(stripes: dict[str, Path]) -> None:
    runs = read_runs(list(stripes.values()))
    with house_style():
        kept, seconds, lost = compared_kept(runs), compared_seconds(runs), compared_forgetting(runs)
    assert kept is not None
    assert seconds is not None
    assert lost is not None
    for run in runs:
        images = ", images" if run.method == "joint" else ""
        bytes_kept = run.results.kept_bytes
        assert f"{run.name} {bytes_kept} bytes{images}" in kept.alt or f"kB{images}" in kept.alt
        assert f"{run.name} {run.results.seconds['learn']:.1f} s" in seconds.alt
        assert f"{run.name} {abs(run.results.memory.forgetting):.3f}" in lost.alt.replace(" -", " ")
    assert "“images” where training images are among it" in kept.caption
    assert compared_kept(runs[:1]) is None


def test_those_who_keep_images_are_named_once(stripes: dict[str, Path], tmp_path: Path) -> None:
    second = Path(shutil.copytree(stripes["joint"], tmp_path / "joint-again"))
    page = write_report([stripes["joint"], second, stripes["finetune"]], tmp_path / "page.html").page
    before, _, _ = page.read_text().partition("<table")
    assert re.findall(r'<p class="note">\s*(.*?):', before) == ["joint keeps every training image"]


def test_seeds_are_taken_together(stripes: dict[str, Path]) -> None:
    first, joint = read_runs([stripes["finetune"], stripes["joint"]])
    memory = replace(first.results.memory, seen=[0.5, 0.25], forgetting=0.5)
    other = _with_seed(replace(first, name="other", results=replace(first.results, memory=memory)), 1)
    runs = [first, joint, other]
    groups = grouped(runs)
    assert [[run.name for run in group.runs] for group in groups] == [
        ["run-of-finetune", "other"],
        ["run-of-joint"],
    ]
    assert groups[0].name == "finetune, 2 seeds"
    before = first.results.memory
    with house_style():
        accuracy, lost = compared_memory(runs), compared_forgetting(runs)
    assert accuracy is not None
    assert lost is not None
    assert f"finetune, 2 seeds ends at {(before.seen[-1] + 0.25) / 2:.3f}" in accuracy.alt
    assert f"finetune, 2 seeds {(before.forgetting + 0.5) / 2:.3f}" in lost.alt
    assert "Means over seeds." in accuracy.caption
    assert len(grouped([*runs, other])) == 3  # the same seed once more is a run of its own
    longer = replace(first, recipe=recipe_with(first.recipe, {"method": {"later": {"epochs": 9}}}))
    assert len(grouped([*runs, _with_seed(longer, 2)])) == 3  # and so is another recipe


def _with_seed(run: RunRecord, seed: int) -> RunRecord:
    return replace(run, recipe=replace(run.recipe, run=replace(run.recipe.run, seed=seed)))


def test_many_bars_do_not_overlap() -> None:
    rows = [Row(f"a method with a long name {i}", 10.0 ** (i % 6), "269.1 MB, images", "method-3") for i in range(24)]
    with house_style():
        for tenfold in (False, True):
            drawing = row_bars(rows, tenfold=tenfold)
            axes = drawing.axes[0]
            bars = [bar for bar in axes.patches if bar.get_height() == 13]  # type: ignore[attr-defined]
            assert len(bars) == 24
            tops = sorted(bar.get_y() for bar in bars)  # type: ignore[attr-defined]
            assert min(np.diff(tops)) == pytest.approx(LINE)
            ends = [bar.get_x() + bar.get_width() for bar in bars]  # type: ignore[attr-defined]
            room = 6.6 * len("269.1 MB, images")
            assert max(ends) + 6 + room <= axes.get_xlim()[1] + 1  # words behind the longest bar are on the canvas
            widths = [bar.get_width() for bar in bars]  # type: ignore[attr-defined]
            assert min(widths) > 1
