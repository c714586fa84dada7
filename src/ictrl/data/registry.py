"""Datasets by name: what there is, whether it is here, and how it is read.

A dataset is registered where its reader is defined, and nowhere else. Every file in `readers/` is imported when the
registry is first asked, so that a new one is found without being listed; a script registers its own in the same way.
"""

import difflib
import functools
import importlib
import importlib.util
import math
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ictrl.config import StreamConfig
from ictrl.data import readers
from ictrl.data.dataset import Dataset
from ictrl.data.layout import Layout, Source, cache_folder, files_not_found
from ictrl.data.resize import fit
from ictrl.errors import InputError

Reader = Callable[[StreamConfig, int, int], Dataset]
"""Reads a dataset, given the stream's settings and the side and channels of the images that the network takes. A reader
of pictures of many sizes brings them to that size; one whose images are of one size may return them as they are."""


@dataclass(frozen=True)
class Listing:
    """A line of `ictrl data list`. Numbers are None where they depend on what is given."""

    name: str
    description: str
    classes: int | None = None
    images: int | None = None
    test_images: int | None = None
    side: int | None = None
    channels: int | None = None
    present: bool | None = None
    """whether it can be read now; None where that depends on what is given"""


@dataclass(frozen=True)
class Entry:
    """A registered dataset: what is said about it, what reads it, and its files if it has official ones."""

    listing: Listing
    reader: Reader
    layouts: tuple[Layout, ...] = ()
    source: Source | None = None
    requires: str | None = None

    @property
    def built_in(self) -> bool:
        """Whether the reader is one of the package's own."""
        return self.reader.__module__.startswith(f"{readers.__name__}.")

    @property
    def embedded(self) -> bool:
        """Whether it comes with the package: no files, nothing to give. What a script brings may have both."""
        return self.built_in and not self.layouts and self.listing.classes is not None

    def find(self, root: Path) -> tuple[Path, Layout] | None:
        """The folder below the root that holds the official files, and which of the layouts they have."""
        found = ((layout.find(root), layout) for layout in self.layouts)
        return next(((folder, layout) for folder, layout in found if folder is not None), None)

    def present(self, root: Path) -> bool | None:
        """Whether the dataset can be read with that root; None where it depends on what is given."""
        if self.layouts:
            return self.find(root) is not None
        if self.requires and importlib.util.find_spec(self.requires) is None:
            return False
        return None if self.listing.classes is None else True


ENTRIES: dict[str, Entry] = {}
"""What has been registered so far; `registered` imports the package's own readers first."""


def register_dataset(
    name: str,
    description: str,
    *,
    classes: int | None = None,
    images: int | None = None,
    test_images: int | None = None,
    side: int | None = None,
    channels: int | None = None,
    layouts: tuple[Layout, ...] = (),
    source: Source | None = None,
    requires: str | None = None,
) -> Callable[[Reader], Reader]:
    """A decorator that makes a reader known by a name, which `StreamConfig(dataset=name)` then chooses.

    The numbers of classes, training images and test images, and the images' side and channels, are for
    `ictrl data list`; leave out what depends on what the user gives. `layouts` are the official files, the version that
    is downloaded first, which the reader finds with `locate`; `source` is where they are downloaded from; `requires`
    is a package that the reader imports and that may not be installed.

        @register_dataset("stripes", "noisy stripes", classes=4)
        def read_stripes(stream, image_size, channels):
            return Dataset.from_arrays("stripes", images, labels, test_images, test_labels)
    """

    def register(reader: Reader) -> Reader:
        entry = Entry(
            listing=Listing(name, description, classes, images, test_images, side, channels),
            reader=reader,
            layouts=layouts,
            source=source,
            requires=requires,
        )
        if not entry.built_in:
            _import_readers()  # so that a name they use is refused here, not when they are imported
        if name in ENTRIES:
            raise InputError(
                f"Expected a new name for a dataset but got {name!r}, which {ENTRIES[name].reader.__module__} has "
                "registered: choose another."
            )
        if source is not None and not layouts:
            raise InputError(f"Expected layouts for {name}, which has a source, but got none: say what is downloaded.")
        ENTRIES[name] = entry
        return reader

    return register


def registered() -> dict[str, Entry]:
    """Every dataset by name: those with the smallest images first, then your own pictures, then what scripts added."""
    _import_readers()
    return dict(sorted(ENTRIES.items(), key=lambda item: _place(item[1])))


def dataset_names() -> list[str]:
    """Every name that `load_dataset` knows, in the order in which they are listed."""
    return list(registered())


def is_embedded(name: str) -> bool:
    """Whether a dataset comes with the package, so that no root is asked for or taken."""
    known = registered()
    return name in known and known[name].embedded


def list_datasets(root: Path | None = None) -> list[Listing]:
    """Every known dataset, and whether its files lie below the root (by default the cache folder)."""
    root = root or cache_folder()
    return [replace(entry.listing, present=entry.present(root)) for entry in registered().values()]


def load_dataset(stream: StreamConfig | str, image_size: int, channels: int) -> Dataset:
    """The dataset that the settings name, or that of a name, with the side and channels that a network expects."""
    stream = StreamConfig(dataset=stream) if isinstance(stream, str) else stream
    dataset = _entry(stream.dataset).reader(stream, image_size, channels)
    if not isinstance(dataset, Dataset):
        raise InputError(
            f"Expected the reader of {stream.dataset} to return a Dataset but got {type(dataset).__name__}: "
            "make one with Dataset.from_arrays."
        )
    images, test_images = (fit(part, image_size, channels) for part in (dataset.images, dataset.test_images))
    if images is dataset.images and test_images is dataset.test_images:
        return dataset
    return replace(dataset, images=images, test_images=test_images)


def locate(stream: StreamConfig) -> tuple[Path, Layout]:
    """The folder that holds the official files of the stream's dataset, and which of its layouts they have."""
    entry = _entry(stream.dataset)
    root = Path(stream.root).expanduser() if stream.root else cache_folder()
    found = entry.find(root)
    if found is None:
        raise files_not_found(
            stream.dataset,
            root,
            entry.layouts,
            root_given=stream.root is not None,
            downloadable=entry.source is not None,
        )
    return found


def required_root(stream: StreamConfig, what: str) -> Path:
    """The path in `stream.root`, for a dataset that cannot be read without; `what` it should be is for the error."""
    if not stream.root:
        raise InputError(
            f"Expected stream.root to be {what} for stream.dataset {stream.dataset} but got none: give --stream.root."
        )
    return Path(stream.root).expanduser()


def _entry(name: str) -> Entry:
    known = registered()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        guess = f" (did you mean {close[0]!r}?)" if close else ""
        raise InputError(
            f"Expected stream.dataset to be one of {', '.join(known)} but got {name!r}{guess}: "
            "a dataset of your own must be registered first, with ictrl.data.register_dataset."
        )
    return known[name]


@functools.cache
def _import_readers() -> None:
    for module in pkgutil.iter_modules(readers.__path__, f"{readers.__name__}."):
        importlib.import_module(module.name)


def _place(entry: Entry) -> tuple[bool, float, float, float, bool]:
    """A key that sorts small images before large ones, unknown sizes behind them, and what must be installed last.

    Datasets of scripts follow in the order in which they were registered.
    """
    if not entry.built_in:
        return (True, 0.0, 0.0, 0.0, False)
    sizes = (entry.listing.side, entry.listing.channels, entry.listing.classes)
    side, channels, classes = (math.inf if size is None else float(size) for size in sizes)
    return (False, side, channels, classes, entry.requires is not None)
