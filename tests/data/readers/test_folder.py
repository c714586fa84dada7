"""A folder of your own pictures."""

import os
from pathlib import Path

import pytest
import torch
from PIL import Image

from ictrl.config import StreamConfig
from ictrl.data import Dataset, load_dataset
from ictrl.errors import InputError

RED, GREEN = (255, 0, 0), (0, 255, 0)


def load(root: Path, image_size: int = 8, channels: int = 3, test_share: float = 0.2) -> Dataset:
    return load_dataset(StreamConfig(dataset="folder", root=str(root), test_share=test_share), image_size, channels)


def save(path: Path, colour=RED, size: tuple[int, int] = (8, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def fill(folder: Path, count: int) -> None:
    """Pictures that can be told apart: number i is of grey level i."""
    for number in range(count):
        save(folder / f"{number}.png", (number, number, number))


def fill_parts(root: Path, classes: tuple[str, ...] = ("cat", "dog")) -> None:
    for name in classes:
        fill(root / "train" / name, 3)
        fill(root / "test" / name, 2)


def test_train_and_test_folders(tmp_path: Path) -> None:
    fill_parts(tmp_path)
    dataset = load(tmp_path)
    assert dataset.class_names == {0: "cat", 1: "dog"}
    assert dataset.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert dataset.images[:, 0, 0, 0].tolist() == [0, 1, 2, 0, 1, 2]
    assert dataset.test_labels.tolist() == [0, 0, 1, 1]
    assert dataset.skipped == ()


def test_numbered_folders_are_the_classes_of_those_numbers(tmp_path: Path) -> None:
    fill_parts(tmp_path, ("2", "10", "7"))
    dataset = load(tmp_path)
    assert dataset.class_names == {2: "2", 7: "7", 10: "10"}
    assert dataset.labels.tolist() == [2] * 3 + [7] * 3 + [10] * 3


def test_one_folder_is_split_class_by_class(tmp_path: Path) -> None:
    fill(tmp_path / "cat", 20)
    fill(tmp_path / "dog", 5)
    dataset = load(tmp_path)
    assert dataset.labels.bincount().tolist() == [16, 4]
    assert dataset.test_labels.bincount().tolist() == [4, 1]
    for label, count in ((0, 20), (1, 5)):
        train, test = dataset.images[dataset.labels == label], dataset.test_images[dataset.test_labels == label]
        assert sorted(torch.cat([train, test])[:, 0, 0, 0].tolist()) == list(range(count))


def test_the_split_does_not_depend_on_the_order_of_the_file_system(tmp_path: Path, monkeypatch) -> None:
    fill(tmp_path / "cat", 12)
    fill(tmp_path / "dog", 12)
    before = load(tmp_path)
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: sorted(listed(path), reverse=True))
    after = load(tmp_path)
    assert torch.equal(before.images, after.images)
    assert torch.equal(before.test_images, after.test_images)


def test_the_split_does_not_depend_on_where_the_folder_lies(tmp_path: Path) -> None:
    fill(tmp_path / "here/cat", 12)
    fill(tmp_path / "there/below/cat", 12)
    assert torch.equal(load(tmp_path / "here").test_images, load(tmp_path / "there/below").test_images)


def test_a_class_called_train_is_a_class(tmp_path: Path) -> None:
    fill(tmp_path / "train", 4)
    fill(tmp_path / "bus", 4)
    assert load(tmp_path).class_names == {0: "bus", 1: "train"}


def test_sizes_are_mixed_and_the_middle_is_kept(tmp_path: Path) -> None:
    fill_parts(tmp_path)
    picture = Image.new("RGB", (30, 10), RED)
    picture.paste(GREEN, (10, 0, 20, 10))
    picture.save(tmp_path / "train/cat/wide.png")
    picture.rotate(90, expand=True).save(tmp_path / "train/cat/tall.png")
    images = load(tmp_path).images
    green = torch.tensor(GREEN, dtype=torch.uint8)[:, None, None].expand(3, 8, 8)
    assert torch.equal(images[3], green)
    assert torch.equal(images[4], green)


def test_broken_files_are_named_and_the_others_read(tmp_path: Path) -> None:
    fill_parts(tmp_path)
    whole = (tmp_path / "train/cat/0.png").read_bytes()
    (tmp_path / "train/cat/cut.png").write_bytes(whole[:40])
    (tmp_path / "train/dog/notes.txt").write_text("Rex")
    (tmp_path / "test/dog/empty.jpg").touch()
    (tmp_path / "train/dog/puppies/small").mkdir(parents=True)
    for name in ("a.png", "small/b.png"):
        (tmp_path / "train/dog/puppies" / name).touch()
    (tmp_path / "train/dog/.hidden").touch()
    dataset = load(tmp_path)
    assert len(dataset.images) == 6
    assert len(dataset.test_images) == 4
    reasons = dict(line.split(": ", 1) for line in dataset.skipped)
    assert list(reasons) == ["test/dog/empty.jpg", "train/cat/cut.png", "train/dog/notes.txt", "train/dog/puppies"]
    assert reasons["train/dog/notes.txt"] == "it is in no known picture format"
    assert reasons["train/dog/puppies"] == "a folder within a class, and the 2 files in it: move them one up"


def test_pictures_that_lie_deeper_than_their_class_are_counted_where_they_are_missed(tmp_path: Path) -> None:
    fill(tmp_path / "cat", 5)
    fill(tmp_path / "dog" / "puppies", 4)
    with pytest.raises(InputError, match=r"in .*dog but got 0 \(4 files lie in folders within it: move them one up\)"):
        load(tmp_path)


def test_a_broken_file_does_not_cost_a_small_class_its_test_image(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        fill(tmp_path / name, 5)
    for number in range(3):
        (tmp_path / "dog" / f"{number}.png").write_bytes(b"broken")
    dataset = load(tmp_path)
    assert dataset.labels.bincount().tolist() == [4, 1]
    assert dataset.test_labels.bincount().tolist() == [1, 1]
    assert len(dataset.skipped) == 3


def test_a_class_with_nothing_left_is_refused(tmp_path: Path) -> None:
    fill_parts(tmp_path)
    for path in (tmp_path / "test/dog").iterdir():
        path.write_bytes(b"broken")
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    assert str(caught.value) == (
        f"Expected at least 1 picture in {tmp_path / 'test/dog'} but got 0 (2 of 2 cannot be read, such as "
        f"{os.path.join('test', 'dog', '1.png')}: it is in no known picture format): add some, or remove the folder."
    )


@pytest.mark.parametrize("count", [0, 1])
def test_a_class_too_small_to_split_is_refused(tmp_path: Path, count: int) -> None:
    fill(tmp_path / "cat", 5)
    (tmp_path / "dog").mkdir()
    fill(tmp_path / "dog", count)
    with pytest.raises(InputError, match=rf"Expected at least 2 pictures in .*dog but got {count}: add some"):
        load(tmp_path)


def test_a_missing_test_folder_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "train/cat", 3)
    with pytest.raises(InputError, match=r"Expected .*test beside .*train but it is not there"):
        load(tmp_path)


def test_a_class_in_one_part_only_is_refused(tmp_path: Path) -> None:
    fill_parts(tmp_path)
    fill(tmp_path / "test/emu", 2)
    with pytest.raises(InputError, match=r"Expected the same classes in .* but emu is in one of them only"):
        load(tmp_path)


def test_what_is_no_such_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent is not there"):
        load(tmp_path / "absent")
    save(tmp_path / "alone.png")
    with pytest.raises(InputError, match=r"alone\.png is a file"):
        load(tmp_path / "alone.png")
    with pytest.raises(InputError, match="has no folders in it"):
        load(tmp_path)
    with pytest.raises(InputError, match=r"Expected stream\.root to be a folder of pictures .* give --stream\.root"):
        load_dataset(StreamConfig(dataset="folder"), 8, 3)


def test_folders_are_numbers_only_if_these_fit_into_64_bits(tmp_path: Path) -> None:
    for names in (["12345678901234567890", "2"], ["\u00b2", "3"], ["\u0663", "3"]):
        root = tmp_path / names[0]
        for name in names:
            (root / name).mkdir(parents=True)
            for i in range(3):
                Image.new("RGB", (8, 8), (i, 0, 0)).save(root / name / f"{i}.png")
        dataset = load_dataset(StreamConfig(dataset="folder", root=str(root)), 8, 3)
        assert dataset.class_names == dict(enumerate(sorted(names)))


def test_pipes_among_pictures_are_named_and_skipped(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.new("RGB", (8, 8), (i, 0, 0)).save(tmp_path / name / f"{i}.png")
    os.mkfifo(tmp_path / "cat" / "pipe.png")
    dataset = load_dataset(StreamConfig(dataset="folder", root=str(tmp_path)), 8, 3)
    assert dataset.skipped == (f"{os.path.join('cat', 'pipe.png')}: a pipe, and no regular file",)
