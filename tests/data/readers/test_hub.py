"""Hugging Face datasets, with a library of the same shape in the place of theirs."""

import sys
from types import ModuleType

import pytest
import torch
from PIL import Image as Picture

from ictrl.config import StreamConfig
from ictrl.data import load_dataset
from ictrl.data.image_file import FileImages
from ictrl.errors import InputError


class Image:
    """The type of a column of images; the reader knows it by this name."""


class Value:
    pass


class ClassLabel:
    def __init__(self, names: list[str]) -> None:
        self.names = names


class Split:
    """Rows, columns by name, and features, as the library has them."""

    def __init__(self, features: dict, rows: list[dict]) -> None:
        self.features, self.rows = features, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self):
        return iter(self.rows)

    def __getitem__(self, column: str | int) -> list | dict:
        return self.rows[column] if isinstance(column, int) else [row[column] for row in self.rows]

    @property
    def _fingerprint(self) -> str:
        return str([row["id"] for row in self.rows])


def split(count: int, features: dict | None = None, first: int = 0) -> Split:
    """Picture i is of grey level i and class i modulo 2."""
    rows = [{"img": Picture.new("L", (8, 8), i), "label": i % 2, "id": i} for i in range(first, first + count)]
    return Split(features or {"id": Value(), "img": Image(), "label": ClassLabel(["cat", "dog"])}, rows)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch):
    """Puts splits where `datasets.load_dataset` finds them; returns what it was called with."""
    calls: list[tuple] = []

    def serve(splits: object) -> list[tuple]:
        module = ModuleType("datasets")

        def load(name: str, configuration: str | None, cache_dir: str | None) -> object:
            calls.append((name, configuration, cache_dir))
            if isinstance(splits, Exception):
                raise splits
            return splits

        module.load_dataset = load  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "datasets", module)
        return calls

    return serve


def load(**settings):
    return load_dataset(StreamConfig(dataset="hub", hub_name="someone/pets", **settings), 8, 1)


@pytest.mark.parametrize("name", ["test", "validation"])
def test_columns_are_found_by_type_and_the_test_split_by_name(hub, name: str) -> None:
    calls = hub({"train": split(6), name: split(4, first=100)})
    dataset = load(hub_configuration="small", root="somewhere")
    assert calls == [("someone/pets", "small", "somewhere")]
    assert dataset.images[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert dataset.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert dataset.test_images[:, 0, 0, 0].tolist() == [100, 101, 102, 103]
    assert dataset.class_names == {0: "cat", 1: "dog"}


def test_without_a_test_split_a_share_of_each_class_is_held_out(hub) -> None:
    hub({"train": split(20)})
    dataset = load(test_share=0.3)
    assert dataset.test_labels.bincount().tolist() == [3, 3]
    assert dataset.labels.bincount().tolist() == [7, 7]
    pixels = [*dataset.images[:, 0, 0, 0].tolist(), *dataset.test_images[:, 0, 0, 0].tolist()]
    assert sorted(pixels) == list(range(20))


def test_columns_can_be_chosen(hub) -> None:
    features = {"id": Value(), "img": Image(), "other": Image(), "label": Value()}
    hub({"train": split(4, features), "test": split(4, features)})
    assert load(hub_image="img", hub_label="label").class_names == {0: "0", 1: "1"}
    with pytest.raises(
        InputError, match=r"2 of them \(img, other\): choose with stream\.hub_image among id, img, other"
    ):
        load(hub_label="label")
    with pytest.raises(
        InputError, match=r"one column of type ClassLabel .* but got none: choose with stream\.hub_label"
    ):
        load(hub_image="img")
    with pytest.raises(InputError, match="Expected a column 'fine' in someone/pets but got id, img, other, label"):
        load(hub_image="img", hub_label="fine")
    with pytest.raises(InputError, match="Expected pictures in column 'id' of someone/pets but got int"):
        load(hub_image="id", hub_label="label")


def test_an_unlabelled_test_split_is_refused(hub) -> None:
    unlabelled = split(4)
    for row in unlabelled.rows:
        row["label"] = -1
    hub({"train": split(4), "test": unlabelled})
    with pytest.raises(InputError, match="Expected test labels of someone/pets among its 2 classes but got -1"):
        load()


def test_labels_must_be_whole_numbers(hub) -> None:
    words = split(4)
    for row in words.rows:
        row["label"] = "cat"
    hub({"train": words, "test": words})
    with pytest.raises(InputError, match="Expected whole numbers in column 'label' of someone/pets but got 'cat'"):
        load()


def test_a_dataset_without_training_images_is_refused(hub) -> None:
    hub({"test": split(4)})
    with pytest.raises(InputError, match="Expected a split called train in someone/pets but got test"):
        load()


def test_the_librarys_errors_become_a_line(hub) -> None:
    hub(ConnectionError("Couldn't reach the Hub\nmore\nlines"))
    with pytest.raises(InputError) as caught:
        load()
    assert str(caught.value) == "Expected to load 'someone/pets' from the Hub but got: Couldn't reach the Hub"


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install datasets"):
        load()


def test_a_name_is_needed() -> None:
    with pytest.raises(InputError, match=r"Expected stream\.hub_name"):
        load_dataset(StreamConfig(dataset="hub"), 8, 1)


@pytest.mark.parametrize("parts", [("train",), ("train", "test")])
def test_images_in_a_file_are_those_of_memory(
    hub, parts: tuple[str, ...], tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path))
    hub({part: split(20) for part in parts})
    found, expected = (
        load_dataset(StreamConfig(dataset="hub", hub_name="org/pets", cache=cache), 8, 1)
        for cache in ("always", "never")
    )
    assert isinstance(found.images, FileImages)
    for name in ("images", "labels", "test_images", "test_labels"):
        assert torch.equal(getattr(found, name), getattr(expected, name))
    assert found.class_names == expected.class_names


def test_a_picture_that_cannot_be_read_ends_the_decoding(hub, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path))
    broken = split(20)
    broken.rows[7]["img"] = "no picture"
    hub({"train": broken})
    with pytest.raises(InputError, match="Expected pictures in column 'img' of org/pets but got str"):
        load_dataset(StreamConfig(dataset="hub", hub_name="org/pets", cache="always"), 8, 1)
