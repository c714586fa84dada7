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

    [[lines]]                                           # six lines: {…} is replaced by each of the values in turn
    label = "er on {stream}, {images} images"
    recipe = "er-{stream}"
    settings.method.buffer.images = "{images}"
    each = { stream = ["mnist-5", "cifar10-5"], images = [200, 500, 2000] }

Its folder has a run folder for each line and seed and the table. A study that was stopped goes on where it was; runs
that begin alike share their first task, which changes none of their results.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from ictrl.config import Recipe, StageConfig
from ictrl.data.registry import is_embedded
from ictrl.errors import ConfigError, InputError
from ictrl.experiment.results import Results
from ictrl.experiment.study_entries import filled_in
from ictrl.files import absolute
from ictrl.recipes.legacy import renamed
from ictrl.recipes.reader import load_recipe, packaged_names, read_toml, recipe_names
from ictrl.recipes.tables import recipe_with

STUDIES = "experiment/studies"
MANY = 10**12  # epochs: no bar can show more
LONGEST = 100  # name of a folder


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
    columns: tuple[str, ...] = ()
    """of its table; by default those that the paper's tables ask for"""


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
        found = self._read()
        return found if isinstance(found, Results) and found.complete else None

    @property
    def damage(self) -> str:
        """Why its results cannot be read, and what follows; nothing if they can, or are not there."""
        found = self._read()
        return f"{found} It counts as not done." if isinstance(found, InputError) else ""

    def _read(self) -> Results | InputError | None:
        path = self.folder / "results.json"
        try:
            return Results.read(path) if path.exists() else None
        except InputError as error:
            return error

    @property
    def epochs(self) -> tuple[int, int]:
        """Those played so far, and all."""
        stream, method = self.recipe.stream, self.recipe.method
        tasks = len(stream.task_sizes) or stream.tasks
        epochs = {name: part.epochs for name, part in vars(method).items() if isinstance(part, StageConfig)}
        every = epochs.get("stage", 0)  # of a method whose tasks are all learned alike; some learn nothing later
        first = epochs.get("trunk", 0) + epochs.get("first", every)
        whole = first + epochs.get("later", epochs.get("learning_on", every)) * (tasks - 1)
        try:
            played = (self.folder / "metrics.jsonl").read_bytes().count(b"\n")
        except OSError:
            played = 0
        return played, min(whole, MANY)


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
        return read_study(Path(name), table)
    except ConfigError as error:
        raise ConfigError(f"{error} (in {name})") from None


def read_study(path: Path, table: dict[str, Any]) -> Study:
    """A study from what its TOML file holds."""
    only_known(table, {"description", "seeds", "recipe", "settings", "lines"}, "the study")
    entries = table.get("lines")
    if not isinstance(entries, list) or not entries:
        raise ConfigError("Expected at least one [[lines]].")
    lines = []
    for number, entry in enumerate(chain.from_iterable(map(filled_in, entries)), start=1):
        label = entry.get("label") if isinstance(entry, dict) else None
        try:
            lines.append(_line(path, table, entry))
        except ConfigError as error:
            named = repr(label) if isinstance(label, str) else number
            raise ConfigError(f"{str(error).rstrip('.')} (in line {named})") from None
    twice = [slug for slug, count in Counter(slug(line.label) for line in lines).items() if count > 1]
    if twice:
        raise ConfigError(f"Expected labels that name different folders but {twice[0]} comes twice.")
    for line, other in combinations(lines, 2):
        if line.recipe == other.recipe and set(line.seeds) & set(other.seeds):
            raise ConfigError(f"Expected lines that differ but {line.label!r} and {other.label!r} are the same.")
    return Study(path.stem, str(table.get("description", "")), tuple(lines))


def _line(path: Path, table: dict[str, Any], entry: dict[str, Any]) -> Line:
    """A line of the study that this table is of."""
    only_known(entry, {"label", "recipe", "seeds", "paper", "settings"}, "a line")
    label, seeds = entry.get("label"), entry.get("seeds", table.get("seeds", [0]))
    if not isinstance(label, str) or not slug(label):
        raise ConfigError(f"Expected every line to have a label but got {label!r}.")
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise ConfigError(f"Expected seeds to be a list of whole numbers but got {seeds!r}.")
    base = str(entry.get("recipe", table.get("recipe", "")))
    if base not in recipe_names() and Path(base).suffix == ".toml":
        base = str(path.parent / base)
    only_known(entry.get("paper", {}), {"last", "average"}, "paper")
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
    return Line(label, recipe, tuple(seeds), entry.get("paper", {}))


def only_known(table: object, known: set[str], where: str) -> None:
    """Refuse what is no table, or has another entry."""
    if not isinstance(table, dict):
        raise ConfigError(f"Expected {where} to be a table but got {table!r}.")
    unknown = sorted(set(table) - known)
    if unknown:
        raise ConfigError(f"Expected {where} to have nothing but {', '.join(sorted(known))} but got {unknown[0]!r}.")


def plan(
    study: Study,
    out: Path,
    *,
    root: str | None = None,
    device: str | None = None,
    seeds: Sequence[int] = (),
    keep_pictures: int | None = None,
) -> list[Planned]:
    """Every run of the study. `root` is where the data lies; seeds given here take the place of the study's.

    A line may name a file or folder in there by a relative `stream.root`.
    """
    planned = []
    for line in study.lines:
        for seed in seeds or line.seeds:
            settings = replace(line.recipe.run, seed=seed, device=device or line.recipe.run.device)
            if keep_pictures is not None:
                settings = replace(settings, keep_pictures=keep_pictures)
            recipe = replace(line.recipe, run=settings)
            if root is not None and not is_embedded(recipe.stream.dataset):
                named = Path(recipe.stream.root or "").expanduser()
                inside = absolute(root) / ("" if named.is_absolute() else named)
                recipe = replace(recipe, stream=replace(recipe.stream, root=str(inside)))
            planned.append(Planned(line, seed, out / f"{slug(line.label)}-seed{seed}", recipe))
    return planned


def slug(label: str) -> str:
    """The label as a folder's name."""
    plain = label.replace("λ", "lambda").replace("γ", "gamma").replace("%", " percent")
    name = re.sub(r"[^a-z0-9.]+", "-", plain.lower()).strip("-.")
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 9]}-{sha256(name.encode()).hexdigest()[:8]}"


def chosen(study: Study, only: Sequence[str]) -> Study:
    """The study with the lines whose labels contain one of these texts."""
    if not only:
        return study
    lines = tuple(line for line in study.lines if any(text.lower() in line.label.lower() for text in only))
    if not lines:
        labels = "; ".join(line.label for line in study.lines)
        raise InputError(f"Expected --only to name lines of {study.name} but none has {', '.join(only)}: {labels}.")
    return replace(study, lines=lines)
