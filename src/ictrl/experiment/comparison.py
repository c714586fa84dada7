"""Several recipes on one stream: a study that needs no file of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from ictrl.config import Recipe, StreamConfig
from ictrl.errors import ConfigError, InputError
from ictrl.experiment.run_data import fingerprint, stream_of
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.study import Line, Planned, Study, slug
from ictrl.files import absolute
from ictrl.recipes.reader import load_recipe
from ictrl.recipes.tables import differences

COLUMNS = ("", "memory", "forgetting", "keeps", "kept", "learning", "seeds")
"""Of its table: what every method has."""


def comparison(names: Sequence[str], stream: Mapping[str, Any], seeds: Sequence[int]) -> Study:
    """A study with a line per recipe. The settings of `stream` hold for all of them, and after that their streams must
    be the same.

    >>> [line.label for line in comparison(["er-digits", "slda-digits"], {"tasks": 2}, [0]).lines]
    ['er-digits', 'slda-digits']
    """
    if len(names) < 2:
        got = f"only {names[0]}" if names else "none"
        raise InputError(
            f"Expected at least two recipes to compare but got {got}: name them one after another, as in "
            "`ictrl compare er-digits slda-digits`."
        )
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"Expected different seeds but got {' '.join(map(str, seeds)) or 'none'}: give each once.")
    recipes = [_on(load_recipe(name), stream) for name in names]
    for one, other in combinations(recipes, 2):
        if slug(one.name) == slug(other.name):
            raise InputError(
                f"Expected different recipes but {other.name} comes twice: leave one out or, if they are two files, "
                "rename one."
            )
        if not differences(one, other):
            raise InputError(
                f"Expected recipes that differ but {one.name} and {other.name} have the same method and settings: "
                "leave one out."
            )
    for other in recipes[1:]:
        _check_stream(recipes[0], other)
    lines = tuple(Line(recipe.name, recipe, tuple(seeds), {}) for recipe in recipes)
    labels = [line.label for line in lines]
    return Study("comparison", f"{', '.join(labels[:-1])} and {labels[-1]} on the same stream", lines, COLUMNS)


def check_data(planned: Sequence[Planned]) -> None:
    """Read the stream once for each size of images, before anything is learned: a mistake in the data is refused here,
    and so are other images than those that a run of an earlier time has learned."""
    by_size: dict[tuple[int, int], list[Planned]] = {}
    for item in planned:
        network = item.recipe.method.network
        by_size.setdefault((network.image_size, network.channels), []).append(item)
    for items in by_size.values():
        _, tasks = stream_of(items[0].recipe)
        begun = [item.folder for item in items if (item.folder / "data.json").exists()]
        found = fingerprint(tasks) if begun else {}
        for folder in begun:
            RunFolder(folder).check_data(found)


def _on(recipe: Recipe, stream: Mapping[str, Any]) -> Recipe:
    """The recipe with some settings of its stream changed."""
    try:
        return replace(recipe, stream=replace(recipe.stream, **stream))
    except ConfigError as error:
        raise ConfigError(f"{str(error).rstrip('.')} (in {recipe.name}).") from None


def _check_stream(one: Recipe, other: Recipe) -> None:
    first, second = _deciding(one.stream), _deciding(other.stream)
    changed = [name for name in first if first[name] != second[name]]
    if changed:
        options = " and ".join("--stream." + name.replace("_", "-") for name in changed[:3])
        told = "; ".join(f"stream.{name}: {first[name]} → {second[name]}" for name in changed)
        other_data = "dataset" in changed
        remedy = "choose recipes of one stream" if other_data else f"give {options}, which then holds for all"
        raise InputError(
            f"Expected recipes on the same stream but {other.name} differs from {one.name} ({told}): {remedy}, as in "
            f"`ictrl compare er-digits slda-digits{'' if other_data else ' --stream.tasks 5'}`."
        )


def _deciding(stream: StreamConfig) -> dict[str, Any]:
    """The settings that make a stream what it is."""
    settings = dict(vars(stream))
    if stream.task_sizes:
        settings["tasks"] = len(stream.task_sizes)  # they take its place
    if stream.root is not None:
        settings["root"] = str(absolute(stream.root))
    return settings
