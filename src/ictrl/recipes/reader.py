"""Recipes as files: those that come with ictrl and those of a user's own, one building on another.

A recipe is a TOML file with a table per dataclass of `config`: `[method]` with the method's name and settings,
`[stream]`, `[run]`. What it leaves out comes from its `base`, another recipe, or from the defaults; a recipe with
another method than its base takes over what both methods have.

Any method runs on any stream of `recipes/streams` without a file: METHOD-STREAM, such as `er-cifar10-5`, is the
method's own defaults with what the stream says of every method (`[method]`) and of this one (`[methods.er]`). What
several streams say lies in `streams/shared`, and each names it as its `base`. A file of that name goes before.
"""

import json
import os
import re
from importlib import resources
from pathlib import Path
from typing import Any

from ictrl.config import METHODS, Recipe
from ictrl.errors import ConfigError, InputError
from ictrl.limits import RECIPE_BYTES, read_regular
from ictrl.recipes.bounded_toml import parse_toml
from ictrl.recipes.legacy import renamed, whole_recipe
from ictrl.recipes.tables import changed, did_you_mean, merged, recipe_from_table

STREAMS = "recipes/streams"
SHARED = "recipes/streams/shared"


def recipe_names() -> list[str]:
    """Names that `load_recipe` knows, five tasks before ten."""
    return packaged_names("recipes")


def stream_names() -> list[str]:
    """Streams that any method runs on by the name METHOD-STREAM."""
    return packaged_names(STREAMS)


def composed(name: str) -> tuple[str, str] | None:
    """Method and stream of a name such as er-cifar10-5 that has no file of its own; None of any other name.

    >>> composed("finetune-cifar10-5"), composed("digits")
    (('finetune', 'cifar10-5'), None)
    """
    pairs = ((method, name.removeprefix(f"{method}-")) for method in METHODS if name.startswith(f"{method}-"))
    return next((pair for pair in pairs if name not in recipe_names() and pair[1] in stream_names()), None)


def packaged_names(folder: str) -> list[str]:
    """Names of the TOML files in that folder of the package, 5 before 10."""
    files = resources.files("ictrl").joinpath(folder).iterdir()
    return sorted((file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")), key=by_number)


def by_number(name: str) -> list[int | str]:
    """A key that sorts names with 5 before 10.

    >>> sorted(["mnist-10", "mnist-5"], key=by_number)
    ['mnist-5', 'mnist-10']
    """
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def read_toml(name: str, folder: str, what: str, purpose: str = "") -> dict[str, Any]:
    """A TOML file of that folder of the package by its name, or any by its path; errors say what it was to be, and for
    what purpose."""
    known = packaged_names(folder)
    try:
        if name in known:
            text = resources.files("ictrl").joinpath(folder, f"{name}.toml").read_text(encoding="utf-8")
        elif Path(name).suffix == ".toml":
            text = read_regular(Path(name).expanduser(), RECIPE_BYTES).decode()
        else:
            raise ConfigError(
                f"Expected a {what}{purpose} but got {name!r}{did_you_mean(name, known)}. "
                f"Known {folder.rpartition('/')[2]}: {', '.join(known)}; {_composable(folder)}or give the path of a "
                ".toml file."
            )
    except (OSError, UnicodeDecodeError, InputError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"Expected a {what} file{purpose} but could not read {name}: {reason}.") from None
    try:
        return parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"Expected TOML in {name} but got: {error}.") from None


def _composable(folder: str) -> str:
    return f"any method with a stream ({', '.join(stream_names())}), as in er-digits; " if folder == "recipes" else ""


def reached() -> dict[str, dict[str, Any]]:
    """What runs of the recipes reached, as far as it was measured; written from the published results."""
    text = resources.files("ictrl").joinpath("recipes", "reached.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found


def load_recipe(name: str | Path) -> Recipe:
    """A recipe by name, or from a TOML file of one's own.

    A file that says `base = "NAME"` changes that recipe, or the file of that path beside it, setting by setting. What a
    recipe is called and says of itself is its own.

    >>> load_recipe("digits").method.network.image_size
    16
    """
    packaged = str(name) in recipe_names() or composed(str(name))
    table = {"name": str(name) if packaged else Path(name).stem, **_read_recipe(str(name), ())}
    try:
        return recipe_from_table(table)
    except ConfigError as error:
        raise ConfigError(f"{error} (in {name})") from None


def read_resolved(path: Path) -> Recipe:
    """The recipe of a run folder, of this version or an earlier one, every value spelled out."""
    table = read_toml(str(path), "recipes", "recipe")
    try:
        return recipe_from_table({"name": path.stem, **whole_recipe(table)})
    except ConfigError as error:
        raise ConfigError(f"{error} (in {path})") from None


def _read_recipe(name: str, heirs: tuple[str, ...]) -> dict[str, Any]:
    """The tables of a recipe over those of its base; the heirs are the files that led here by their bases."""
    if name in heirs:
        circle = " → ".join([*heirs[heirs.index(name) :], name])
        raise ConfigError(f"Expected a base that needs no other in the end but got a circle, {circle}: leave one out.")
    if parts := composed(name):
        method, stream = parts
        table = _read_stream(read_toml(stream, STREAMS, "stream"))
        own = table.pop("methods", {}).get(method, {})
        table["method"] = {"name": "", **table.get("method", {})}  # of no method: what this one lacks is left out
        table = changed(table, {"method": {**own, "name": method}})
        return {**table, "description": f"{table['description']} by {method}"}
    table = read_toml(name, "recipes", "recipe", f" as the base of {heirs[-1]}" if heirs else "")
    if old := renamed(table):
        names = "; ".join(f"{name} is now {' and '.join(new)}" for name, new in list(old.items())[:3])
        more = f"; {len(old) - 3} more" if len(old) > 3 else ""
        raise ConfigError(
            f"Expected today's names of settings in {name} but {names}{more}: `ictrl migrate {name}` rewrites the file."
        )
    base = table.pop("base", None)
    if base is None:
        return table
    if not isinstance(base, str):
        raise ConfigError(f"Expected base to be a text but got {base!r} in {name}.")
    if base not in recipe_names() and Path(base).suffix == ".toml":
        base = os.path.normpath(Path(name).parent / base)  # from where the file lies, not from where the user stands
    inherited = _read_recipe(base, (*heirs, name))
    return changed({key: value for key, value in inherited.items() if key not in ("name", "description")}, table)


def _read_stream(table: dict[str, Any]) -> dict[str, Any]:
    """A stream's tables over those of its base."""
    base = table.pop("base", None)
    return table if base is None else merged(_read_stream(read_toml(base, SHARED, "base of a stream")), table)
