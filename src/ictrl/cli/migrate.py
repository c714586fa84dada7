"""`ictrl migrate`: files of earlier versions under today's names."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from ictrl.cli.options import Flag
from ictrl.cli.output import counted, open_console
from ictrl.errors import InputError
from ictrl.files import write_atomically
from ictrl.limits import RECIPE_BYTES, TEXT_BYTES, read_regular
from ictrl.recipes.migration import migrated_json, migrated_toml

MIGRATE_HELP = """Rewrite recipes, studies and results of an earlier version under today's names. No figure is changed.

Takes TOML files (recipes, studies), JSON files (results, reviews), and folders, which are searched for both. Comments
stay with their settings. Files that have today's names stay as they are. Run folders need no migration and are left
alone: they are read and resumed as they are.

Examples:
  ictrl migrate my-recipe.toml
  ictrl migrate my-studies published-results --check
"""


@dataclass(frozen=True)
class MigrateCommand:
    """Old files under today's names."""

    files: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="FILE…", help_behavior_hint="")]
    """TOML and JSON files, or folders that hold them"""
    check: Flag = False
    """change nothing, only say which files would be changed"""

    def execute(self) -> None:
        """Files that cannot be migrated are named once the others are done."""
        if not self.files:
            raise InputError("Expected at least one file or folder but got none: name them after the command.")
        found = Found.below(self.files)
        changed = [file for file, (old, new) in found.texts.items() if new != old]
        for file in changed:
            if not self.check:
                write_atomically(file, found.texts[file][1].encode())
            verb = "would change" if self.check else "changed"
            open_console().print(f"{verb} {file}", soft_wrap=True)
        said = {
            counted(len(changed), "file", "files") + (" would be changed" if self.check else " changed"): True,
            counted(same := len(found.texts) - len(changed), "has", "have") + " today's names": same,
            counted(len(found.runs), "run folder is", "run folders are") + " read as before": found.runs,
            counted(len(found.others), "is none", "are none") + " of ictrl's": found.others,
        }
        open_console().print(", ".join(part for part, there in said.items() if there) + ".")
        if found.refused:
            reasons = ", ".join(f"{file} ({reason})" for file, reason in found.refused.items())
            count = f"{len(found.refused)} of {len(found.refused) + len(found.texts)}"
            raise InputError(f"Expected recipes, studies and results but could not read {count}: {reasons}.")


@dataclass
class Found:
    """What there is to migrate: old and new text of every file, and what is passed over."""

    texts: dict[Path, tuple[str, str]] = field(default_factory=dict)
    runs: list[Path] = field(default_factory=list)
    """run folders, which are read as they are"""
    others: list[Path] = field(default_factory=list)
    """JSON in a folder that is none of ours"""
    refused: dict[Path, str] = field(default_factory=dict)
    """files that cannot be read, each with the reason"""

    @classmethod
    def below(cls, paths: Sequence[Path]) -> "Found":
        """Files that were named, and those in folders that were named."""
        found = cls()
        for path in paths:
            if path.is_dir():
                found.search(path)
            elif not path.exists():
                raise InputError(f"Expected a file or a folder but {path} is not there.")
            elif path.suffix not in (".toml", ".json"):
                raise InputError(f"Expected a .toml or a .json file but got {path}.")
            else:
                found.add(path, named=True)
        return found

    def search(self, folder: Path) -> None:
        """Add the TOML and JSON files of a folder and of those in it."""
        if (folder / "config.toml").is_file() and (folder / "data.json").is_file():
            self.runs.append(folder)
            return
        for entry in sorted(folder.iterdir()):
            if entry.is_dir():
                self.search(entry)
            elif entry.suffix in (".toml", ".json"):
                self.add(entry, named=False)

    def read(self, path: Path) -> str:
        """The text of a regular file within the limits."""
        try:
            return read_regular(path, RECIPE_BYTES if path.suffix == ".toml" else TEXT_BYTES).decode()
        except InputError as error:
            raise OSError(str(error)) from None

    def add(self, path: Path, named: bool) -> None:
        """Translate a file; one that is none of ours is refused if it was named, and left alone in a folder."""
        try:
            text = self.read(path)
            self.texts[path] = text, (migrated_toml if path.suffix == ".toml" else migrated_json)(text)
        except InputError:
            if named:
                self.refused[path] = "neither results nor a review that ictrl wrote"
            else:
                self.others.append(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self.refused[path] = f"{type(error).__name__} {error}".splitlines()[0].rstrip(".")
