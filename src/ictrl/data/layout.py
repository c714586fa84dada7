"""Where the official files of a dataset may lie below a root folder, and what to say when they do not."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ictrl.errors import InputError


@dataclass(frozen=True)
class Layout:
    """Files that belong together, and the folders below a root in which they are looked for, the usual one first."""

    folders: tuple[str, ...]
    files: tuple[str, ...]
    compressed: bool = False
    """whether each file may also have been left compressed, with .gz at its end"""

    def find(self, root: Path) -> Path | None:
        """The first folder that holds every file."""
        return next((root / folder for folder in self.folders if not self.missing(root / folder)), None)

    def missing(self, folder: Path) -> list[str]:
        """The files that the folder does not hold."""
        return [file for file in self.files if not self.path(folder, file).is_file()]

    def path(self, folder: Path, file: str) -> Path:
        """The file, or its compressed twin where only that is there."""
        twin = folder / f"{file}.gz"
        return twin if self.compressed and not (folder / file).is_file() and twin.is_file() else folder / file


def not_there(name: str, root: Path, layouts: Sequence[Layout], root_given: bool) -> InputError:
    """The error for a dataset that was looked for in vain: what was looked for, where, what is missing, what to do."""
    wanted = [f"{', '.join(x.files)} in {', '.join(str(root / folder) for folder in x.folders)}" for x in layouts]
    found = "found none of them"
    for layout in layouts:
        for folder in layout.folders:
            missing = layout.missing(root / folder)
            if len(missing) < len(layout.files):
                found = f"{', '.join(missing)} is missing in {root / folder}"
    download = f"run `ictrl data download {name}`{' and leave out data.root' if root_given else ''}"
    own = "; for pictures of your own give --data.name folder" if root_given else ""
    return InputError(f"Expected {' or else '.join(wanted)} but {found}: {download}, or put them there{own}.")
