"""Studies: a set of runs, recipe by recipe and seed by seed, and the one table that they answer.

A study is a TOML file:

    description = "What a larger λ does"
    seeds = [0, 1, 2]
    recipe = "paper-cifar10-5"                          # a recipe's name, or a TOML file beside the study
    settings.method.later.epochs = 60                   # what all lines change in it

    [[lines]]                                           # a line of the table
    label = "λ = 3"
    settings.method.later.weights.lambda_new = 3.0      # what this line changes besides; it may have its own recipe
    paper = { last = 0.6, average = 0.7 }               # what the paper reports for it, if anything

Its folder has a run folder for each line and seed and the table. A study that was stopped goes on where it was; runs
that begin alike share their first task, which changes none of their results.
"""

import json
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from ictrl.config import Recipe, StageConfig
from ictrl.errors import ConfigError, InputError
from ictrl.experiment.results import Results
from ictrl.files import make_folder, write_atomically
from ictrl.recipes.legacy import renamed
from ictrl.recipes.reader import load_recipe, packaged_names, read_toml, recipe_names
from ictrl.recipes.tables import recipe_with
from ictrl.theory.metrics import Scores

STUDIES = "experiment/studies"


@dataclass(frozen=True)
class Line:
    """One line of a study's table."""

    label: str
    recipe: Recipe
    seeds: tuple[int, ...]
    paper: dict[str, float]
    """`last` and `average` as the paper reports them, as far as it does"""


@dataclass(frozen=True)
class Study:
    name: str
    description: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Planned:
    """One run of a study."""

    line: Line
    seed: int
    folder: Path
    recipe: Recipe

    @property
    def finished(self) -> bool:
        return self.results is not None

    @property
    def results(self) -> Results | None:
        path = self.folder / "results.json"
        found = Results.read(path) if path.exists() else None
        return found if found is not None and found.complete else None

    @property
    def epochs(self) -> tuple[int, int]:
        """Those played so far, and all."""
        stream, method = self.recipe.stream, self.recipe.method
        tasks = len(stream.task_sizes or range(stream.tasks))
        epochs = {name: part.epochs for name, part in vars(method).items() if isinstance(part, StageConfig)}
        every = epochs.get("stage", 0)  # of a method whose tasks are all learned alike; some learn nothing later
        whole = epochs.get("first", every) + epochs.get("later", every) * (tasks - 1)
        log = self.folder / "metrics.jsonl"
        return log.read_bytes().count(b"\n") if log.exists() else 0, whole


def study_names() -> list[str]:
    return packaged_names(STUDIES)


def load_study(name: str | Path) -> Study:
    """A study by name, or from a TOML file of one's own.

    >>> load_study("constraint").lines[1].recipe.method.later.weights.gamma_old
    0.0
    """
    name = str(name)
    table = read_toml(name, STUDIES, "study")
    try:
        return _study(Path(name), table)
    except ConfigError as error:
        raise ConfigError(f"{error} (in {name})") from None


def _study(path: Path, table: dict[str, Any]) -> Study:
    _only(table, {"description", "seeds", "recipe", "settings", "lines"}, "the study")
    entries = table.get("lines")
    if not isinstance(entries, list) or not entries:
        raise ConfigError("Expected at least one [[lines]].")
    lines = []
    for entry in entries:
        _only(entry, {"label", "recipe", "seeds", "paper", "settings"}, "a line")
        label, seeds = entry.get("label"), entry.get("seeds", table.get("seeds", [0]))
        if not isinstance(label, str) or not _slug(label):
            raise ConfigError(f"Expected every line to have a label but got {label!r}.")
        if not isinstance(seeds, list) or not seeds or not all(type(seed) is int and seed >= 0 for seed in seeds):
            raise ConfigError(f"Expected seeds to be a list of whole numbers but got {seeds!r}.")
        base = str(entry.get("recipe", table.get("recipe", "")))
        if base not in recipe_names() and Path(base).suffix == ".toml":
            base = str(path.parent / base)
        _only(entry.get("paper", {}), {"last", "average"}, "paper")
        recipe = load_recipe(base)
        for settings in (table.get("settings", {}), entry.get("settings", {})):
            if not isinstance(settings, dict):
                raise ConfigError(f"Expected settings to be a table but got {settings!r}.")
            if old := next(iter(renamed(settings).items()), None):
                raise ConfigError(
                    f"Expected today's names of settings but {old[0]} is now {' and '.join(old[1])}: "
                    f"`ictrl migrate {path}` rewrites the study."
                )
            recipe = recipe_with(recipe, settings)
        lines.append(Line(label, recipe, tuple(seeds), entry.get("paper", {})))
    twice = [slug for slug, count in Counter(_slug(line.label) for line in lines).items() if count > 1]
    if twice:
        raise ConfigError(f"Expected labels that name different folders but {twice[0]} comes twice.")
    for line, other in combinations(lines, 2):
        if line.recipe == other.recipe and set(line.seeds) & set(other.seeds):
            raise ConfigError(f"Expected lines that differ but {line.label!r} and {other.label!r} are the same.")
    return Study(path.stem, str(table.get("description", "")), tuple(lines))


def _only(table: object, known: set[str], where: str) -> None:
    if not isinstance(table, dict):
        raise ConfigError(f"Expected {where} to be a table but got {table!r}.")
    unknown = sorted(set(table) - known)
    if unknown:
        raise ConfigError(f"Expected {where} to have nothing but {', '.join(sorted(known))} but got {unknown[0]!r}.")


def plan(
    study: Study, out: Path, *, root: str | None = None, device: str | None = None, seeds: Sequence[int] = ()
) -> list[Planned]:
    """Every run of the study. `root` is where the data lies; seeds given here take the place of the study's."""
    planned = []
    for line in study.lines:
        for seed in seeds or line.seeds:
            settings = replace(line.recipe.run, seed=seed, device=device or line.recipe.run.device)
            recipe = replace(line.recipe, run=settings)
            if root is not None and recipe.stream.dataset != "digits":  # which are embedded
                recipe = replace(recipe, stream=replace(recipe.stream, root=str(Path(root).resolve())))
            planned.append(Planned(line, seed, out / f"{_slug(line.label)}-seed{seed}", recipe))
    return planned


# Tables


def results_of(planned: list[Planned]) -> dict[str, list[Results]]:
    """Those of the runs that are done, by the label of their line."""
    found: dict[str, list[Results]] = {}
    for item in planned:
        if (results := item.results) is not None:
            found.setdefault(item.line.label, []).append(results)
    return found


def publish(study: Study, planned: list[Planned], folder: Path) -> None:
    """The results of every finished run as one JSON file each, without the place where the data lay."""
    make_folder(folder)
    for item in planned:
        if (results := item.results) is not None:
            table = replace(results.anywhere(), line=item.line.label).to_table()
            write_atomically(folder / f"{item.folder.name}.json", (json.dumps(table) + "\n").encode())


def read_published(folder: Path) -> dict[str, list[Results]]:
    """The inverse of `publish`: results by the label of their line, seeds ascending."""
    found: dict[str, list[Results]] = {}
    for path in sorted(folder.glob("*.json")):
        results = Results.read(path)
        found.setdefault(str(results.line), []).append(results)
    return {label: sorted(runs, key=lambda results: results.seed) for label, runs in found.items()}


def _paper(line: Line, runs: list[Results]) -> str:
    figures = [f"{line.paper[key]:.3f}" if key in line.paper else "–" for key in ("last", "average")]
    return " / ".join(figures) if line.paper else ""


def _cell(name: str) -> Callable[[Line, list[Results]], str]:
    return lambda line, runs: mean_scores([results.scores[name] for results in runs if name in results.scores])


def _replay(line: Line, runs: list[Results]) -> str:
    shares = [results.replay[-1] for results in runs if results.replay]
    return f"{statistics.mean(shares):.0%}" if shares else ""


COLUMNS: dict[str, Callable[[Line, list[Results]], str]] = {
    "": lambda line, runs: line.label,
    "paper, reencoded": _paper,
    "reencoded": _cell("reencoded"),
    "memory": _cell("memory"),
    "untrained": _cell("untrained"),
    "frozen after task 1": _cell("frozen"),
    "replay": _replay,
    "kept": lambda line, runs: f"{statistics.mean(results.kept_bytes for results in runs) / 1000:,.0f} kB",
    "learning": lambda line, runs: f"{statistics.mean(results.seconds['learn'] for results in runs):.0f} s",
    "seeds": lambda line, runs: ", ".join(str(results.seed) for results in runs),
}
"""What a table can say of a line and its runs."""


def table(study: Study, results: dict[str, list[Results]], columns: Sequence[str] = tuple(COLUMNS)) -> str:
    """Last ± deviation / average accuracy, of the lines that have results, as Markdown."""
    rows = [list(columns), ["---"] * len(columns)]
    for line in study.lines:
        if runs := results.get(line.label, []):
            rows.append([COLUMNS[column](line, runs) for column in columns])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def mean_scores(scores: list[Scores]) -> str:
    """Last ± deviation over seeds / average, as text; nothing of nothing."""
    if not scores:
        return ""
    last, average = [score.last for score in scores], [score.average for score in scores]
    spread = f" ± {statistics.stdev(last):.3f}" if len(last) > 1 else ""
    return f"{statistics.mean(last):.3f}{spread} / {statistics.mean(average):.3f}"


def _slug(label: str) -> str:
    """The label as a folder's name."""
    plain = label.replace("λ", "lambda").replace("γ", "gamma").replace("%", " percent")
    return re.sub(r"[^a-z0-9.]+", "-", plain.lower()).strip("-.")


def chosen(study: Study, only: Sequence[str]) -> Study:
    """The study with the lines whose labels contain one of these texts."""
    if not only:
        return study
    lines = tuple(line for line in study.lines if any(text.lower() in line.label.lower() for text in only))
    if not lines:
        labels = "; ".join(line.label for line in study.lines)
        raise InputError(f"Expected --only to name lines of {study.name} but none has {', '.join(only)}: {labels}.")
    return replace(study, lines=lines)
