"""Files are written whole or not at all, stay as private as they were, and are on the disk when that is reported."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ictrl.files import Log, free_name, make_folder, remove, remove_unfinished, write_atomically


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o400])
def test_the_permissions_of_a_file_stay(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "private.safetensors"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomically(path, b"new")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", mode)


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_follows_the_umask(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "new", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o666 & ~mask


@contextmanager
def operations(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is asked of the system, in order: files by their names, unfinished ones as such."""
    done: list[str] = []
    names: dict[int, str] = {}

    def named(path: object) -> str:
        name = Path(os.fspath(path)).name  # type: ignore[call-overload]
        return "unfinished" if name.endswith(".unfinished") else name

    def noted(name: str, describe: Callable[..., str]) -> None:
        real = getattr(os, name)

        def call(*arguments: object, **more: object) -> object:
            done.append(f"{name} {describe(*arguments)}")
            found = real(*arguments, **more)
            if name == "open":
                names[found] = named(arguments[0])
            return found

        monkeypatch.setattr(os, name, call)

    noted("open", lambda path, *_: named(path))
    noted("write", lambda handle, _: names[handle])
    noted("fsync", lambda handle: names[handle])
    noted("replace", lambda old, new: f"{named(old)} {named(new)}")
    noted("mkdir", lambda path, *_: named(path))
    yield done
    monkeypatch.undo()


def test_file_and_folder_are_flushed_in_the_order_that_survives_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with operations(monkeypatch) as done:
        write_atomically(tmp_path / "a", b"content")
    folder = tmp_path.name
    assert done == [
        "open unfinished",
        "write unfinished",
        "fsync unfinished",
        "replace unfinished a",
        f"open {folder}",
        f"fsync {folder}",
    ]


def test_new_folders_are_flushed_into_those_above_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with operations(monkeypatch) as done:
        make_folder(tmp_path / "one" / "two")
        make_folder(tmp_path / "one" / "two")
    above = tmp_path.name
    assert done == ["mkdir one", f"open {above}", f"fsync {above}", "mkdir two", "open one", "fsync one"]


def test_a_log_is_flushed_on_request_and_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with operations(monkeypatch) as done, Log(tmp_path / "log") as log:
        log.add("one")
        log.flush()
        log.add("two")
    folder = tmp_path.name
    flushed = ["fsync log", f"open {folder}", f"fsync {folder}"]
    assert done == ["open log", "write log", *flushed, "write log", "fsync log"]
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("which", ["write", "fsync", "replace"])
def test_what_cannot_be_written_leaves_the_old_file_and_nothing_else(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, which, full)
    with pytest.raises(OSError, match="No space left") as error:
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert error.value.filename == str(path)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a", b"old")]


HOLDS = """
import os, sys
from ictrl import files
def stop(handle, content):
    print("writing", flush=True)
    sys.stdin.read()
files._write = stop
files.write_atomically(files.Path(sys.argv[1]), b"new")
"""


def test_unfinished_files_of_the_dead_are_removed_and_those_of_the_living_stay(tmp_path: Path) -> None:
    mine = [".a.unfinished", "a.0123abcd.unfinished", ".a.0123ABCD.unfinished", ".notes"]
    for name in mine:
        (tmp_path / name).write_text("mine")
    (tmp_path / ".b.0123abcd.unfinished").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path / "a")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        (held,) = (path for path in tmp_path.glob(".a.*.unfinished") if path.name not in mine)
        dead = tmp_path / ".a.00000000.unfinished"
        dead.write_bytes(b"half")
        remove_unfinished(tmp_path)
        assert held.exists()
        assert not dead.exists()
        writer.kill()
        writer.wait()
        remove_unfinished(tmp_path, "b")
        assert held.exists()
        remove_unfinished(tmp_path, "a")
        assert not held.exists()
    assert {path.name for path in tmp_path.iterdir()} == {*mine, ".b.0123abcd.unfinished"}
    remove_unfinished(tmp_path / "nowhere")


def test_what_the_dead_had_written_of_a_file_goes_when_it_is_written_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f".{name}.0123abcd.unfinished").write_bytes(b"half")
    write_atomically(tmp_path / "a", b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.0123abcd.unfinished", "a"]


def test_what_is_removed_does_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").touch()
    with operations(monkeypatch) as done:
        remove([tmp_path / "a", tmp_path / "b"])
    assert done == [f"open {tmp_path.name}", f"fsync {tmp_path.name}"]
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_free(tmp_path: Path) -> None:
    assert free_name(tmp_path / "a.json") == tmp_path / "a.json"
    (tmp_path / "a.json").write_text("")
    (tmp_path / "a-2.json").symlink_to("nowhere")
    assert free_name(tmp_path / "a.json") == tmp_path / "a-3.json"
