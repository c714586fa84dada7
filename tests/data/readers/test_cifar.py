"""CIFAR-10 and CIFAR-100, binary and pickled, and pickles that would run code."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from ictrl.config import StreamConfig
from ictrl.data import Dataset, load_dataset
from ictrl.errors import InputError


def load(root: Path, name: str, image_size: int = 32, channels: int = 3) -> Dataset:
    return load_dataset(StreamConfig(dataset=name, root=str(root)), image_size, channels)


@pytest.mark.parametrize("version", ["binary", "python"])
@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_images_and_labels(official, tmp_path: Path, name: str, version: str) -> None:
    pixels, labels, test_pixels = official.cifar(name, version)
    dataset = load(tmp_path, name)
    assert np.array_equal(dataset.images.flatten(1), pixels)
    assert np.array_equal(dataset.labels, labels)
    assert np.array_equal(dataset.test_images.flatten(1), test_pixels)
    assert dataset.test_labels.tolist() == list(range(len(test_pixels)))
    assert dataset.images.shape[1:] == (3, 32, 32)
    assert dataset.class_names[3] == ("cat" if name == "cifar10" else "3")


def test_the_folder_itself_serves_as_root(official, tmp_path: Path) -> None:
    official.cifar("cifar10", "binary")
    assert len(load(tmp_path / "cifar-10-batches-bin", "cifar10", 16, 1).images) == 20


@pytest.mark.parametrize(
    ("name", "version", "file", "content"),
    [
        ("cifar10", "binary", "cifar-10-batches-bin/batches.meta.txt", "\n".join("abcdefghij") + "\n\n"),
        ("cifar100", "binary", "cifar-100-binary/fine_label_names.txt", "\n".join(f"n{i}" for i in range(100))),
        ("cifar10", "python", "cifar-10-batches-py/batches.meta", {b"label_names": [c.encode() for c in "abcdefghij"]}),
        ("cifar100", "python", "cifar-100-python/meta", {b"fine_label_names": [b"n%d" % i for i in range(100)]}),
    ],
)
def test_names_of_classes_come_from_the_files(official, tmp_path: Path, name, version, file, content) -> None:
    official.cifar(name, version)
    data = content.encode() if isinstance(content, str) else pickle.dumps(content, protocol=2)
    (tmp_path / file).write_bytes(data)
    assert load(tmp_path, name).class_names[2] == ("c" if name == "cifar10" else "n2")


def test_too_few_names(official, tmp_path: Path) -> None:
    official.cifar("cifar10", "binary")
    (tmp_path / "cifar-10-batches-bin/batches.meta.txt").write_text("cat\ndog\n")
    with pytest.raises(InputError, match=r"Expected 10 names of classes in .*batches\.meta\.txt but got 2"):
        load(tmp_path, "cifar10")


@pytest.mark.parametrize("size", [0, 3073 * 2 - 1, 100])
def test_truncated_binary(official, tmp_path: Path, size: int) -> None:
    official.cifar("cifar10", "binary")
    path = tmp_path / "cifar-10-batches-bin/data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=rf"Expected records of 3073 bytes in {path} .* but got {size} bytes"):
        load(tmp_path, "cifar10")


def test_labels_of_another_dataset(official, tmp_path: Path) -> None:
    official.cifar("cifar10", "binary")
    path = tmp_path / "cifar-10-batches-bin/test_batch.bin"
    path.write_bytes(b"\x63" + path.read_bytes()[1:])
    with pytest.raises(InputError, match=rf"Expected labels from 0 to 9 in {path} but got 99"):
        load(tmp_path, "cifar10")


def test_a_missing_batch_is_named(official, tmp_path: Path) -> None:
    official.cifar("cifar10", "binary")
    (tmp_path / "cifar-10-batches-bin/data_batch_4.bin").unlink()
    with pytest.raises(
        InputError, match=r"data_batch_4\.bin is missing in .*cifar-10-batches-bin: run `ictrl data down"
    ):
        load(tmp_path, "cifar10")


class Malicious:
    """Writes a file when it is unpickled the ordinary way."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


class Evaluated(Malicious):
    def __reduce__(self):
        return (eval, (f"open({str(self.path)!r}, 'w').close()",))


@pytest.mark.parametrize("kind", [Malicious, Evaluated])
@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_runs_nothing(official, tmp_path: Path, kind: type, protocol: int) -> None:
    official.cifar("cifar10", "python")
    touched, path = tmp_path / "touched", tmp_path / "cifar-10-batches-py/data_batch_2"
    path.write_bytes(pickle.dumps({b"data": kind(touched), b"labels": [0]}, protocol=protocol))
    with pytest.raises(InputError, match="which no dataset needs and which is not run"):
        load(tmp_path, "cifar10")
    assert not touched.exists()
    pickle.loads(path.read_bytes())  # the proof that it would have
    assert touched.exists()


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_of_python_is_read(official, tmp_path: Path, protocol: int) -> None:
    pixels, labels, _ = official.cifar("cifar100", "python")
    content = {b"data": pixels, b"fine_labels": labels.tolist()}
    (tmp_path / "cifar-100-python/train").write_bytes(pickle.dumps(content, protocol=protocol))
    assert np.array_equal(load(tmp_path, "cifar100").images.flatten(1), pixels)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({b"labels": [0, 1]}, "Expected b'data' in"),
        ({b"data": np.zeros((2, 3072), np.uint8)}, "Expected b'labels' in"),
        ({b"data": np.zeros((2, 3072), np.float64), b"labels": [0, 1]}, "but got f8 of shape"),
        (
            {b"data": np.zeros((3, 3072), np.uint8), b"labels": [0, 1]},
            r"shape \(2, 3072\) in .* but got u1 of shape \(3,",
        ),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 10]}, "Expected whole numbers from 0 to 9"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, "x"]}, "Expected whole numbers from 0 to 9"),
        ({b"data": np.zeros((2, 3072), np.uint8, order="F"), b"labels": [0, 1]}, "not stored row by row"),
        ([1, 2], "Expected a pickled dictionary in .* but got list"),
    ],
)
def test_foreign_pickles(official, tmp_path: Path, content: object, message: str) -> None:
    official.cifar("cifar10", "python")
    (tmp_path / "cifar-10-batches-py/data_batch_2").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(InputError, match=message):
        load(tmp_path, "cifar10")


@pytest.mark.parametrize("size", [0, 5, 5000])
def test_truncated_pickle(official, tmp_path: Path, size: int) -> None:
    official.cifar("cifar10", "python")
    path = tmp_path / "cifar-10-batches-py/test_batch"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=rf"Expected a pickled dictionary of arrays in {path} \({size} bytes\)"):
        load(tmp_path, "cifar10")


@pytest.mark.parametrize("names", [[b"a"] * 9, [b"a" * 101] * 10, ["a"] * 10, b"abcdefghij", [b"a"] * 11])
def test_names_that_are_none(official, tmp_path: Path, names: object) -> None:
    official.cifar("cifar10", "python")
    (tmp_path / "cifar-10-batches-py/batches.meta").write_bytes(pickle.dumps({b"label_names": names}, protocol=2))
    with pytest.raises(InputError, match=r"Expected 10 names of classes in .*batches\.meta but got something else"):
        load(tmp_path, "cifar10")
