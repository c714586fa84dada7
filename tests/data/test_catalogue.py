"""Datasets by name."""

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import torch

from ictrl.config import DataConfig
from ictrl.data import Dataset, list_datasets, load_dataset
from ictrl.errors import InputError


def test_every_name_of_the_settings_is_listed_once(tmp_path: Path) -> None:
    names = get_args(DataConfig.__annotations__["name"])
    assert [listing.name for listing in list_datasets(tmp_path)] == list(names)


def test_what_is_here_is_found(official, tmp_path: Path) -> None:
    official.mnist()
    official.cifar("cifar10", "python")
    present = {listing.name: listing.present for listing in list_datasets(tmp_path)}
    assert {name for name, here in present.items() if here} == {"digits", "mnist", "cifar10"}
    assert not present["cifar100"]
    assert present["folder"] is None


def test_digits_are_as_listed_and_need_nothing() -> None:
    listing = list_datasets()[0]
    dataset = load_dataset(DataConfig(), 16, 1)
    assert (len(dataset.images), len(dataset.test_images)) == (listing.images, listing.test_images)
    assert len(dataset.class_names) == listing.classes
    assert dataset.images.shape[1:] == (1, 16, 16)
    assert int(dataset.images.max()) == 255
    colour = load_dataset(DataConfig(), 16, 3)
    assert torch.equal(colour.images[:, 1:2], dataset.images)


def test_a_class_without_test_images_is_refused() -> None:
    image = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    with pytest.raises(
        InputError, match=r"Expected test images of each of the 2 classes of toy but got none of 1 \(b\)"
    ):
        Dataset("toy", image, torch.tensor([0, 1]), image, torch.tensor([0, 0]), {0: "a", 1: "b"})


@pytest.mark.parametrize("name", ["mnist", "cifar10", "cifar100", "fashion-mnist"])
def test_a_dataset_that_is_not_here_names_the_download(tmp_path: Path, monkeypatch, name: str) -> None:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path))
    with pytest.raises(InputError, match=rf"found none of them: run `ictrl data download {name}`, or put them there"):
        load_dataset(DataConfig(name=name), 32, 3)
    with pytest.raises(InputError, match=rf"run `ictrl data download {name}` and leave out data\.root, or put"):
        load_dataset(DataConfig(name=name, root=str(tmp_path)), 32, 3)


def test_what_only_a_reader_needs_is_not_imported_before() -> None:
    """`ictrl --help` stays quick."""
    slow = ("PIL", "pooch", "requests", "sklearn", "datasets")
    code = f"import ictrl.data, sys; print([name for name in {slow} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_root_for_the_embedded_digits_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Expected no data.root for the embedded digits .* the recipe pictures"):
        load_dataset(DataConfig(name="digits", root=str(tmp_path)), image_size=8, channels=1)


def test_where_own_data_was_meant_the_error_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="for pictures of your own give --data.name folder"):
        load_dataset(DataConfig(name="cifar10", root=str(tmp_path)), image_size=32, channels=3)
    (tmp_path / "mine.npz").touch()
    with pytest.raises(InputError, match="is a file: for arrays in an .npz file give --data.name npz"):
        load_dataset(DataConfig(name="folder", root=str(tmp_path / "mine.npz")), image_size=32, channels=3)
