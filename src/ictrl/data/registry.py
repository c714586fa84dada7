"""Datasets by name: what there is, whether it is here, and how it is read."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from ictrl.config import DataConfig
from ictrl.data.readers import cifar, idx
from ictrl.data.dataset import Dataset
from ictrl.data.download import cache_folder
from ictrl.data.layout import not_there
from ictrl.errors import InputError


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


def list_datasets(root: Path | None = None) -> list[Listing]:
    """Every name that `load_dataset` knows, and whether its files lie below the root (by default the cache folder)."""
    root = root or cache_folder()
    here = {name: _find(name, root) is not None for name in (*idx.LAYOUTS, *cifar.BINARY)}
    hub = None if importlib.util.find_spec("datasets") else False
    return [
        Listing("digits", "handwritten digits that scikit-learn carries", 10, 1433, 364, 8, 1, True),
        Listing("mnist", "handwritten digits", 10, 60000, 10000, 28, 1, here["mnist"]),
        Listing("fashion-mnist", "articles of clothing", 10, 60000, 10000, 28, 1, here["fashion-mnist"]),
        Listing("cifar10", "small photographs of animals and vehicles", 10, 50000, 10000, 32, 3, here["cifar10"]),
        Listing("cifar100", "small photographs of a hundred things", 100, 50000, 10000, 32, 3, here["cifar100"]),
        Listing("folder", "your own pictures, a folder a class: ictrl run pictures --data.root FOLDER"),
        Listing("npz", "your own arrays: ictrl run pictures --data.name npz --data.root FILE.npz"),
        Listing("hub", "a Hugging Face dataset: --data.hub-name NAME (pip install datasets)", present=hub),
    ]


def load_dataset(data: DataConfig, image_size: int, channels: int) -> Dataset:
    """The dataset that the settings name, at the size and with the channels a network expects."""
    if data.name == "digits":
        from ictrl.data.readers.digits import read_digits

        if data.root:
            raise InputError(
                f"Expected no data.root for the embedded digits but got {data.root}: for pictures of your own take the "
                "recipe pictures, or give --data.name folder as well."
            )
        return read_digits(image_size, channels)
    if data.name == "folder":
        from ictrl.data.readers.folder import read_folder

        return read_folder(_own(data, "a folder of pictures"), data.test_share, image_size, channels)
    if data.name == "npz":
        from ictrl.data.readers.npz import read_npz

        return read_npz(_own(data, "an .npz file"), image_size, channels)
    if data.name == "hub":
        from ictrl.data.readers.hub import read_hub

        if not data.hub_name:
            raise InputError("Expected data.hub_name, the dataset's name on the Hub, for data.name hub but got none.")
        cache = Path(data.root).expanduser() if data.root else None
        own = (data.hub_configuration, data.hub_image, data.hub_label, cache)
        return read_hub(data.hub_name, image_size, channels, data.test_share, *own)
    return _official(data.name, data.root, image_size, channels)


def _official(name: str, given: str | None, image_size: int, channels: int) -> Dataset:
    root = Path(given).expanduser() if given else cache_folder()
    found = _find(name, root)
    if name in idx.LAYOUTS:
        if found is None:
            raise not_there(name, root, [idx.LAYOUTS[name]], root_given=given is not None)
        return idx.read_idx_dataset(name, found, image_size, channels)
    if found is None:
        raise not_there(name, root, [cifar.BINARY[name], cifar.PYTHON[name]], root_given=given is not None)
    if cifar.BINARY[name].missing(found):
        return cifar.read_cifar_python(name, found, image_size, channels)
    return cifar.read_cifar_binary(name, found, image_size, channels)


def _find(name: str, root: Path) -> Path | None:
    """The folder that holds the dataset's official files, of whichever version."""
    layouts = [idx.LAYOUTS[name]] if name in idx.LAYOUTS else [cifar.BINARY[name], cifar.PYTHON[name]]
    return next((folder for layout in layouts if (folder := layout.find(root)) is not None), None)


def _own(data: DataConfig, what: str) -> Path:
    if not data.root:
        raise InputError(f"Expected data.root to be {what} for data.name {data.name} but got none: give --data.root.")
    return Path(data.root).expanduser()
