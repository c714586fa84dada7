"""MNIST and Fashion-MNIST from IDX files."""

import gzip
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from ictrl.config import StreamConfig
from ictrl.data import Dataset, load_dataset
from ictrl.data.readers.idx import read_idx
from ictrl.errors import InputError


def load(root: Path, name: str = "mnist", image_size: int = 32, channels: int = 1) -> Dataset:
    return load_dataset(StreamConfig(dataset=name, root=str(root)), image_size, channels)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("folder", ["MNIST/raw", "MNIST", "."])
def test_images_labels_and_names(official, tmp_path: Path, folder: str, compressed: bool) -> None:
    arrays = official.mnist(folder, compressed)
    dataset = load(tmp_path)
    assert np.array_equal(dataset.images[:, 0, 2:30, 2:30], arrays["train-images-idx3-ubyte"])
    assert np.array_equal(dataset.test_images[:, 0, 2:30, 2:30], arrays["t10k-images-idx3-ubyte"])
    assert np.array_equal(dataset.labels, arrays["train-labels-idx1-ubyte"])
    assert np.array_equal(dataset.test_labels, arrays["t10k-labels-idx1-ubyte"])
    assert dataset.class_names == {digit: str(digit) for digit in range(10)}


def test_fashion_has_its_own_folder_and_names(official, tmp_path: Path) -> None:
    official.mnist("FashionMNIST/raw")
    dataset = load(tmp_path, "fashion-mnist", image_size=16, channels=3)
    assert dataset.images.shape == (30, 3, 16, 16)
    assert dataset.class_names[9] == "ankle boot"
    with pytest.raises(InputError, match="found none of them"):
        load(tmp_path, "mnist")


def test_missing_files_are_named_with_the_places_and_the_remedy(official, tmp_path: Path) -> None:
    official.mnist()
    (tmp_path / "MNIST/raw/t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    message = str(caught.value)
    assert f"t10k-labels-idx1-ubyte is missing in {tmp_path / 'MNIST/raw'}" in message
    assert "run `ictrl data download mnist`" in message
    assert "\n" not in message


def test_the_cache_folder_is_the_root_where_none_is_given(official, tmp_path: Path, monkeypatch) -> None:
    official.mnist()
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path))
    assert len(load_dataset(StreamConfig(dataset="mnist"), 32, 1).images) == 30


def test_truncated(official, tmp_path: Path) -> None:
    official.mnist()
    path = tmp_path / "MNIST/raw/train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    assert str(caught.value) == (
        f"Expected 23536 bytes in {path} (30 × 28 × 28 and 16 of header) but got 23436: download it again."
    )


@pytest.mark.parametrize("cut", [0, 3, 10])
def test_truncated_within_the_header(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes((0, 0, 8, 3, 0, 0, 0, 1, 0, 0))[:cut])
    with pytest.raises(InputError, match=f"in {cut} bytes: it is another file or cut off"):
        read_idx(path, 3)


def test_wrong_magic(official, tmp_path: Path) -> None:
    official.mnist()
    path = tmp_path / "MNIST/raw/train-images-idx3-ubyte"
    path.write_bytes(b"<html>not here</html>")
    with pytest.raises(InputError, match=r"to begin with 00 00 08 03 .* but got 3c 68 74 6d in 21 bytes"):
        load(tmp_path)


def test_images_where_labels_should_be(official, tmp_path: Path) -> None:
    official.mnist()
    folder = tmp_path / "MNIST/raw"
    (folder / "train-labels-idx1-ubyte").write_bytes((folder / "train-images-idx3-ubyte").read_bytes())
    with pytest.raises(InputError, match="to begin with 00 00 08 01"):
        load(tmp_path)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-20], lambda b: b"no gzip", lambda b: b[:200] + b"\x00" * 30 + b[230:]]
)
def test_damaged_gzip(official, tmp_path: Path, damage) -> None:
    official.mnist(compressed=True)
    path = tmp_path / "MNIST/raw/train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"could not read .*train-images-idx3-ubyte\.gz"):
        load(tmp_path)


def test_counts_that_differ(official, tmp_path: Path) -> None:
    official.mnist()
    folder = tmp_path / "MNIST/raw"
    (folder / "train-labels-idx1-ubyte").write_bytes((folder / "t10k-labels-idx1-ubyte").read_bytes())
    with pytest.raises(InputError, match=r"each of the 30 images in .* but got 20 in"):
        load(tmp_path)


def test_labels_that_are_no_classes(official, tmp_path: Path) -> None:
    official.mnist()
    path = tmp_path / "MNIST/raw/train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1] + b"\x0a")
    with pytest.raises(InputError, match=r"Expected labels from 0 to 9 in .* but got 10"):
        load(tmp_path)


def test_a_plain_file_is_preferred_to_its_compressed_twin(official, tmp_path: Path) -> None:
    official.mnist()
    (tmp_path / "MNIST/raw/train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"old"))
    assert len(load(tmp_path).images) == 30


def test_a_gzip_file_is_unpacked_no_further_than_its_header_says(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes((0, 0, 8, 1, 0, 0, 0, 10)) + bytes(300_000_000), 1))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"Expected 18 bytes in .*bomb\.gz .* but got more"):
            read_idx(path, 1)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_header_that_lies_allocates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lie = bytes((0, 0, 8, 3)) + b"\0\0\xff\xff" * 3
    (tmp_path / "lie.gz").write_bytes(gzip.compress(lie + bytes(100)))
    with pytest.raises(
        InputError, match=r"lie\.gz has a header that asks for .* above .* \(ICTRL_MAX_UNPACKED_BYTES\)"
    ):
        read_idx(tmp_path / "lie.gz", 3)
    monkeypatch.setenv("ICTRL_MAX_UNPACKED_BYTES", "9" * 20)
    for name in ("lie.gz", "lie"):
        (tmp_path / name).write_bytes(gzip.compress(lie + bytes(100)) if name == "lie.gz" else lie + bytes(100))
        with pytest.raises(InputError, match="but got 116: download it again"):
            read_idx(tmp_path / name, 3)


def test_tiny_images_are_not_enlarged_beyond_the_limit(official, tmp_path: Path, monkeypatch) -> None:
    official.mnist()
    monkeypatch.setenv("ICTRL_MAX_UNPACKED_BYTES", "1_000_000")
    assert load(tmp_path).images.shape == (30, 1, 32, 32)
    with pytest.raises(InputError, match=r"30 images of 256×256×3, .*ICTRL_MAX_UNPACKED_BYTES"):
        load(tmp_path, image_size=256, channels=3)


def test_a_pipe_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is a pipe, and no regular file"):
        read_idx(tmp_path / "pipe", 3)
