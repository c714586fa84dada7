"""The official files of the known datasets, from the web into the cache folder, checked against their known hashes.

Where a dataset comes from stands beside its reader. Files go to a temporary name first, archives into a temporary
folder, and are renamed once they are whole: whoever looks finds a complete dataset or none.
"""

import gzip
import tarfile
import tempfile
import zlib
from pathlib import Path
from shutil import copyfileobj
from typing import Any

from ictrl.data.layout import Layout, Source, cache_folder
from ictrl.data.registry import registered
from ictrl.errors import InputError
from ictrl.files import make_folder
from ictrl.limits import UNPACKED_BYTES


def download(name: str, root: Path | None = None, progress: bool = True) -> Path:
    """Fetch the dataset's files unless they are there, and return the folder that holds them."""
    sources = {known: (entry.source, entry.layouts[0]) for known, entry in registered().items() if entry.source}
    if name not in sources:
        raise InputError(f"Expected a dataset that can be downloaded ({', '.join(sources)}) but got {name!r}.")
    (source, layout), root = sources[name], root or cache_folder()
    folder = root / layout.folders[0]
    if not layout.missing(folder):
        return folder
    try:
        make_folder(root)
        if source.archive is None:
            for file, known_hash in source.hashes.items():
                _fetch(source, file, known_hash, folder, progress)
        else:
            with tempfile.TemporaryDirectory(dir=root, prefix=".download-") as temporary:
                _fetch(source, source.archive, source.hashes[source.archive], Path(temporary), progress)
                _unpack(source, layout, Path(temporary), folder)
    except OSError as error:  # no network, no such address, no room, no permission
        files = ", ".join([*layout.files, *source.extra])
        raise InputError(
            f"Expected to download {name} from {source.base} into {folder} but got: {_reason(error)}. "
            f"Without network, put {files} there by hand{' (or their .gz)' if layout.compressed else ''}."
        ) from None
    return folder


def _fetch(source: Source, file: str, known_hash: str, folder: Path, progress: bool) -> None:
    import pooch

    pooch.get_logger().setLevel("ERROR")  # the bar says the same
    bar = _Bar(file) if progress else None
    try:
        downloader = pooch.HTTPDownloader(progressbar=bar or False, chunk_size=2**16)
        pooch.retrieve(source.base + file, known_hash, fname=file, path=folder, downloader=downloader)
    except ValueError as error:
        if "hash" not in str(error).lower():
            raise
        raise InputError(
            f"Expected {source.base}{file} to have the hash {known_hash} but it has another: "
            "it was damaged on the way, or changed there. Nothing was kept; try again."
        ) from None
    finally:
        if bar:
            bar.close()


def _unpack(source: Source, layout: Layout, temporary: Path, folder: Path) -> None:
    """Take the dataset's files, and nothing else, out of the archive; no path that it names is ever written to."""
    assert source.archive is not None
    unpacked = temporary / "unpacked"
    unpacked.mkdir()
    wanted = {*layout.files, *source.extra}
    try:
        with tarfile.open(temporary / source.archive) as archive:
            for member in archive:
                name = Path(member.name).name
                content = archive.extractfile(member) if member.isreg() and name in wanted else None
                if content is not None:
                    if problem := UNPACKED_BYTES.exceeded(member.size):
                        raise InputError(
                            f"Expected files of a known dataset but {source.archive} has one of {problem}."
                        )
                    with content, (unpacked / name).open("wb") as copy:
                        copyfileobj(content, copy)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, ValueError, OverflowError, zlib.error) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).partition("\n")[0].rstrip(":")
        raise InputError(f"Expected {source.base}{source.archive} to be an archive but got: {reason}.") from None
    missing = layout.missing(unpacked)
    if missing:
        raise InputError(f"Expected {', '.join(missing)} in {source.base}{source.archive} but did not find it there.")
    if folder.exists():  # something of the user's, to be completed but not thrown away
        for file in sorted(unpacked.iterdir()):
            file.replace(folder / file.name)
    else:
        unpacked.rename(folder)


def _reason(error: OSError) -> str:
    """What went wrong in a few words; messages of the network library are long and full of object addresses."""
    if error.strerror:
        return error.strerror
    response = getattr(error, "response", None)
    status = f" {response.status_code}" if response is not None else ""
    return f"{type(error).__name__}{status}"


class _Bar:
    """A progress bar of the kind that pooch drives: it sets `total`, then calls the methods."""

    def __init__(self, label: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns: tuple[Any, ...] = (TextColumn(label), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self.total = 0
        self.bars = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.bars.add_task(label, total=None)
        self.bars.start()

    def update(self, amount: int) -> None:
        self.bars.update(self.task, total=self.total or None, advance=amount)

    def reset(self) -> None:
        self.bars.reset(self.task)

    def close(self) -> None:
        self.bars.stop()
