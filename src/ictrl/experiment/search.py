"""A search of settings: what may vary, and what is to become as large as it can on validation images.

A search is a TOML file, like a study's but with ranges in the place of lines:

    description = "How the digits' trunk is trained best"
    recipe = "digits"                                   # a recipe's name, or a TOML file beside the search
    seeds = [11]                                        # each trial is learned once with each; their mean counts
    maximise = "last"                                   # accuracy from memory after the last task, or "average"
    settings.stream = { validation = 0.2, class_order_seed = 7 }

    [ranges]
    method.trunk.learning_rate = { low = 1e-4, high = 1e-2, log = true }
    method.trunk.epochs = { low = 20, high = 60, step = 20 }
    method.trunk.schedule = ["cosine", "constant"]      # one of these

Whoever chooses settings by test images has no test images left. So a search without `validation` is refused, and so are
ranges of anything that would change what is measured.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ictrl.config import Recipe
from ictrl.errors import ConfigError
from ictrl.experiment.study import Line, Planned, Study, only_known, plan, read_study
from ictrl.recipes.legacy import flat, put
from ictrl.recipes.reader import read_toml
from ictrl.recipes.tables import beginning, recipe_to_table, recipe_with

MEASURES = ("last", "average")


@dataclass(frozen=True)
class Range:
    """What one setting may be: one of some values, or a number from low to high."""

    choices: tuple[Any, ...] = ()
    low: float = 0
    high: float = 0
    step: float | None = None
    log: bool = False

    @property
    def whole(self) -> bool:
        return type(self.low) is int

    @property
    def some(self) -> tuple[Any, ...]:
        """Values of it: all choices, or both ends."""
        return self.choices or (self.low, self.high)

    def described(self) -> Any:
        """As the file has it."""
        if self.choices:
            return list(self.choices)
        return {
            "low": self.low,
            "high": self.high,
            **({} if self.step is None else {"step": self.step}),
            **({"log": True} if self.log else {}),
        }


@dataclass(frozen=True)
class Search:
    name: str
    description: str
    line: Line
    """recipe and seeds"""
    base: str
    """the recipe that the file starts from: a name, or a path"""
    settings: dict[str, Any]
    """what it changes in it for all trials"""
    maximise: str
    ranges: dict[str, Range]
    """by the dotted names of settings"""

    @property
    def shares_first_task(self) -> bool:
        """Whether all trials begin alike, so that one first task does for all."""
        return all(
            len({beginning(recipe_with(self.line.recipe, nested({name: value}))) for value in found.some}) == 1
            for name, found in self.ranges.items()
        )

    def planned(
        self, number: int, settings: dict[str, Any], out: Path, root: str | None, device: str | None
    ) -> list[Planned]:
        """The runs of a trial, one per seed."""
        recipe = recipe_with(self.line.recipe, nested(settings))
        line = replace(self.line, label=f"trial {number:04d}", recipe=recipe)
        return plan(Study(self.name, self.description, (line,)), out, root=root, device=device)

    def written(self) -> dict[str, Any]:
        """All that decides what its trials are, as JSON has it."""
        return {
            "recipe": recipe_to_table(self.line.recipe),
            "seeds": list(self.line.seeds),
            "maximise": self.maximise,
            "ranges": {name: found.described() for name, found in self.ranges.items()},
        }


def load_search(path: str | Path) -> Search:
    """A search from a TOML file."""
    path = Path(path)
    if path.suffix != ".toml":
        raise ConfigError(f"Expected the path of a search, a .toml file, but got {str(path)!r}.")
    table = read_toml(str(path), "experiment/studies", "search")
    try:
        return _search(path, table)
    except ConfigError as error:
        raise ConfigError(f"{error} (in {path})") from None


def _search(path: Path, table: dict[str, Any]) -> Search:
    only_known(table, {"description", "recipe", "seeds", "maximise", "settings", "ranges"}, "the search")
    maximise = table.get("maximise", "last")
    if maximise not in MEASURES:
        raise ConfigError(f"Expected maximise to be {' or '.join(map(repr, MEASURES))} but got {maximise!r}.")
    base = table.get("recipe")
    if not isinstance(base, str):
        raise ConfigError(f'Expected recipe to name a recipe, as in recipe = "digits", but got {base!r}.')
    of_study: dict[str, Any] = {key: table[key] for key in ("recipe", "seeds", "settings") if key in table}
    (line,) = read_study(path, {**of_study, "lines": [{"label": path.stem}]}).lines
    if not line.recipe.stream.validation:
        raise ConfigError(
            "Expected validation images to choose settings by, never test images, but stream.validation is 0: add "
            "settings.stream.validation = 0.2."
        )
    ranges = dict(_ranges(table.get("ranges"), line.recipe))
    settings = table.get("settings", {})
    if twice := [name for name, _ in flat(settings) if name in ranges]:
        raise ConfigError(f"Expected {twice[0]} in settings or in ranges but it is in both.")
    if Path(base).suffix == ".toml":
        base = str((path.parent / base).resolve())
    return Search(path.stem, str(table.get("description", "")), line, base, settings, maximise, ranges)


def _ranges(table: Any, recipe: Recipe) -> Iterator[tuple[str, Range]]:
    now = dict(flat(recipe_to_table(recipe)))
    found = dict(_entries(table)) if isinstance(table, dict) else {}
    if not found:
        raise ConfigError(
            "Expected [ranges] with at least one setting, as in method.later.epochs = { low = 20, high = 60 }, but got "
            "none."
        )
    for name, entry in found.items():
        if not name.startswith("method.") or name == "method.name":
            raise ConfigError(f"Expected ranges of a method's settings, which begin with method., but got {name}.")
        made = _range(name, entry, now.get(name))
        for value in made.some:  # unknown, of another type or out of bounds: better refused now than in each trial
            recipe_with(recipe, nested({name: value}))
        yield name, made


def _entries(table: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Ranges by the dotted names of their settings."""
    for key, value in table.items():
        if isinstance(value, dict) and not {"low", "high", "choices"} & value.keys() and value:
            yield from _entries(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _range(name: str, entry: Any, now: Any) -> Range:
    choices = entry.get("choices") if isinstance(entry, dict) and entry.keys() == {"choices"} else entry
    if isinstance(choices, list):
        if len({json.dumps(choice, default=str) for choice in choices}) < max(2, len(choices)):
            raise ConfigError(f"Expected at least two different choices for {name} but got {choices!r}.")
        return Range(choices=tuple(choices))
    if not isinstance(entry, dict):
        raise ConfigError(
            f"Expected {name} to have a range, {{ low = …, high = … }} or a list of choices, but got {entry!r}."
        )
    only_known(entry, {"low", "high", "step", "log"}, name)
    for key in ("low", "high", *({"step"} & entry.keys())):
        value = entry.get(key)
        if type(value) not in (int, float) or not math.isfinite(float(str(value))):
            raise ConfigError(f"Expected {name} to have a number as {key} but got {value!r}.")
    low, high, step, log = entry["low"], entry["high"], entry.get("step"), entry.get("log", False)
    if type(log) is not bool:
        raise ConfigError(f"Expected log of {name} to be true or false but got {log!r}.")
    if not low < high:
        raise ConfigError(f"Expected low of {name} to be below its high but got {low} and {high}.")
    if log and (low <= 0 or step is not None):
        raise ConfigError(f"Expected {name} on a log scale to be above 0 and without a step but got {entry!r}.")
    if step is not None and not 0 < step <= high - low:
        raise ConfigError(f"Expected step of {name} to be above 0 and at most {high - low:g} but got {step}.")
    whole = type(low) is int and type(high) is int and type(step) in (int, type(None)) and type(now) is not float
    kind = int if whole else float
    if step is not None:
        high = low + math.floor((high - low) / step + 1e-9) * step
    return Range(low=kind(low), high=kind(high), step=None if step is None else kind(step), log=log)


def nested(settings: dict[str, Any]) -> dict[str, Any]:
    """Tables of settings that are given by their dotted names."""
    table: dict[str, Any] = {}
    for name, value in settings.items():
        put(table, name, value)
    return table
