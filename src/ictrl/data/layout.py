"""The official files of a dataset: where they may lie below a root folder, and where they are downloaded from."""

import os
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
    """whether each file may also be there in compressed form, with .gz at the end of its name"""

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


@dataclass(frozen=True)
class Source:
    """Where a dataset is downloaded from: addresses and hashes of its files, or of the one archive that holds them."""

    base: str
    """address that the names of the files are appended to"""
    hashes: dict[str, str]
    """known hash of each file to fetch, such as "md5:…", by its name"""
    extra: tuple[str, ...] = ()
    """files of the archive that are useful but not required, such as names of classes"""

    @property
    def archive(self) -> str | None:
        """The name of the archive, or None if the files are fetched one by one."""
        return next((name for name in self.hashes if name.endswith(".tar.gz")), None)


def cache_folder() -> Path:
    """Where downloads go and datasets are looked for: the variable ICTRL_DATA, else the platform's cache folder."""
    given = os.environ.get("ICTRL_DATA")
    if given:
        return Path(given).expanduser()
    import pooch

    return Path(pooch.os_cache("ictrl"))


def files_not_found(
    name: str, root: Path, layouts: Sequence[Layout], root_given: bool, downloadable: bool
) -> InputError:
    """The error for a dataset whose files are absent: what was looked for, where, what is missing, what to do."""
    wanted = [f"{', '.join(x.files)} in {', '.join(str(root / folder) for folder in x.folders)}" for x in layouts]
    found = "found none of them"
    for layout in layouts:
        for folder in layout.folders:
            missing = layout.missing(root / folder)
            if len(missing) < len(layout.files):
                found = f"{', '.join(missing)} is missing in {root / folder}"
    leave_out = " and leave out stream.root" if root_given else ""
    remedy = f"run `ictrl data download {name}`{leave_out}, or put them there" if downloadable else "put them there"
    own = "; for pictures of your own give --stream.dataset folder" if root_given else ""
    return InputError(f"Expected {' or else '.join(wanted)} but {found}: {remedy}{own}.")
