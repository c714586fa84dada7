"""Writing a report: the page, and each figure as a file."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ictrl.errors import InputError
from ictrl.files import is_failure, make_folder, write_atomically
from ictrl.report.catalogue import FIGURES
from ictrl.report.page import RunPage, Shown, draw, render
from ictrl.report.record import RunRecord, read_runs
from ictrl.report.thumbnails import PictureTable


@dataclass(frozen=True)
class Written:
    """What a report came to."""

    page: Path
    figures: list[Path]
    runs: list[RunRecord]


def write_report(runs: Sequence[Path], out: Path | None = None, figures: Path | None = None) -> Written:
    """A page on these runs, and their figures as SVG and PNG files.

    By default one run's page and figures go into its folder; several runs' page goes where one stands, and figures are
    written only if a folder for them is named.
    """
    records = read_runs(runs)
    alone = len(records) == 1
    out = out or (runs[0] if alone else Path()) / "report.html"
    figures = figures or (runs[0] / "figures" if alone else None)
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"Expected --out to be a file that ends in .html but got {out}.")
    pages, comparison = draw(records)
    _write(out, render(pages, comparison).encode())
    contents = {} if figures is None else {figures / name: file for name, file in _files(pages, comparison).items()}
    for path, content in contents.items():
        _write(path, content)
    if alone and figures == runs[0] / "figures":
        _remove_stale(figures, contents)
    return Written(out, list(contents), records)


def _files(pages: list[RunPage], comparison: Shown) -> dict[str, bytes]:
    """Every figure by the name of its file; with several runs, those of each begin with its number and name."""
    files = _named("", comparison)
    for i, page in enumerate(pages, start=1):
        folder = re.sub(r"[^A-Za-z0-9.-]+", "-", page.run.path.resolve().name)
        for shown in page.shown.values():
            files |= _named("" if len(pages) == 1 else f"{i}-{folder}-", shown)
    return files


def _named(begin: str, shown: Shown) -> dict[str, bytes]:
    endings = {name: "png" if isinstance(found, PictureTable) else "svg" for name, found in shown.items()}
    return {f"{begin}{name}.{endings[name]}": found.file for name, found in shown.items()}


def _remove_stale(folder: Path, written: Mapping[Path, bytes]) -> None:
    """Figures that an earlier report wrote and this one has no numbers or pictures for."""
    for name in FIGURES:
        for path in (folder / f"{name}.svg", folder / f"{name}.png"):
            if path not in written:
                path.unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> None:
    try:
        make_folder(path.parent)
        write_atomically(path, content)
    except OSError as error:
        if is_failure(error):
            raise
        raise InputError(f"Expected to write {path} but could not: {error.strerror}.") from None
