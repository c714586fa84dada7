"""The official files of the known datasets, from the web into the cache folder, checked against their known hashes.

Files go to a temporary name first, archives into a temporary folder, and are renamed once they are whole: whoever looks
finds a complete dataset or none.
"""

import os
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj
from typing import Any

from ictrl.data.readers import cifar, idx
from ictrl.data.layout import Layout
from ictrl.errors import InputError
from ictrl.files import make_folder


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from: addresses and hashes of its files or of the one archive that holds them."""

    base: str
    hashes: dict[str, str]
    layout: Layout
    extra: tuple[str, ...] = ()
    """files of the archive that are useful but not needed: names of classes"""

    @property
    def archive(self) -> str | None:
        """The archive's name, if it is one."""
        return next((name for name in self.hashes if name.endswith(".tar.gz")), None)


SOURCES = {
    "mnist": Source(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {
            "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
        },
        idx.LAYOUTS["mnist"],
    ),
    "fashion-mnist": Source(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        {
            "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
        },
        idx.LAYOUTS["fashion-mnist"],
    ),
    "cifar10": Source(
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
        cifar.BINARY["cifar10"],
        extra=("batches.meta.txt",),
    ),
    "cifar100": Source(
        "https://www.cs.toronto.edu/~kriz/",
        {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"},
        cifar.BINARY["cifar100"],
        extra=("fine_label_names.txt",),
    ),
}


def cache_folder() -> Path:
    """Where downloads go, and where datasets are looked for: the variable ICTRL_DATA, else the platform's cache."""
    given = os.environ.get("ICTRL_DATA")
    if given:
        return Path(given).expanduser()
    import pooch

    return Path(pooch.os_cache("ictrl"))


def download(name: str, root: Path | None = None, progress: bool = True) -> Path:
    """Fetch what is not there yet; returns the folder that holds the dataset's files."""
    if name not in SOURCES:
        raise InputError(f"Expected a dataset that can be downloaded ({', '.join(SOURCES)}) but got {name!r}.")
    source, root = SOURCES[name], root or cache_folder()
    folder = root / source.layout.folders[0]
    if not source.layout.missing(folder):
        return folder
    try:
        make_folder(root)
        if source.archive is None:
            for file, known_hash in source.hashes.items():
                _fetch(source, file, known_hash, folder, progress)
        else:
            with tempfile.TemporaryDirectory(dir=root, prefix=".download-") as temporary:
                _fetch(source, source.archive, source.hashes[source.archive], Path(temporary), progress)
                _unpack(source, Path(temporary), folder)
    except OSError as error:  # no network, no such address, no room, no permission
        files = ", ".join([*source.layout.files, *source.extra])
        raise InputError(
            f"Expected to download {name} from {source.base} into {folder} but got: {_reason(error)}. "
            f"Without network, put {files} there by hand{' (or their .gz)' if source.layout.compressed else ''}."
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
            "it was damaged on its way, or changed there. Nothing was kept; try again."
        ) from None
    finally:
        if bar:
            bar.close()


def _unpack(source: Source, temporary: Path, folder: Path) -> None:
    """The dataset's files out of the archive, and nothing else: no path that the archive names is ever written to."""
    assert source.archive is not None
    unpacked = temporary / "unpacked"
    unpacked.mkdir()
    wanted = {*source.layout.files, *source.extra}
    with tarfile.open(temporary / source.archive) as archive:
        for member in archive:
            name = Path(member.name).name
            content = archive.extractfile(member) if member.isreg() and name in wanted else None
            if content is not None:
                with content, (unpacked / name).open("wb") as copy:
                    copyfileobj(content, copy)
    missing = source.layout.missing(unpacked)
    if missing:
        raise InputError(f"Expected {', '.join(missing)} in {source.base}{source.archive} but did not find it there.")
    if folder.exists():  # something of the user's, to be completed but not thrown away
        for file in sorted(unpacked.iterdir()):
            file.replace(folder / file.name)
    else:
        unpacked.rename(folder)


def _reason(error: OSError) -> str:
    """A line for what went wrong; those of the network library are long and full of object addresses."""
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
