"""Figures of one's own: a function that enters itself is on the page and among the files."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from page_parser import Page

from ictrl import InputError
from ictrl.report import Figure, PictureTable, RunRecord, canvas, catalogue, comparison, figure, figures, write_report
from ictrl.report.thumbnails import Cell, tiled


@pytest.fixture(autouse=True)
def own_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test enters is gone after it."""
    monkeypatch.setattr(catalogue, "FIGURES", dict(catalogue.FIGURES))
    monkeypatch.setattr(catalogue, "COMPARISONS", dict(catalogue.COMPARISONS))


def drawn(title: str) -> Figure:
    """A chart by matplotlib alone, in whatever looks it comes."""
    drawing, axes = canvas(height=120)
    axes.plot([0, 1, 2], [3, 1, 2], marker="s", label="own curve")
    axes.fill_between([0, 1], [0, 1], color="black", hatch="/")
    axes.legend()
    return Figure(title, "A caption.", alt="Some lines, drawn to be found again.", drawing=drawing)


def test_a_figure_shows_up_on_the_page_and_as_a_file(run: Path) -> None:
    seen: list[RunRecord] = []

    @figure(section="structure", order=15)
    def my_own_figure(run: RunRecord) -> Figure | None:
        seen.append(run)
        return drawn("A figure of my own")

    written = write_report([run])
    page = Page(written.page)
    names = [path.name for path in written.figures]
    assert names[names.index("blocks.svg") + 1] == "my-own-figure.svg"
    assert "run-1-figure-my-own-figure" in page.ids
    assert "A figure of my own" in page.words
    assert "own curve" in page.words
    assert len(page.all("svg")) == 13
    assert len(page.ids) == len(set(page.ids))
    text = written.page.read_text()
    chart = text[text.index('id="run-1-figure-my-own-figure"') :].split("</figure>")[0]
    assert "#000000" not in chart  # black becomes the page's ink, which is white at night
    assert "var(--ink)" in chart
    (record,) = seen
    assert record.results.memory.last == record.table["memory"]["last"]


def test_a_figure_that_a_run_has_nothing_for_is_left_out(run: Path) -> None:
    @figure(section="accuracy")
    def nothing(run: RunRecord) -> Figure | None:
        return None

    names = [path.name for path in write_report([run]).figures]
    assert len(names) == 14
    assert "nothing.svg" not in names


def test_pictures_may_stand_in_any_section(run: Path) -> None:
    @figure(section="review")
    def mine(run: RunRecord) -> PictureTable:
        label = run.classes[0]
        cell = Cell("the first class", tiled(run.originals[label], 2))
        return PictureTable("Pictures of my own", "Test images.", ["originals"], [(run.class_name(label), [cell])])

    written = write_report([run])
    page = Page(written.page)
    assert "mine.png" in {path.name for path in written.figures}
    assert "Pictures of my own" in page.words
    assert "#run-1-review" in {link["href"] for link in page.all("a")}  # the section is there because of it


def test_a_figure_of_several_runs(run: Path, odd_run: Path, tmp_path: Path) -> None:
    @comparison(order=5)
    def all_of_them(runs: Sequence[RunRecord]) -> Figure:
        return drawn(f"All {len(runs)} of them")

    written = write_report([run, odd_run], tmp_path / "page.html", tmp_path / "figures")
    assert written.figures[0].name == "all-of-them.svg"
    assert "All 2 of them" in Page(written.page).words


def test_mistakes_are_said_at_once() -> None:
    with pytest.raises(InputError, match="Expected a section of the report .*structure.* but got 'structures'"):
        figure(section="structures")

    def accuracy(run: RunRecord) -> Figure | None:
        return None

    with pytest.raises(InputError, match="accuracy_curves has a 'accuracy' already: rename the function"):
        figure(section="accuracy")(accuracy)


def test_a_function_may_be_defined_again() -> None:
    """As happens in a notebook."""
    for order in (1, 2):

        @figure(section="cost", order=order)
        def again(run: RunRecord) -> Figure | None:
            return None

    assert catalogue.FIGURES["again"].order == 2


def test_every_file_of_the_folder_is_read() -> None:
    files = {path.stem for path in Path(str(figures.__file__)).parent.glob("*.py")} - {"__init__"}
    entries = [*catalogue.FIGURES.values(), *catalogue.COMPARISONS.values()]
    assert {entry.draw.__module__.rpartition(".")[2] for entry in entries} == files
