"""Studies: a set of runs, recipe by recipe and seed by seed, and the one table that they answer.

A study is a TOML file:

    description = "What a larger λ does"
    seeds = [0, 1, 2]
    recipe = "paper-cifar10-5"              # a recipe's name, or a TOML file beside the study
    settings.game.epochs = 60               # what all lines change in it

    [[lines]]                               # a line of the table
    label = "λ = 3"
    settings.objective.lambda_new = 3.0     # what this line changes besides; it may have its own recipe and seeds too
    paper = { last = 0.6, average = 0.7 }   # what the paper reports for it, if anything

Its folder has a run folder for each line and seed and the table. A study that was stopped goes on where it was; runs
that begin alike share their first task, which changes none of their results.
"""

import json
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from ictrl.config import Recipe
from ictrl.errors import ConfigError, InputError
from ictrl.files import make_folder, write_atomically
from ictrl.experiment.evaluation import PROTOCOLS
from ictrl.recipes.reader import load_recipe, packaged_names, read_toml, recipe_names, recipe_with


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
    def results(self) -> dict[str, Any] | None:
        path = self.folder / "results.json"
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return found if found.get("complete") else None

    @property
    def epochs(self) -> tuple[int, int]:
        """Those played so far, and all."""
        game, data = self.recipe.game, self.recipe.data
        whole = game.first_epochs + game.epochs * (len(data.task_sizes or range(data.tasks)) - 1)
        log = self.folder / "metrics.jsonl"
        return log.read_bytes().count(b"\n") if log.exists() else 0, whole


def study_names() -> list[str]:
    return packaged_names("studies")


def load_study(name: str | Path) -> Study:
    """A study by name, or from a TOML file of one's own.

    >>> load_study("constraint").lines[1].recipe.objective.gamma_old
    0.0
    """
    name = str(name)
    table = read_toml(name, "studies", "study")
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
            recipe = replace(line.recipe, seed=seed, device=device or line.recipe.device)
            if root is not None and recipe.data.name != "digits":  # which are embedded
                recipe = replace(recipe, data=replace(recipe.data, root=str(Path(root).resolve())))
            planned.append(Planned(line, seed, out / f"{_slug(line.label)}-seed{seed}", recipe))
    return planned


# Tables


def results_of(planned: list[Planned]) -> dict[str, list[dict[str, Any]]]:
    """Those of the runs that are done, by the label of their line."""
    found: dict[str, list[dict[str, Any]]] = {}
    for item in planned:
        if (results := item.results) is not None:
            found.setdefault(item.line.label, []).append(results)
    return found


def publish(study: Study, planned: list[Planned], folder: Path) -> None:
    """The results of every finished run as one JSON file each, without the place where the data lay."""
    make_folder(folder)
    for item in planned:
        if (results := item.results) is not None:
            results["line"] = item.line.label
            results["recipe"]["data"]["root"] = None
            write_atomically(folder / f"{item.folder.name}.json", (json.dumps(results) + "\n").encode())


def read_published(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The inverse of `publish`: results by the label of their line, seeds ascending."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        results = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault(results["line"], []).append(results)
    return {label: sorted(runs, key=lambda r: r["seed"]) for label, runs in found.items()}


HEADER = (
    "",
    "paper, reencoded",
    "reencoded",
    "memory",
    "untrained",
    "frozen after task 1",
    "replay",
    "learning",
    "seeds",
)


def table(study: Study, results: dict[str, list[dict[str, Any]]], columns: Sequence[str] = HEADER) -> str:
    """Last ± deviation / average accuracy, of the lines that have results, as Markdown."""
    rows = [list(columns), ["---"] * len(columns)]
    for line in study.lines:
        runs = results.get(line.label, [])
        if not runs:
            continue
        figures = [f"{line.paper[key]:.3f}" if key in line.paper else "–" for key in ("last", "average")]
        cells = [line.label, " / ".join(figures) if line.paper else ""]
        for protocol in (*reversed(PROTOCOLS), "floor", "frozen"):
            cells.append(_scores([r[protocol] for r in runs if protocol in r]))
        cells.append(f"{statistics.mean(r['replay'][-1] for r in runs):.0%}")
        cells.append(f"{statistics.mean(r['seconds']['learn'] for r in runs):.0f} s")
        cells.append(", ".join(str(r["seed"]) for r in runs))
        rows.append([cell for column, cell in zip(HEADER, cells, strict=True) if column in columns])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _scores(scores: list[dict[str, Any]]) -> str:
    if not scores:
        return ""
    last, average = ([score[key] for score in scores] for key in ("last", "average"))
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
