"""Datasets by name, and how they become known."""

import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ictrl.data
from ictrl.config import StreamConfig
from ictrl.data import (
    Dataset,
    Layout,
    Source,
    dataset_names,
    describe_stream,
    download,
    list_datasets,
    load_dataset,
    locate,
    readers,
    register_dataset,
    registry,
    split_tasks,
)
from ictrl.errors import InputError

OWN = ["digits", "mnist", "fashion-mnist", "cifar10", "letters", "cifar100", "folder", "npz", "hub"]


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "ENTRIES", dict(registry.registered()))


def register_stripes(name: str = "stripes", **facts) -> None:
    """What a script does to bring a dataset of its own, of 6×6 pixels."""
    random = np.random.default_rng(0)

    @register_dataset(name, "noisy stripes", **facts)
    def read_stripes(stream: StreamConfig, image_size: int, channels: int) -> Dataset:
        labels = np.arange(40) % 4
        images = random.integers(0, 50, (40, 1, 6, 6), dtype=np.uint8)
        for label in range(4):
            images[labels == label, :, label] += 200
        return Dataset.from_arrays(stream.dataset, images[:32], labels[:32], images[32:], labels[32:])


def test_names_are_listed_from_small_images_to_large_ones_and_your_own_pictures_last(tmp_path: Path) -> None:
    assert dataset_names() == OWN
    assert [listing.name for listing in list_datasets(tmp_path)] == OWN


def test_what_comes_with_the_package_is_known() -> None:
    assert [name for name in dataset_names() if registry.is_embedded(name)] == ["digits", "letters"]
    assert not registry.is_embedded("nothing of that name")


def test_every_file_of_readers_registers_something() -> None:
    modules = {module.name for module in pkgutil.iter_modules(readers.__path__, "ictrl.data.readers.")}
    assert modules == {entry.reader.__module__ for entry in registry.registered().values() if entry.built_in}


def test_a_new_file_is_found_without_being_listed(tmp_path: Path) -> None:
    (tmp_path / "stars.py").write_text(
        "from ictrl.data import register_dataset\n"
        "@register_dataset('stars', 'stars at night', classes=2, side=16, channels=1)\n"
        "def read_stars(stream, image_size, channels): ...\n"
    )
    code = "import sys; from ictrl.data import dataset_names, readers; readers.__path__.append(sys.argv[1]); "
    command = [sys.executable, "-c", code + "print(*dataset_names())", str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.split() == [OWN[0], "stars", *OWN[1:]]


@pytest.mark.usefixtures("fresh")
def test_a_dataset_of_a_script_is_loaded_at_the_networks_size_and_listed_last(tmp_path: Path) -> None:
    register_stripes(classes=4, images=32, test_images=8, side=6, channels=1)
    stream = StreamConfig(dataset="stripes", tasks=2)
    dataset = load_dataset(stream, image_size=8, channels=3)
    assert dataset.images.shape == (32, 3, 8, 8)
    assert dataset.test_images.shape == (8, 3, 8, 8)
    assert [summary.images for summary in describe_stream(split_tasks(dataset, stream))] == [(8, 8), (8, 8)]
    assert dataset_names() == [*OWN, "stripes"]
    listing = list_datasets(tmp_path)[-1]
    assert (listing.name, listing.description, listing.classes, listing.present) == (
        "stripes",
        "noisy stripes",
        4,
        True,
    )


@pytest.mark.usefixtures("fresh")
def test_a_reader_that_returns_nothing_is_named() -> None:
    register_dataset("mine", "forgotten")(lambda stream, image_size, channels: None)
    with pytest.raises(InputError, match=r"Expected the reader of mine to return a Dataset but got NoneType: make one"):
        load_dataset(StreamConfig(dataset="mine"), 8, 1)


@pytest.mark.usefixtures("fresh")
def test_scripts_datasets_are_listed_in_the_order_of_their_registration(tmp_path: Path) -> None:
    for name in ("zebra", "ant"):
        register_stripes(name)
    assert dataset_names() == [*OWN, "zebra", "ant"]
    assert list_datasets(tmp_path)[-1].present is None  # nothing is known of it


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", ["stripes", "mnist"])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    register_stripes()
    before = dict(registry.ENTRIES)
    with pytest.raises(InputError, match=rf"Expected a new name for a dataset but got '{name}', which .*: choose"):
        register_stripes(name)
    assert before == registry.ENTRIES


def test_a_name_of_the_package_is_refused_even_before_anything_else_is_asked() -> None:
    code = (
        "from ictrl.data import register_dataset\n"
        "try: register_dataset('mnist', 'mine')(lambda stream, image_size, channels: None)\n"
        "except ValueError as error: print(error)\n"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "'mnist', which ictrl.data.readers.idx has registered" in output


@pytest.mark.usefixtures("fresh")
def test_files_of_a_scripts_dataset_are_found_below_the_root(tmp_path: Path) -> None:
    layout = Layout(("mine", "."), ("a.bin", "b.bin"))
    register_stripes(layouts=(layout,))
    stream = StreamConfig(dataset="stripes", root=str(tmp_path))
    assert list_datasets(tmp_path)[-1].present is False
    with pytest.raises(InputError, match=r"Expected a\.bin, b\.bin in .*mine, .* found none of them: put them there"):
        locate(stream)
    (tmp_path / "mine").mkdir()
    for file in layout.files:
        (tmp_path / "mine" / file).touch()
    assert locate(stream) == (tmp_path / "mine", layout)
    assert list_datasets(tmp_path)[-1].present is True
    with pytest.raises(InputError, match=r"can be downloaded \(mnist, .*\) but got 'stripes'"):
        download("stripes", tmp_path)


@pytest.mark.usefixtures("fresh")
def test_a_source_needs_to_say_which_files_it_gives() -> None:
    with pytest.raises(InputError, match="Expected layouts for stripes, which has a source, but got none"):
        register_stripes(source=Source("http://127.0.0.1/", {"a.bin": "md5:0"}))
    assert "stripes" not in dataset_names()


@pytest.mark.parametrize(
    ("name", "guess"), [("cifar-10", " (did you mean 'cifar10'?)"), ("folders", " (did you mean 'folder'?)"), ("x", "")]
)
def test_an_unknown_name_gets_the_known_ones_and_a_guess(name: str, guess: str) -> None:
    with pytest.raises(InputError) as caught:
        load_dataset(StreamConfig(dataset=name), 8, 1)
    assert str(caught.value) == (
        f"Expected stream.dataset to be one of {', '.join(OWN)} but got {name!r}{guess}: "
        "a dataset of your own must be registered first, with ictrl.data.register_dataset."
    )


def test_what_the_room_exports_is_there() -> None:
    assert all(hasattr(ictrl.data, name) for name in ictrl.data.__all__)
    assert len(set(ictrl.data.__all__)) == len(ictrl.data.__all__)


def test_what_is_here_is_found(official, tmp_path: Path) -> None:
    official.mnist()
    official.cifar("cifar10", "python")
    present = {listing.name: listing.present for listing in list_datasets(tmp_path)}
    assert {name for name, here in present.items() if here} == {"digits", "letters", "mnist", "cifar10"}
    assert not present["cifar100"]
    assert present["folder"] is None


@pytest.mark.parametrize("name", ["mnist", "cifar10", "cifar100", "fashion-mnist"])
def test_a_dataset_that_is_not_here_names_the_download(tmp_path: Path, monkeypatch, name: str) -> None:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path))
    with pytest.raises(InputError, match=rf"found none of them: run `ictrl data download {name}`, or put them there"):
        load_dataset(StreamConfig(dataset=name), 32, 3)
    with pytest.raises(InputError, match=rf"run `ictrl data download {name}` and leave out stream\.root, or put"):
        load_dataset(StreamConfig(dataset=name, root=str(tmp_path)), 32, 3)


def test_what_only_a_reader_needs_is_not_imported_before() -> None:
    """`ictrl --help` stays quick."""
    slow = ("PIL", "pooch", "requests", "sklearn", "datasets")
    code = (
        f"import ictrl.data, sys; ictrl.data.dataset_names(); print([name for name in {slow} if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_where_own_data_was_meant_the_error_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="for pictures of your own give --stream.dataset folder"):
        load_dataset(StreamConfig(dataset="cifar10", root=str(tmp_path)), image_size=32, channels=3)
    (tmp_path / "mine.npz").touch()
    with pytest.raises(InputError, match="is a file: for arrays in an .npz file give --stream.dataset npz"):
        load_dataset(StreamConfig(dataset="folder", root=str(tmp_path / "mine.npz")), image_size=32, channels=3)
