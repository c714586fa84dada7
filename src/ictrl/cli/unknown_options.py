"""Options that a command does not have, but that somebody may well type: each is refused with what to type instead.

Those of version 0.1, under their old names; those of another method than the recipe's; and those under the full name
that they have in a recipe file.
"""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from ictrl.config import METHODS, MethodConfig
from ictrl.errors import ConfigError
from ictrl.recipes.legacy import SETTINGS


def check_names(arguments: Sequence[str]) -> None:
    """Refuse options of version 0.1, and those that are spelled as in a recipe file."""
    for typed, setting, negated in _settings(arguments):
        section, _, rest = setting.partition(".")
        if section == "method" and rest in ("", "name"):
            raise ConfigError(
                f"Expected a recipe that names the method but got {typed}: `ictrl recipes` lists those of each method."
            )
        if section in ("method", "run") and rest:
            raise ConfigError(f"Expected {_option(setting, negated)} but got {typed}: options leave out `{section}.`.")
        options = [_option(target, negated) for target in SETTINGS.get(setting, ())]
        if "." in setting and options and _option(setting, negated) not in options:
            raise ConfigError(f"Expected an option of this version but {typed} is now {' and '.join(options)}.")


def check_method(arguments: Sequence[str], recipe: str, method: MethodConfig) -> None:
    """Refuse options of `ictrl run` that other methods have, and the recipe's has not."""
    own = _names(method)
    for typed, setting, _ in _settings(arguments):
        others = [name for name, config in METHODS.items() if setting in _names(config())]
        if setting not in own and others:
            last = others.pop()
            raise ConfigError(
                f"Expected an option of {method.name}, the method of {recipe}, but {typed} is one of "
                f"{', '.join(others)}{' and ' if others else ''}{last}: `ictrl run {recipe} --help` lists those that "
                "there are."
            )


def check_stream_alone(arguments: Sequence[str]) -> None:
    """Refuse options of `ictrl compare` that are settings of a method: recipes of several methods share none."""
    for typed, setting, _ in _settings(arguments):
        if any(setting in _names(config()) for config in METHODS.values()):
            raise ConfigError(
                f"Expected options of the stream, which hold for all recipes, but {typed} is a method's: write it into "
                'a recipe file with base = "…" and compare that.'
            )


def typed_settings(arguments: Sequence[str]) -> list[str]:
    """The settings that options on the command line name."""
    return [setting for _, setting, _ in _settings(arguments)]


def _settings(arguments: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Every option as it was typed, the setting that it names, and whether it switches that off: --memory.no-…"""
    found = []
    for argument in arguments:
        if argument.startswith("--") and len(argument) > 2:
            typed = argument.partition("=")[0]
            section, dot, name = typed.removeprefix("--").replace("-", "_").rpartition(".")
            negated = name.startswith("no_")
            found.append((typed, section + dot + name.removeprefix("no_"), negated))
    return found


def _option(setting: str, negated: bool) -> str:
    """A setting as the command line has it, without the sections that it leaves out."""
    section, dot, name = setting.removeprefix("method.").removeprefix("run.").rpartition(".")
    return "--" + (section + dot + ("no_" if negated else "") + name).replace("_", "-")


def _names(config: Any) -> set[str]:
    """The dotted names of all settings below a dataclass."""
    found = set()
    for field in fields(config):
        value = getattr(config, field.name)
        found |= {f"{field.name}.{inner}" for inner in _names(value)} if is_dataclass(value) else {field.name}
    return found
