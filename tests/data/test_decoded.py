"""Pictures that are decoded once into a file are those that reading them into memory gives, whatever happens to it."""

import errno
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import filelock
import numpy as np
import pytest
import torch
from PIL import Image

from ictrl.config import StreamConfig
from ictrl.data import Dataset, decoded, decoding, load_dataset, picture_source, pictures, split_tasks
from ictrl.data.image_file import FileImages
from ictrl.data.patience import stopped_by
from ictrl.data.picture_source import Pictures
from ictrl.errors import ConfigError, InputError

SIDE = 8


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "decoded"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two classes of thirty pictures of random pixels and of many sizes, one of each not readable."""
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(30):
            pixels = random.integers(256, size=(8 + number % 5, 9, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pets" / name / f"{number}.png")
        (tmp_path / "pets" / name / "12.png").write_bytes(b"no picture")
    return tmp_path / "pets"


def load(root: Path, cache: str = "always", test_share: float = 0.2) -> Dataset:
    stream = StreamConfig(dataset="folder", root=str(root), test_share=test_share, tasks=2, cache=cache)
    return load_dataset(stream, SIDE, 3)


def assert_same(found: Dataset, expected: Dataset) -> None:
    for part in ("images", "labels", "test_images", "test_labels"):
        assert torch.equal(getattr(found, part), getattr(expected, part)), part
    assert (found.class_names, found.skipped) == (expected.class_names, expected.skipped)


def files(cache: Path) -> list[Path]:
    return sorted(path for path in cache.iterdir() if path.suffix != ".lock")


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of pictures that were decoded, in order."""
    asked: list[int] = []

    def counted(pictures: Pictures, done: int) -> Iterator[list]:
        for block in whole(pictures, done):
            asked.extend(range(done + len(asked), done + len(asked) + len(block)))
            yield block

    whole = decoding.read_blocks
    monkeypatch.setattr(decoding, "read_blocks", counted)
    return asked


@pytest.mark.parametrize("test_share", [0.2, 0.5])
def test_images_are_those_of_memory(root: Path, test_share: float) -> None:
    found, expected = load(root, "always", test_share), load(root, "never", test_share)
    assert isinstance(found.images, FileImages)
    assert type(expected.images) is torch.Tensor
    assert len(found.skipped) == 2
    assert_same(found, expected)


def test_training_and_test_folders(root: Path) -> None:
    for part in ("train", "test"):
        for name in ("cat", "dog"):
            (root / part).mkdir(exist_ok=True)
            (root / name).rename(root / part / name) if part == "train" else (root / part / name).mkdir()
            if part == "test":
                for number in (3, 12, 7):
                    (root / "train" / name / f"{number}.png").rename(root / "test" / name / f"{number}.png")
    assert_same(load(root), load(root, "never"))


def test_tasks_read_nothing_until_they_are_asked(root: Path) -> None:
    dataset = load(root)
    for task, expected in zip(
        split_tasks(dataset, StreamConfig(tasks=2, validation=0.3)),
        split_tasks(load(root, "never"), StreamConfig(tasks=2, validation=0.3)),
        strict=True,
    ):
        assert isinstance(task.images, FileImages)
        assert torch.equal(task.images, expected.images)
        assert torch.equal(task.test_images, expected.test_images)


def test_one_file_serves_every_run(root: Path, cache: Path, decodings: list[int]) -> None:
    load(root)
    load(root, test_share=0.4)
    assert len(decodings) == 60
    assert [path.suffix for path in files(cache)] == [".safetensors"]


def test_it_is_chosen_where_images_would_take_much_of_memory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = 60 * 3 * SIDE**2
    for memory, stays in ((4 * needed - 4, True), (4 * needed, False)):
        monkeypatch.setattr(decoded, "machine_memory", lambda memory=memory: memory)
        assert isinstance(load(root, "auto").images, FileImages) is stays
    assert isinstance(load(root, "always").images, FileImages)


def test_this_machine_has_memory() -> None:
    assert 2**20 < decoded.machine_memory() < 2**50


def test_another_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match='Expected stream.cache to be "auto", "always" or "never" but got \'yes\''):
        StreamConfig(cache="yes")


@pytest.mark.parametrize("change", ["content", "new", "gone", "later"])
def test_pictures_that_have_changed_are_decoded_anew(
    root: Path, cache: Path, decodings: list[int], change: str
) -> None:
    held = load(root)
    before = held.images.read()
    if change == "new":
        Image.new("RGB", (8, 8), "red").save(root / "cat" / "30.png")
    elif change == "gone":
        (root / "cat" / "5.png").unlink()
    elif change == "content":
        Image.new("RGB", (8, 8), "red").save(root / "cat" / "5.png")
    else:
        os.utime(root / "cat" / "5.png", (1, 1))
    assert_same(load(root), load(root, "never"))
    assert len(decodings) == 120 + {"new": 1, "gone": -1}.get(change, 0)
    assert len(files(cache)) == 1  # the former file is gone
    assert torch.equal(held.images, before)  # but not for those who read it


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-7],
        lambda content: b"",
        lambda content: content[: len(content) // 2] + b"\0" * (len(content) - len(content) // 2),
        lambda content: content.replace(b'"digest": "', b'"digest": "0'),
        lambda content: content.replace(b"no known", b"no other"),
        lambda content: content[:4096] + content[4096:].replace(b"skipped", b"kiddisp"),
    ],
)
def test_a_damaged_file_is_made_anew(root: Path, cache: Path, damage, caplog: pytest.LogCaptureFixture) -> None:
    load(root)
    (path,) = files(cache)
    path.write_bytes(damage(path.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert_same(load(root), load(root, "never"))
    assert f"{path} is damaged" in caplog.text


def test_a_maker_that_was_stopped_is_continued(
    root: Path, cache: Path, decodings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture_source, "BLOCK", 10)
    monkeypatch.setattr(decoding, "FLUSHED", 1)
    whole = decoding.Log.flush

    def stopped(file: decoding.Log) -> None:
        whole(file)
        if len(decodings) == 40:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(decoding.Log, "flush", stopped)
        with pytest.raises(KeyboardInterrupt):
            load(root)
    assert [path.suffix for path in files(cache)] == [".journal", ".pixels"]
    decodings.clear()
    assert_same(load(root), load(root, "never"))
    assert len(decodings) == 30  # pixels of the fourth block were there, but no journal said so
    assert [path.suffix for path in files(cache)] == [".safetensors"]


@pytest.mark.parametrize("stop", [1, 17, 60])
def test_decoding_stops_within_a_picture_and_what_is_decoded_is_kept(
    root: Path, cache: Path, decodings: list[int], caplog: pytest.LogCaptureFixture, stop: int
) -> None:
    asked = iter(range(1000))  # for each class and file while they are looked at, then after each picture
    with stopped_by(lambda: next(asked) >= 61 + stop), pytest.raises(KeyboardInterrupt):
        load(root)
    before = len(decodings)
    assert before == stop
    assert f"stopped: {before} of 60 pictures are decoded and kept" in caplog.text
    decodings.clear()
    assert_same(load(root), load(root, "never"))
    assert len(decodings) == 60 - before
    assert [path.suffix for path in files(cache)] == [".safetensors"]


def test_ctrl_c_itself_loses_few_pictures(
    root: Path, decodings: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(picture_source, "BLOCK", 10)
    whole = picture_source.read_one

    def read(pictures: Pictures, number: int) -> object:
        if number == 34:
            signal.raise_signal(signal.SIGINT)  # heard by the main thread, which waits for pictures
        return whole(pictures, number)

    with monkeypatch.context() as patch:
        patch.setattr(picture_source, "read_one", read)
        with pytest.raises(KeyboardInterrupt):
            load(root)
    before = len(decodings)
    assert 30 <= before <= 34
    assert f"stopped: {before} of 60 pictures" in caplog.text
    decodings.clear()
    assert_same(load(root), load(root, "never"))
    assert len(decodings) == 60 - before


def test_reading_into_memory_stops_too(root: Path) -> None:
    with stopped_by(lambda: True), pytest.raises(KeyboardInterrupt):
        load(root, "never")


def test_who_waits_for_another_maker_may_stop(root: Path, cache: Path) -> None:
    load(root)
    (made,) = files(cache)
    made.unlink()
    (lock,) = cache.iterdir()
    asked = iter(range(1000))
    with filelock.FileLock(lock), stopped_by(lambda: next(asked) > 61), pytest.raises(KeyboardInterrupt):
        load(root)


def test_a_maker_may_stop_at_any_moment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_source, "BLOCK", 10)
    monkeypatch.setattr(decoding, "FLUSHED", 1)
    whole, expected, stops, left = decoding.Log.flush, load(root, "never"), 0, 0

    def moment() -> None:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt

    def flushed(file: decoding.Log) -> None:
        moment()
        whole(file)
        moment()

    monkeypatch.setattr(decoding.Log, "flush", flushed)
    monkeypatch.setattr(decoding, "flush_folder", lambda folder: moment())
    for number in range(1, 40):
        left = 1 + number % 5  # each is continued by the next
        try:
            load(root)
        except KeyboardInterrupt:
            stops += 1
            if number % 7 == 0:  # as if the last line had not been written to its end
                for journal in decoded.decoded_folder().glob("*.journal"):
                    os.truncate(journal, max(0, journal.stat().st_size - 3))
        else:
            break
    assert stops > 5
    assert_same(load(root), expected)


def test_a_maker_that_was_killed_is_continued(root: Path, cache: Path, decodings: list[int]) -> None:
    script = f"""
import os, signal
from ictrl.config import StreamConfig
from ictrl.data import decoding, load_dataset, picture_source
picture_source.BLOCK, decoding.FLUSHED, times, whole = 10, 1, [], decoding.Log.flush
def flushed(file):
    whole(file)
    times.append(file)
    if len(times) == 7:
        os.kill(os.getpid(), signal.SIGKILL)
decoding.Log.flush = flushed
load_dataset(StreamConfig(dataset="folder", root={str(root)!r}, cache="always"), {SIDE}, 3)
"""
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == -9
    assert [path.suffix for path in files(cache)] == [".journal", ".pixels"]
    assert_same(load(root), load(root, "never"))
    assert len(decodings) == 30


@pytest.mark.parametrize(
    "journal",
    [
        b"",
        b"nonsense",
        b'{"done": 50, "skipped": {}}\n',
        b'{"done": 9999, "skipped": {}}\n',
        b'{"done": 10, "skipped": {"70": "x"}}\n',
        b'{"done": 10, "skipped": {}}\n{"do',
        b'{"done": -3, "skipped": {}}\n',
        b"[1]\n",
    ],
)
def test_what_does_not_fit_is_not_continued(
    root: Path, cache: Path, journal: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(root)
    (path,) = files(cache)
    path.with_suffix(".pixels").write_bytes(b"\xff" * 3000)
    path.unlink()
    path.with_suffix(".journal").write_bytes(journal)
    assert_same(load(root), load(root, "never"))


def interrupted(root: Path, monkeypatch: pytest.MonkeyPatch, flushes: int) -> None:
    """A maker of blocks of ten pictures that is stopped at that flush."""
    whole, left = decoding.Log.flush, flushes

    def stopping(file: decoding.Log) -> None:
        nonlocal left
        left -= 1
        whole(file)
        if not left:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(picture_source, "BLOCK", 10)
        patch.setattr(decoding, "FLUSHED", 1)
        patch.setattr(decoding.Log, "flush", stopping)
        with pytest.raises(KeyboardInterrupt):
            load(root)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        (".journal", lambda content: re.sub(rb'"(\d+)": "it is', rb'"13": "it is', content)),
        (".journal", lambda content: content.replace(b'"done": 40', b'"done": 42')),
        (".journal", lambda content: content.replace(b'"done": 40', b'"done": 4e1')),
        (".journal", lambda content: content.replace(b'"done": 40', b'"done": 1e400')),
        (".pixels", lambda content: content[:9000] + bytes([content[9000] ^ 4]) + content[9001:]),
        (".pixels", lambda content: content[:-3]),
    ],
)
def test_what_was_damaged_of_a_stopped_maker_is_decoded_again(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, part: str, change
) -> None:
    interrupted(root, monkeypatch, flushes=8)
    (path,) = (path for path in files(cache) if path.suffix == part)
    content = path.read_bytes()
    assert change(content) != content
    path.write_bytes(change(content))
    assert_same(load(root), load(root, "never"))


def test_pixels_that_have_changed_are_never_read_as_pictures(root: Path, cache: Path) -> None:
    load(root)
    (path,) = files(cache)
    content = bytearray(path.read_bytes())
    content[4096 + 5 * 3 * SIDE**2] ^= 1  # in the picture of row 5
    path.write_bytes(content)
    images = load(root).images
    (row,) = np.flatnonzero(images.places == 5)  # type: ignore[attr-defined]
    assert images[:row].sum() > 0
    for part in (images, images[row : row + 1], images.split(9)[row // 9]):
        with pytest.raises(InputError, match=f"as they were decoded but some have changed.* {path.name}|{path}"):
            part.float()
    with pytest.raises(InputError, match="some have changed"):
        _ = images[row]


def test_files_of_other_names_are_left_alone(root: Path, cache: Path) -> None:
    load(root)
    (path,) = files(cache)
    own = [path.with_name(f"{path.name[:-36]}{end}") for end in ("-backup.safetensors", "-mine.journal")]
    for other in own:
        other.write_text("mine")
    (root / "cat" / "5.png").unlink()
    load(root)
    assert all(other.read_text() == "mine" for other in own)
    assert not path.exists()


def test_what_a_maker_left_that_was_killed_at_its_end_goes(root: Path, cache: Path) -> None:
    load(root)
    (path,) = files(cache)
    path.with_suffix(".journal").write_text("left")
    load(root)
    assert files(cache) == [path]


def test_a_picture_that_the_disk_did_not_give_is_asked_for_again(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pictures.open_regular

    def failing(path: Path):
        if path.name == "5.png":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return whole(path)

    with monkeypatch.context() as patch:
        patch.setattr(pictures, "open_regular", failing)
        for _ in range(2):
            assert [line for line in load(root).skipped if "5.png" in line] == [
                "cat/5.png: Input/output error",
                "dog/5.png: Input/output error",
            ]
    assert_same(load(root), load(root, "never"))
    assert len(files(cache)) == 1


def test_what_the_disk_did_not_give_a_stopped_maker_is_asked_for_again(
    root: Path, cache: Path, decodings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pictures.open_regular

    def failing(path: Path):
        if path.name == "5.png" or (path.name == "6.png" and path.parent.name == "dog"):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return whole(path)

    with monkeypatch.context() as patch:
        patch.setattr(pictures, "open_regular", failing)
        interrupted(root, monkeypatch, flushes=8)
        interrupted(root, monkeypatch, flushes=2)
        assert len(decodings) == 50  # it goes on where it was
    decodings.clear()
    assert_same(load(root), load(root, "never"))
    assert len(decodings) > 20  # not where it was


@pytest.mark.parametrize("suffix", [".safetensors", ".journal", ".pixels"])
def test_pipes_are_not_waited_for(root: Path, cache: Path, suffix: str) -> None:
    load(root)
    (path,) = files(cache)
    path.unlink()
    os.mkfifo(pipe := path.with_suffix(suffix))
    if suffix == ".safetensors":  # which another file takes the place of
        assert_same(load(root), load(root, "never"))
    else:
        with pytest.raises(OSError, match=f"No such device or address.*{pipe}"):
            load(root)


@pytest.mark.parametrize("shape", [b"[1e400,8,8,8]", b"[-1,3,8,8]   ", b'["x",3,8,8]  ', b"[58,3,4,16]  "])
def test_headers_are_not_believed(root: Path, cache: Path, shape: bytes) -> None:
    load(root)
    (path,) = files(cache)
    content = path.read_bytes()
    changed = content.replace(b"[58, 3, 8, 8]", shape)
    assert changed != content
    path.write_bytes(changed)
    assert_same(load(root), load(root, "never"))


def test_two_makers_at_once_decode_once(
    root: Path, decodings: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, whole, found = threading.Event(), decoding._check_space, []

    def slowly(folder: Path, needed: int) -> None:
        begun.set()
        second.start()
        while not any("waiting" in record.message for record in caplog.records):
            second.join(0.01)
        whole(folder, needed)

    monkeypatch.setattr(decoding, "_check_space", slowly)
    second = threading.Thread(target=lambda: found.append(load(root)))
    found.append(load(root))
    second.join()
    assert len(decodings) == 60
    assert_same(found[0], found[1])


def test_too_little_space_is_said_beforehand(root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 5000})
    monkeypatch.setattr(decoding.shutil, "disk_usage", lambda folder: usage)
    expected = rf"Expected 11,520 bytes of free space in {cache} .* but it has 5,000: set .*ICTRL_DATA.*stream.cache"
    with pytest.raises(InputError, match=expected):
        load(root)
    assert files(cache) == []


def test_a_folder_that_cannot_be_written_is_named(root: Path, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file")
    with pytest.raises(NotADirectoryError):
        load(root)


def test_pictures_that_change_meanwhile_are_refused(root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = decoding.read_blocks

    def changed(pictures: Pictures, done: int) -> Iterator[list]:
        yield from whole(pictures, done)
        Image.new("RGB", (8, 8)).save(root / "cat" / "0.png")

    monkeypatch.setattr(decoding, "read_blocks", changed)
    with pytest.raises(InputError, match="to stay as it is while it is decoded but it has changed"):
        load(root)
    assert files(cache) == []


@pytest.mark.parametrize("readable", [0, 1])
def test_a_class_with_too_few_readable_pictures_is_refused_as_without_a_file(root: Path, readable: int) -> None:
    for file in sorted((root / "cat").iterdir())[readable:]:
        file.write_bytes(b"no picture")
    messages = []
    for cache in ("always", "never"):
        with pytest.raises(InputError, match="at least 2 pictures") as raised:
            load(root, cache)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def test_what_is_being_made_is_said(root: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load(root)
    said = capsys.readouterr().err.strip()
    assert said == f"Decoding 60 pictures once: 1 MB into {cache}"
    load(root)
    assert capsys.readouterr().err == ""


def test_any_program_can_open_it(root: Path, cache: Path) -> None:
    from safetensors.numpy import load_file

    dataset = load(root)
    arrays = load_file(files(cache)[0])
    assert arrays["images"].shape == (58, 3, SIDE, SIDE)
    assert sorted(arrays["labels"]) == sorted([*dataset.labels, *dataset.test_labels])
    assert json.loads(arrays["about"].tobytes())["of"] == str(root)
