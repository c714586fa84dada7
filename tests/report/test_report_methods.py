"""Reports on any method: what one does not have is left out, what one keeps is said, and methods stand side by side."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from page_parser import PROTOCOLS, Page, check_numbers

from ictrl import InputError
from ictrl.report import write_report
from ictrl.report.figures.compared_accuracies import dashes
from ictrl.report.groups import grouped
from ictrl.report.palette import DARK, LIGHT, method_colour
from ictrl.report.record import read_runs


def report(runs: Sequence[Path], folder: Path) -> tuple[Page, set[str]]:
    written = write_report(runs, folder / "page.html", folder / "figures")
    return Page(written.page), {path.stem for path in written.figures}


def test_finetune_has_neither_reencoded_nor_structure_nor_pictures(stripes: dict[str, Path], tmp_path: Path) -> None:
    page, figures = report([stripes["finetune"]], tmp_path)
    check_numbers(page, [stripes["finetune"]], scores=("memory",))
    assert figures == {"accuracy", "forgetting", "class-accuracy", "confusion-memory", "training", "kept-bytes"}
    assert {key.split(".")[0] for key in page.places()} & {
        "reencoded",
        "untrained",
        "frozen",
        "drift",
        "replay",
    } == set()
    assert len([tile for _, tile in page.tags if tile.get("class") == "tile"]) == 1
    assert {"run-1-structure", "run-1-pictures"} & set(page.ids) == set()
    assert {"#run-1-structure", "#run-1-pictures"} & {link["href"] for link in page.all("a")} == set()
    shown = page.words.split("</style>")[-1].split("The recipe, every value")[0]
    assert "finetune" in shown
    assert "without keeping an old image" in shown
    assert not re.search("reencoded|moments|not shown", shown[shown.index("Method") :])


def test_joint_says_that_it_keeps_every_image(stripes: dict[str, Path], tmp_path: Path) -> None:
    page, _ = report([stripes["joint"]], tmp_path)
    check_numbers(page, [stripes["joint"]], scores=("memory",))
    assert "joint keeps every training image: an upper bound" in page.words
    assert "without keeping an old image" not in page.words
    assert "training images, not kept" not in page.words


def test_ictrl_and_finetune_compared(stripes: dict[str, Path], tmp_path: Path) -> None:
    runs = [stripes["ictrl"], stripes["finetune"]]
    page, figures = report(runs, tmp_path)
    check_numbers(page, runs[:1])
    check_numbers(page, runs, scores=("memory",))
    text = (tmp_path / "page.html").read_text()
    table = text[text.index("<table") : text.index("</table>")]
    rows = [re.findall(r"<t[hd].*?</t[hd]>", row, flags=re.DOTALL) for row in table.split("<tr data-run")[1:]]
    assert [len(row) for row in rows] == [14, 14]  # run, method, recipe, seed, 2 · 3 scores, 2 floors, kept, learning
    assert ">ictrl</span>" in rows[0][1]
    assert ">finetune</span>" in rows[1][1]
    assert not any("–" in cell for cell in rows[0])
    assert ["–" in cell for cell in rows[1]] == 7 * [False] + 5 * [True] + 2 * [False]
    assert "compared-memory" in figures
    assert "compared-reencoded" not in figures  # a single curve compares nothing
    chart = text[text.index('id="figure-compared-memory"') :].split("</figure>")[0]
    for run, method in zip(runs, ("ictrl", "finetune")):
        assert f"{method}: {run.name}" in chart
        assert f"stroke: var(--{method_colour(method)})" in chart  # the colour of the swatch in the table
        assert f"--edge: var(--{method_colour(method)})" in table
    assert "upper bound" not in page.words


def test_a_method_has_one_colour_and_its_runs_differ_in_dashes(
    stripes: dict[str, Path], run: Path, odd_run: Path
) -> None:
    records = read_runs([run, stripes["finetune"], odd_run, stripes["ictrl"], stripes["joint"]])
    assert [dash for _, dash in dashes(grouped(records))] == [0, 0, 1, 2, 0]
    colours = {method_colour(record.method) for record in records}
    assert len(colours) == 3
    assert colours <= LIGHT.keys()


def test_colours_are_told_apart_and_the_same_in_light_and_dark() -> None:
    assert len(set(LIGHT.values())) == len(LIGHT)  # a variable is found again by its light colour
    assert LIGHT.keys() == DARK.keys()
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in (*LIGHT.values(), *DARK.values()))


def test_tasks_given_in_memory_need_no_command_that_cannot_work(stripes: dict[str, Path], tmp_path: Path) -> None:
    page, _ = report([stripes["ictrl"]], tmp_path)
    assert "ictrl run " not in page.words
    assert "The tasks were given in Python" in page.words


def test_every_protocol_of_the_results_is_drawn(stripes: dict[str, Path], tmp_path: Path) -> None:
    page, figures = report([stripes["ictrl"]], tmp_path)
    assert {f"confusion-{protocol}" for protocol in PROTOCOLS} <= figures
    assert "untrained floor" in page.words
    assert "frozen floor" in page.words


def test_runs_are_named_once(stripes: dict[str, Path]) -> None:
    with pytest.raises(InputError, match="is named twice"):
        read_runs([stripes["ictrl"], stripes["joint"], stripes["ictrl"]])
