"""Any image dataset of the Hugging Face Hub, by name, through their `datasets` library (the extra `hub`).

The columns of images and labels are recognised by their types. The test images are the split called test, else the
one called validation; without either, some training images of each class are held out.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ictrl.config import StreamConfig
from ictrl.data.dataset import Dataset
from ictrl.data.decoded import Decoded, decoded, stays_in_file
from ictrl.data.patience import check_stop
from ictrl.data.picture_source import Pictures
from ictrl.data.pictures import explained, from_picture
from ictrl.data.registry import register_dataset
from ictrl.data.shelf import Shelf, are_held_out, held_out_count, is_held_out, new_shelf
from ictrl.errors import InputError
from ictrl.shapes import UInt8

TRAIN, TESTS = "train", ("test", "validation")


@register_dataset("hub", "a Hugging Face dataset: --stream.hub-name NAME (pip install datasets)", requires="datasets")
def read_hub(stream: StreamConfig, image_size: int, channels: int) -> Dataset:
    """The dataset `stream.hub_name`, downloaded unless it is in the library's cache already."""
    name = stream.hub_name
    if not name:
        raise InputError(
            "Expected stream.hub_name, the dataset's name on the Hub, for stream.dataset hub but got none: "
            "give --stream.hub-name."
        )
    try:
        import datasets
    except ImportError:
        raise InputError("Expected the `datasets` library for stream.dataset hub: pip install datasets.") from None
    cache = str(Path(stream.root).expanduser()) if stream.root else None
    try:
        splits = datasets.load_dataset(name, stream.hub_configuration, cache_dir=cache)
    except Exception as error:  # absent, private, no network, no such configuration: the library has its own errors
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(f"Expected to load {name!r} from the Hub but got: {lines[0]}") from None
    columns = stream.hub_image, stream.hub_label
    return from_splits(name, splits, image_size, channels, stream.test_share, *columns, stream.cache)


def from_splits(
    name: str,
    splits: Mapping[str, Any],
    image_size: int,
    channels: int,
    test_share: float,
    image: str | None = None,
    label: str | None = None,
    cache: Literal["auto", "always", "never"] = "never",
) -> Dataset:
    """A dataset from the splits that the library returns, each of which has `features`, a length, columns and rows."""
    if TRAIN not in splits:
        raise InputError(f"Expected a split called {TRAIN} in {name} but got {', '.join(splits)}.")
    features = splits[TRAIN].features
    image_column = image or _only_column(name, features, "Image", "hub_image")
    label_column = label or _only_column(name, features, "ClassLabel", "hub_label")
    for column in (image_column, label_column):
        if column not in features:
            raise InputError(f"Expected a column {column!r} in {name} but got {', '.join(features)}.")

    test_split = next((split for split in TESTS if split in splits), None)
    names = dict(enumerate(getattr(features[label_column], "names", ())))
    used = [splits[TRAIN], *([splits[test_split]] if test_split else [])]
    if stays_in_file(cache, sum(map(len, used)) * channels * image_size**2):
        found = _decoded(name, used, image_size, channels, image_column, label_column)
        held = torch.from_numpy(found.test) if test_split else are_held_out(found.labels, test_share)
        class_names = {
            number: str(names.get(number, number)) for number in found.labels[: len(used[0])].unique().tolist()
        }
        return Dataset(name, *found.part(~held), *found.part(held), class_names)
    counts = Counter(splits[TRAIN][label_column])
    held_out = 0 if test_split else sum(held_out_count(count, test_share) for count in counts.values())
    train = new_shelf(len(splits[TRAIN]) - held_out, image_size, channels)
    test = new_shelf(len(splits[test_split]) if test_split else held_out, image_size, channels)
    seen: Counter[int] = Counter()
    for row in splits[TRAIN]:
        row_label = _whole(name, label_column, row[label_column])
        to_test = test_split is None and is_held_out(seen[row_label], test_share)
        seen[row_label] += 1
        _add(test if to_test else train, name, image_column, row[image_column], row_label, image_size, channels)
    for row in splits[test_split] if test_split else ():
        row_label = _whole(name, label_column, row[label_column])
        _add(test, name, image_column, row[image_column], row_label, image_size, channels)
    class_names = {number: str(names.get(number, number)) for number in sorted(seen)}
    return Dataset(name, *train.contents(), *test.contents(), class_names)


def _decoded(
    name: str, splits: list[Any], image_size: int, channels: int, image_column: str, label_column: str
) -> Decoded:
    """The pictures of a training split, and of a test split if there is one, in a file."""
    counts = [len(split) for split in splits]
    labels = [_whole(name, label_column, label) for split in splits for label in split[label_column]]

    def read(number: int) -> UInt8[Tensor, "c h w"]:
        row = splits[0][number] if number < counts[0] else splits[1][number - counts[0]]
        return _fitted(name, image_column, row[image_column], image_size, channels)

    pictures = Pictures(
        where=name,
        labels=np.array(labels, np.int64),
        test=np.arange(sum(counts)) >= counts[0],
        image_size=image_size,
        channels=channels,
        read=read,
        # the library's own digest of what a split is made of
        described=lambda: [*(str(split._fingerprint) for split in splits), image_column, label_column, str(counts)],
        by_threads=False,
        all_or_none=True,
    )
    return decoded(pictures, name)


def _add(shelf: Shelf, name: str, column: str, picture: Any, label: int, image_size: int, channels: int) -> None:
    shelf.add(_fitted(name, column, picture, image_size, channels), label)


def _fitted(name: str, column: str, picture: Any, image_size: int, channels: int) -> UInt8[Tensor, "c h w"]:
    if not hasattr(picture, "convert"):
        raise InputError(f"Expected pictures in column {column!r} of {name} but got {type(picture).__name__}.")
    check_stop()
    with explained(f"one in column {column!r} of {name}"):
        return from_picture(picture, image_size, channels)


def _only_column(name: str, features: Mapping[str, Any], kind: str, setting: str) -> str:
    """The only column of that type. Types are recognised by their names, so that the library need not be imported."""
    columns = [column for column, feature in features.items() if type(feature).__name__ == kind]
    if len(columns) != 1:
        found = f"{len(columns)} of them ({', '.join(columns)})" if columns else "none"
        raise InputError(
            f"Expected one column of type {kind} in {name} but got {found}: "
            f"choose with stream.{setting} among {', '.join(features)}."
        )
    return columns[0]


def _whole(name: str, column: str, value: Any) -> int:
    if type(value) is not int:
        raise InputError(f"Expected whole numbers in column {column!r} of {name} but got {value!r}.")
    return value
