"""The page: numbers, figures and pictures of one or several runs in one HTML file that needs nothing else."""

from dataclasses import dataclass, replace
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ictrl.config import Recipe
from ictrl.errors import InputError
from ictrl.experiment.evaluation import PROTOCOLS
from ictrl.recipes.reader import differences, load_recipe, recipe_names, to_toml
from ictrl.report.accuracy import accuracy, compared
from ictrl.report.confusion import confusion_map
from ictrl.report.cost import kept_bytes, size
from ictrl.report.drawing import DARK, LIGHT, Figure
from ictrl.report.drifting import drift_of_means, drift_of_subspaces
from ictrl.report.forgetting import forgetting
from ictrl.report.pictures import PictureTable, reconstructed, replayed
from ictrl.report.reading import RunRecord
from ictrl.report.reviewing import review
from ictrl.report.structure import affinity_map, block_map, energy

LARGEST = 5_000_000  # bytes of a page
CLASSES_SHOWN = (100, 50, 30, 20, 12, 8, 5, 3, 2)  # in pictures, fewer and fewer until the page is small enough


@dataclass(frozen=True)
class RunPage:
    """What the page shows of a run."""

    run: RunRecord
    accuracy: list[Figure]
    confusion: list[Figure]
    structure: list[Figure]
    review: Figure | None
    memory: Figure
    pictures: list[PictureTable]
    recipe: str
    commands: list[str]

    @property
    def drift(self) -> list[tuple[str, int]]:
        """Classes whose drift was measured after the newest task, each with its column."""
        drift = self.run.results.get("drift", {"classes": [], "mean": [[]]})
        last = drift["mean"][-1]
        return [(self.run.class_name(drift["classes"][i]), i) for i, value in enumerate(last) if value is not None]

    @property
    def figures(self) -> list[Figure]:
        return [*self.accuracy, *self.confusion, *self.structure, *([self.review] if self.review else []), self.memory]


def draw(run: RunRecord) -> RunPage:
    """Every figure that the folder has the numbers for."""
    kept = run.learner.memory if run.learner is not None else None
    structure = [figure(run, kept) for figure in (block_map, affinity_map, energy)] if kept is not None else []
    tables = [replayed(run, run.learner) if run.learner is not None else None, reconstructed(run)]
    return RunPage(
        run,
        _there([accuracy(run), forgetting(run)]),
        [confusion_map(run, protocol) for protocol in PROTOCOLS],
        [*structure, *_there([drift_of_means(run), drift_of_subspaces(run)])],
        review(run),
        kept_bytes(run),
        [table for table in tables if table is not None],
        _without_place(run.recipe),
        commands(run),
    )


def comparison(pages: list[RunPage]) -> list[Figure]:
    """The accuracy of all runs in one chart a protocol, if there are several."""
    runs = [page.run for page in pages]
    return [compared(runs, protocol) for protocol in PROTOCOLS] if len(runs) > 1 else []


def render(pages: list[RunPage]) -> str:
    """The HTML, with pictures of as many classes as it has room for."""
    environment = Environment(
        loader=PackageLoader("ictrl", "report"),
        autoescape=True,  # names of classes are names of folders: a stranger's
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["size"] = size
    environment.filters["drawn"] = lambda figure: Markup(figure.svg)
    template = environment.get_template("report.html.j2")
    style, _, _ = environment.loader.get_source(environment, "report.css")  # type: ignore[union-attr]
    for most in (*CLASSES_SHOWN, 0):
        limited = [replace(page, pictures=[table.limited(most) for table in page.pictures]) for page in pages]
        html = template.render(
            pages=limited,
            comparison=comparison(pages),
            style=Markup(style),
            light=LIGHT,
            dark=DARK,
            protocols=PROTOCOLS,
            number=number,
            matrix_rows=matrix_rows,
        )
        if len(html.encode()) <= LARGEST:
            return html
    raise InputError(
        f"Expected runs whose report takes at most {size(LARGEST)} but {len(pages)} runs take "
        f"{size(len(html.encode()))} without a picture: report on fewer at a time."
    )


def number(results: dict[str, Any], path: str, form: str = ".3f") -> Markup:
    """A number of `results.json` as the page shows it, with the whole of it and where it stands for whoever checks.

    >>> number({"memory": {"last": 0.97531}}, "memory.last")
    Markup('<data value="0.97531" data-key="memory.last">0.975</data>')
    """
    value: Any = results
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return Markup('<data value="{}" data-key="{}">{}</data>').format(value, path, format(value, form))


def matrix_rows(matrix: list[list[float | None]]) -> list[list[bool]]:
    """Which entries of an accuracy matrix there are."""
    return [[value is not None for value in row] for row in matrix]


def commands(run: RunRecord) -> list[str]:
    """What to type to get the run and this page again."""
    name, data = run.recipe.name, "" if run.recipe.data.root is None else " --data.root DATA"
    known = name in recipe_names() and not differences(replace(load_recipe(name), seed=run.recipe.seed), run.recipe)
    out = f"runs/{run.path.resolve().name}"
    seed = f" --seed {run.recipe.seed}" if known else ""
    what = name if known else f"{name}.toml"
    return [f"ictrl run {what}{seed}{data} --out {out}", f"ictrl report {out}"]


def _without_place(recipe: Recipe) -> str:
    """The recipe as TOML, without where the data lay on one machine."""
    return to_toml(replace(recipe, data=replace(recipe.data, root=None)))


def _there(figures: list[Figure | None]) -> list[Figure]:
    return [figure for figure in figures if figure is not None]
