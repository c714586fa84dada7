"""The page: numbers, figures and pictures of one or several runs in one HTML file that needs nothing else."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

import ictrl.report.figures  # noqa: F401 (they enter the catalogue)
from ictrl.config import Recipe
from ictrl.errors import InputError
from ictrl.experiment.results import FLOORS, PROTOCOLS
from ictrl.recipes.reader import load_recipe, recipe_names
from ictrl.recipes.tables import differences, to_toml, without_place
from ictrl.report.catalogue import SECTIONS, Figure, comparisons, figures_of
from ictrl.report.class_rows import ClassRow, class_rows
from ictrl.report.house_style import house_style
from ictrl.report.palette import DARK, LIGHT, method_colour
from ictrl.report.record import RunRecord
from ictrl.report.svg import Svg, to_svg
from ictrl.report.thumbnails import PictureTable
from ictrl.report.words import TITLES, coded, number, printable, size, verdict_numbers

LARGEST = 5_000_000  # bytes of a page
CLASSES_SHOWN = (100, 50, 30, 20, 12, 8, 5, 3, 2)  # in pictures, fewer and fewer until the page is small enough
PHASES = {"learn": "learning", "evaluate": "measuring after each task", "floors": "measuring the floors"}


@dataclass(frozen=True)
class Chart:
    """A figure, drawn."""

    title: str
    caption: str
    svg: Svg

    @property
    def file(self) -> bytes:
        """The chart for a paper."""
        return self.svg.file


Shown = dict[str, Chart | PictureTable]
"""What a section shows, by name."""


@dataclass(frozen=True)
class RunPage:
    """What the page shows of a run."""

    run: RunRecord
    shown: dict[str, Shown]
    """of each section"""
    recipe: str
    commands: list[str]

    @property
    def drift(self) -> list[tuple[str, int]]:
        """Classes whose drift was measured after the newest task, each with its column."""
        drift = self.run.results.drift
        if drift is None:
            return []
        names = self.run.class_names(drift.classes)
        return [(names[i], i) for i, value in enumerate(drift.mean[-1]) if value is not None]

    @property
    def class_rows(self) -> list[ClassRow]:
        """Each class in numbers."""
        return class_rows(self.run)

    @property
    def sections(self) -> dict[str, str]:
        """Titles of the sections that there is something to say in."""
        run, shown = self.run, self.shown
        there = {
            "accuracy": "Accuracy",
            "training": "Training" if shown["training"] or run.metrics is None else "",
            "structure": "Structure" if shown["structure"] or run.keeps_moments else "",
            "pictures": "Pictures" if shown["pictures"] or run.draws else "",
            "review": "Review" if shown["review"] else "",
            "cost": "Memory and time",
            "recipe": "Recipe",
        }
        return {name: title for name, title in there.items() if title}

    def limited(self, most: int) -> "RunPage":
        """With pictures of so many classes."""
        return replace(
            self,
            shown={
                section: {
                    name: found.limited(most) if isinstance(found, PictureTable) else found
                    for name, found in shown.items()
                }
                for section, shown in self.shown.items()
            },
        )


def draw(runs: list[RunRecord]) -> tuple[list[RunPage], Shown]:
    """Every figure that the runs have the numbers for, and those that compare them if there are several."""
    with house_style():
        pages = [_draw_run(run, f"run-{i}-") for i, run in enumerate(runs, start=1)]
        several = comparisons() if len(runs) > 1 else {}
        return pages, _there({name: make(runs) for name, make in several.items()}, "")


def _draw_run(run: RunRecord, ids: str) -> RunPage:
    with _no_collecting():
        shown = {
            section: _there({name: make(run) for name, make in figures_of(section).items()}, ids)
            for section in SECTIONS
        }
    return RunPage(run, shown, to_toml(without_place(run.recipe)), commands(run))


@contextmanager
def _no_collecting() -> Iterator[None]:
    """Let garbage lie for a moment: charts are thousands of small objects, and looking for garbage among them, and
    through all that torch has in memory, would take a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _there(figures: dict[str, Figure | PictureTable | None] | dict[str, Figure | None], ids: str) -> Shown:
    """Those that are there, charts as SVG."""
    return {
        name: Chart(found.title, found.caption, to_svg(found.drawing, found.alt, f"{ids}{name}-"))
        if isinstance(found, Figure)
        else found
        for name, found in figures.items()
        if found is not None
    }


def render(pages: list[RunPage], comparison: Shown) -> str:
    """The HTML, with pictures of as many classes as it has room for."""
    template = _template()
    protocols = [name for name in PROTOCOLS if any(name in page.run.results.scores for page in pages)]
    floors = [name for name in FLOORS if any(name in page.run.results.scores for page in pages)]
    recipes = not all(page.run.name.startswith(page.run.recipe.name) for page in pages)  # a column that says more
    for most in (*CLASSES_SHOWN, 0):
        limited = [page.limited(most) for page in pages]
        html = template.render(
            pages=limited, comparison=comparison, protocols=protocols, floors=floors, recipes=recipes
        )
        if len(html.encode()) <= LARGEST:
            return html
    raise InputError(
        f"Expected runs whose report takes at most {size(LARGEST)} but {len(pages)} runs take "
        f"{size(len(html.encode()))} without a picture: report on fewer at a time."
    )


def drawn(chart: Chart) -> Markup:
    """The chart as the page holds it."""
    return Markup(chart.svg.page)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("ictrl", "report/templates"),
        autoescape=True,  # names of classes are names of folders: a stranger's
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"size": size, "drawn": drawn, "coded": coded}
    environment.tests["table"] = lambda found: isinstance(found, PictureTable)
    style, _, _ = environment.loader.get_source(environment, "style.css")  # type: ignore[union-attr]
    environment.globals |= {
        "style": Markup(style),
        "light": LIGHT,
        "dark": DARK,
        "number": number,
        "verdict_numbers": verdict_numbers,
        "method_colour": method_colour,
        "phases": PHASES,
        "titles": TITLES,
    }
    return environment.get_template("page.html.j2")


def commands(run: RunRecord) -> list[str]:
    """What to type to get the run and this page again."""
    recipe, out = run.recipe, f"runs/{printable(run.path.resolve().name)}"
    data = "" if recipe.stream.root is None else " --stream.root DATA"
    known = recipe.name in recipe_names() and not differences(_seeded(load_recipe(recipe.name), recipe), recipe)
    seed = f" --seed {recipe.run.seed}" if known else ""
    what = recipe.name if known else f"{recipe.name}.toml"
    again = [] if run.in_memory else [f"ictrl run {what}{seed}{data} --out {out}"]
    return [*again, f"ictrl report {out}"]


def _seeded(recipe: Recipe, other: Recipe) -> Recipe:
    """A recipe with another one's seed."""
    return replace(recipe, run=replace(recipe.run, seed=other.run.seed))
