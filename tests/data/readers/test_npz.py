"""Images and labels in .npz files."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from ictrl.config import StreamConfig
from ictrl.data import Dataset, load_dataset
from ictrl.data.image_file import FileImages
from ictrl.data.readers import npz
from ictrl.errors import InputError

load_one = npz._load
IMAGES = np.random.default_rng(0).integers(0, 256, (6, 3, 8, 8), dtype=np.uint8)
LABELS = np.array([5, 5, 5, -1, -1, -1])


def load(path: Path, channels: int = 3) -> Dataset:
    return load_dataset(StreamConfig(dataset="npz", root=str(path)), 8, channels)


def arrays(**changes: np.ndarray) -> dict[str, np.ndarray]:
    return {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES[2:4], "y_test": LABELS[2:4], **changes}


def test_both_sets_of_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "keras.npz", **arrays())
    np.savez_compressed(
        tmp_path / "plain.npz", images=IMAGES, labels=LABELS, test_images=IMAGES[2:4], test_labels=LABELS[2:4], more=1
    )
    for name in ("keras", "plain"):
        dataset = load(tmp_path / f"{name}.npz")
        assert dataset.name == name
        assert np.array_equal(dataset.images, IMAGES)
        assert np.array_equal(dataset.labels, LABELS)
        assert np.array_equal(dataset.test_images, IMAGES[2:4])
        assert dataset.test_labels.tolist() == [5, -1]
        assert dataset.class_names == {-1: "-1", 5: "5"}


def test_without_a_test_part_some_images_of_each_class_are_held_out(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", images=IMAGES, labels=LABELS)
    dataset = load(tmp_path / "own.npz")
    assert sorted(dataset.labels.tolist()) == [-1, -1, 5, 5]
    assert sorted(dataset.test_labels.tolist()) == [-1, 5]
    both = torch.cat([dataset.images, dataset.test_images]).flatten(1)
    assert {bytes(image.numpy()) for image in both} == {bytes(image) for image in IMAGES.reshape(6, -1)}


def test_channels_last_and_grey_and_a_column_of_labels(tmp_path: Path) -> None:
    last = IMAGES.transpose(0, 2, 3, 1)
    np.savez(tmp_path / "last.npz", **arrays(x_train=last, x_test=last[2:4], y_train=LABELS[:, None]))
    assert np.array_equal(load(tmp_path / "last.npz").images, IMAGES)
    np.savez(tmp_path / "grey.npz", **arrays(x_train=IMAGES[:, 0], x_test=IMAGES[2:4, 0]))
    assert np.array_equal(load(tmp_path / "grey.npz", channels=1).images[:, 0], IMAGES[:, 0])
    assert torch.equal(load(tmp_path / "grey.npz").images[:, 2], torch.from_numpy(IMAGES[:, 0]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": np.array([{}, 1], dtype=object)}, "holds arrays of Python objects"),
        ({"y_test": np.array(["a", {}], dtype=object)}, "holds arrays of Python objects"),
        ({"x_train": IMAGES.astype(np.float32)}, "Expected uint8 images .* as x_train .* but got float32"),
        ({"x_train": np.full(IMAGES.shape, np.nan)}, "but got float64 with NaN in it: scale and convert"),
        ({"x_train": IMAGES[0, 0]}, r"Expected x_train .* but got \(8, 8\)"),
        ({"x_train": IMAGES[:, [0, 1]]}, r"Expected x_train .* but got \(6, 2, 8, 8\)"),
        ({"x_test": IMAGES[:0]}, "Expected images as x_test .* but got none"),
        ({"y_train": LABELS.astype(float)}, "Expected y_train .* but got float64"),
        ({"y_train": LABELS[:5]}, "Expected a label in y_train for each of the 6 images in x_train of .* but got 5"),
        ({"y_test": np.array([5, 7])}, "Expected test labels of mine among its 2 classes but got 7"),
        (
            {"y_test": np.array([5, 5])},
            r"Expected test images of each of the 2 classes of mine but got none of -1 \(-1\)",
        ),
    ],
)
def test_wrong_arrays(tmp_path: Path, changes: dict, message: str) -> None:
    np.savez(tmp_path / "mine.npz", **arrays(**changes))
    with pytest.raises(InputError, match=message):
        load(tmp_path / "mine.npz")


def test_wrong_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "half.npz", x_train=IMAGES, y_train=LABELS, x_test=IMAGES)
    with pytest.raises(InputError, match=r"Expected x_train, .* in .*half\.npz but got x_train, y_train, x_test"):
        load(tmp_path / "half.npz")
    np.save(tmp_path / "single.npy", IMAGES)
    with pytest.raises(InputError, match="holds a single array"):
        load(tmp_path / "single.npy")
    np.savez(tmp_path / "cut.npz", **arrays())
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:500])
    (tmp_path / "foreign.npz").write_bytes(b"hello")
    (tmp_path / "empty.npz").touch()
    for name in ("cut", "foreign", "empty"):
        with pytest.raises(InputError, match=rf"Expected an \.npz file .*{name}\.npz"):
            load(tmp_path / f"{name}.npz")
    with pytest.raises(InputError, match=r"foreign\.npz holds something else"):
        load(tmp_path / "foreign.npz")
    with pytest.raises(InputError, match="is not there"):
        load(tmp_path / "absent.npz")
    with pytest.raises(InputError, match=r"cut\.npz holds something else"):  # the first of a folder of such
        load(tmp_path)


def packed(path: Path, members: dict[str, bytes], **options: int) -> Path:
    """A zip archive of members of any content."""
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(text: str, content: bytes = b"", version: bytes = b"\1\0") -> bytes:
    """A member whose header says anything."""
    length = len(text).to_bytes(2 if version == b"\1\0" else 4, "little")
    return b"\x93NUMPY" + version + length + text.encode() + content


def header(descr: str = "'|u1'", shape: str = "(6, 3, 8, 8)", fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


LABELLED = npy(header("'<i8'", "(6,)"), LABELS.astype("<i8").tobytes())


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (npy(header(), IMAGES.tobytes()[:-1]), "x_train of another size than its header says"),
        (npy(header(shape="(1000000000000,)")), "x_train of another size than its header says"),
        (npy(header("'<U0'", "(1000000000000,)")), "x_train of a type that is no plain number or text"),
        (npy(header("[('a', '<i8')]")), "x_train of a type that is no plain number or text"),
        (npy(header("'<U99999999999'")), "x_train of a type that is no plain number or text"),
        (npy(header(shape="(-6, 3)")), "x_train of a type that is no plain number or text"),
        (npy(header(shape="(True, 3)")), "x_train of a type that is no plain number or text"),
        (npy(header(shape="((3, 4), 2)")), "x_train of a type that is no plain number or text"),
        (npy(header(shape="(6,,3)")), "x_train without a shape"),
        (npy(header(shape="(" + "1," * 40 + ")")), "x_train without a shape"),
        (npy("(" * 9000), "x_train of a type that is no plain number or text"),
        (npy("-" * 9000 + "1"), "x_train of a type that is no plain number or text"),
        (npy("{" + " " * 20000, version=b"\2\0"), "x_train with a header of 20001 bytes"),
        (npy(header(), version=b"\7\0"), "x_train that is no array"),
        (b"hello", "x_train that is no array"),
        (npy(header("'|O'", "(6,)")), "arrays of Python objects"),
    ],
)
def test_headers_that_no_array_has(tmp_path: Path, member: bytes, message: str) -> None:
    path = packed(tmp_path / "mine.npz", {"x_train": member, "y_train": LABELLED})
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_arrays_as_other_versions_of_numpy_write_them(tmp_path: Path) -> None:
    columns = npy(header(fortran="True", shape="(6L, 3L, 8L, 8L)"), np.asfortranarray(IMAGES).tobytes("F"), b"\3\0")
    dataset = load(packed(tmp_path / "old.npz", {"x_train": columns, "y_train": LABELLED}))
    both = torch.cat([dataset.images, dataset.test_images]).flatten(1)
    assert {bytes(image.numpy()) for image in both} == {bytes(image) for image in IMAGES.reshape(6, -1)}


def test_a_bomb_is_refused_by_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = npy(header(shape="(300000, 1, 32, 32)"), bytes(307_200_000))
    path = packed(tmp_path / "bomb.npz", {"x_train": bomb, "y_train": LABELLED}, compression=8, compresslevel=1)
    assert path.stat().st_size < 3_000_000
    with pytest.raises(InputError, match=r"holds 307,200,\d+ bytes in memory, above .*\(ICTRL_MAX_UNPACKED_BYTES\)"):
        load(path)
    np.savez_compressed(tmp_path / "small.npz", images=np.zeros((20, 32, 32), np.uint8), labels=np.arange(20) % 2)
    monkeypatch.setenv("ICTRL_MAX_UNPACKED_BYTES", "20000")
    with pytest.raises(InputError, match=r"above the limit of 20,000 \(ICTRL_MAX_UNPACKED_BYTES\)"):
        load(tmp_path / "small.npz")


@pytest.mark.parametrize(("compression", "flags"), [(zipfile.ZIP_LZMA, 0), (zipfile.ZIP_BZIP2, 0)])
def test_packed_in_other_ways(tmp_path: Path, compression: int, flags: int) -> None:
    member = npy(header(), IMAGES.tobytes())
    path = packed(tmp_path / "mine.npz", {"x_train": member, "y_train": LABELLED}, compression=compression)
    with pytest.raises(InputError, match="x_train packed in a way that NumPy has not"):
        load(path)


def test_a_directory_that_is_larger_than_any_is_not_read(tmp_path: Path) -> None:
    path = packed(tmp_path / "mine.npz", {"x_train": b"", "y_train": b""})
    content = path.read_bytes()
    end = content.rindex(b"PK\5\6")
    # a directory of 80 MB before the record of the end, which is what zipfile would read
    sized = content[: end + 12] + (80_000_000).to_bytes(4, "little") + content[end + 16 :]
    path.write_bytes(bytes(80_000_000) + sized)
    with pytest.raises(InputError, match="a directory that is larger than any of NumPy's"):
        load(path)


def test_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(InputError, match="is a pipe, and no regular file"):
        load(tmp_path / "pipe.npz")


# several files


def several(folder: Path, test: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Three files of different sizes and layouts; their training images and labels."""
    random = np.random.default_rng(1)
    images = random.integers(0, 256, (30, 3, 8, 8), dtype=np.uint8)
    labels = np.arange(30) % 2
    folder.mkdir()
    for name, begin, end in (("b", 9, 22), ("a", 0, 9), ("c", 22, 30)):
        X, y = images[begin:end], labels[begin:end]
        X = X.transpose(0, 2, 3, 1) if name == "b" else X
        part = {"x_test": X[:2], "y_test": y[:2]} if test else {}
        np.savez_compressed(folder / f"{name}.npz", x_train=X, y_train=y[:, None] if name == "c" else y, **part)
    (folder / "notes.txt").write_text("no array")
    return images, labels


@pytest.mark.parametrize("cache", ["never", "always"])
def test_files_of_a_folder_are_one_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str) -> None:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path / "cache"))
    images, labels = several(tmp_path / "parts")
    stream = StreamConfig(dataset="npz", root=str(tmp_path / "parts"), cache=cache)  # type: ignore[arg-type]
    dataset = load_dataset(stream, 8, 3)
    assert isinstance(dataset.images, FileImages) == (cache == "always")
    assert np.array_equal(dataset.images.numpy(), images)
    assert np.array_equal(dataset.labels, labels)
    assert np.array_equal(dataset.test_images.numpy(), images[[0, 1, 9, 10, 22, 23]])
    assert dataset.test_labels.tolist() == labels[[0, 1, 9, 10, 22, 23]].tolist()


def test_held_out_images_are_the_same_wherever_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path / "cache"))
    several(tmp_path / "parts", test=False)
    found = [
        load_dataset(StreamConfig(dataset="npz", root=str(tmp_path / "parts"), cache=cache), 16, 1)  # type: ignore[arg-type]
        for cache in ("never", "always")
    ]
    for name in ("images", "labels", "test_images", "test_labels"):
        assert np.array_equal(*(getattr(dataset, name).numpy() for dataset in found))


def test_one_file_at_a_time_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path / "cache"))
    several(tmp_path / "parts")
    loaded = []
    monkeypatch.setattr(
        npz, "_load", lambda path, only=None: (loaded.append((path.name, only)), load_one(path, only))[1]
    )
    load_dataset(StreamConfig(dataset="npz", root=str(tmp_path / "parts"), cache="always"), 8, 3)
    parts = [(f"{name}.npz", part) for part in (0, 1) for name in "abc"]
    assert loaded == parts  # each once, in order, and never two parts at once


def test_a_folder_of_files_that_do_not_belong_together(tmp_path: Path) -> None:
    several(tmp_path / "parts")
    np.savez(tmp_path / "parts" / "d.npz", x_train=IMAGES, y_train=LABELS)
    with pytest.raises(InputError, match="test images in all files of .*parts or in none but d.npz is unlike a.npz"):
        load(tmp_path / "parts")
    (tmp_path / "parts" / "d.npz").write_bytes(b"PK nothing")
    with pytest.raises(InputError, match=r"d.npz holds something else"):
        load(tmp_path / "parts")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="an .npz file or a folder of such but .*empty is a folder without any"):
        load(tmp_path / "empty")


def test_labels_that_are_no_numbers_are_named_before_images_are_read(tmp_path: Path) -> None:
    several(tmp_path / "parts")
    np.savez(tmp_path / "parts" / "d.npz", **arrays(y_train=LABELS / 2))
    with pytest.raises(InputError, match="y_train of .*d.npz as one whole number per image but got float64"):
        load(tmp_path / "parts")
