"""`ictrl migrate`: files of earlier versions under today's names."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ictrl.cli.output import counted, open_console
from ictrl.errors import ConfigError, InputError
from ictrl.files import write_atomically
from ictrl.recipes.legacy import SETTINGS
from ictrl.recipes.migration import migrated_json, migrated_toml

MIGRATE_HELP = """Rewrite recipes, studies and results of an earlier version under today's names. No figure is changed.

Takes TOML files (recipes, studies), JSON files (results, reviews) and folders, which are searched for both. Files that
have today's names already stay as they are. Run folders need no migration: they are read and resumed as they are.

Examples:
  ictrl migrate my-recipe.toml
  ictrl migrate my-studies published-results
"""


@dataclass(frozen=True)
class MigrateCommand:
    files: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="FILE…", help_behavior_hint="")]
    """TOML and JSON files, or folders that hold them"""
    check: bool = False
    """change nothing, only say which files would be changed"""

    def execute(self) -> None:
        if not self.files:
            raise InputError("Expected at least one file or folder but got none: name them after the command.")
        found = [file for path in self.files for file in _files(path)]
        changed = [file for file in found if _migrate(file, self.check)]
        console = open_console()
        for file in changed:
            console.print(f"{'would change' if self.check else 'changed'} {file}", soft_wrap=True)
        rest = len(found) - len(changed)
        console.print(f"{counted(len(changed), 'file', 'files')} of {len(found)}; {rest} had today's names already.")


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for kind in ("*.toml", "*.json") for file in path.rglob(kind))
    if not path.exists():
        raise InputError(f"Expected a file or a folder but {path} is not there.")
    if path.suffix not in (".toml", ".json"):
        raise InputError(f"Expected a .toml or a .json file but got {path}.")
    return [path]


def _migrate(path: Path, check: bool) -> bool:
    """Whether the file was, or would be, changed."""
    try:
        text = path.read_text(encoding="utf-8")
        new = (migrated_toml if path.suffix == ".toml" else migrated_json)(text)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"Expected a file that ictrl reads but {path} could not be migrated: {reason}") from None
    if new != text and not check:
        write_atomically(path, new.encode())
    return new != text


def check_options(arguments: list[str]) -> None:
    """Refuse an option of version 0.1 with its new name."""
    for argument in arguments:
        name = argument.partition("=")[0].removeprefix("--").replace("-", "_")
        if argument.startswith("--") and name in SETTINGS and "." in name:
            options = [_option(target) for target in SETTINGS[name]]
            if f"--{name.replace('_', '-')}" not in options:
                raise ConfigError(f"Expected an option of this version but --{name} is now {' and '.join(options)}.")


def _option(setting: str) -> str:
    """A setting as the command line has it, without the sections that it leaves out."""
    return "--" + setting.removeprefix("method.").removeprefix("run.").replace("_", "-")
