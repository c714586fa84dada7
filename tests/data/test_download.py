"""Downloads, from a server on this machine."""

import functools
import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ictrl.config import StreamConfig
from ictrl.data import cache_folder, download, list_datasets, load_dataset
from ictrl.data.registry import ENTRIES, registered
from ictrl.errors import InputError


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder and the address under which a server offers it."""
    monkeypatch.setenv("NO_PROXY", "*")
    folder = tmp_path / "served"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


def md5(path: Path) -> str:
    return "md5:" + hashlib.md5(path.read_bytes()).hexdigest()


def offer(monkeypatch: pytest.MonkeyPatch, name: str, base: str, files: list[Path] | None = None) -> None:
    """Let the dataset come from there, with the hashes that the files have, or with its own."""
    entry = registered()[name]
    assert entry.source is not None
    source = replace(entry.source, base=base)
    if files is not None:
        source = replace(source, hashes={file.name: md5(file) for file in files})
    monkeypatch.setitem(ENTRIES, name, replace(entry, source=source))


def tar(path: Path, contents: dict[str, bytes], links: dict[str, str] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return path


@pytest.fixture
def cifar100_archive(served, official, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    official.cifar("cifar100", "binary")
    made = tmp_path / "cifar-100-binary"
    contents = {f"cifar-100-binary/{file}": (made / file).read_bytes() for file in ("train.bin", "test.bin")}
    contents["cifar-100-binary/fine_label_names.txt"] = "\n".join(f"n{i}" for i in range(100)).encode()
    contents["../escaped.bin"] = b"outside"
    contents["/tmp/../../escaped/train.txt"] = b"outside"
    archive = tar(served[0] / "cifar-100-binary.tar.gz", contents, {"cifar-100-binary/coarse_label_names.txt": "/etc"})
    offer(monkeypatch, "cifar100", served[1], [archive])
    return archive


def everything_in(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_single_files(served, official, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    official.mnist("served", compressed=True)
    offer(monkeypatch, "mnist", served[1], sorted(served[0].iterdir()))
    root = tmp_path / "root"
    assert download("mnist", root) == root / "MNIST/raw"
    assert len(list((root / "MNIST/raw").iterdir())) == 4
    assert len(load_dataset(StreamConfig(dataset="mnist", root=str(root)), 32, 1).images) == 30


def test_an_archive_is_unpacked_and_nothing_else_is_left(cifar100_archive: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert download("cifar100", root) == root / "cifar-100-binary"
    files = ["fine_label_names.txt", "test.bin", "train.bin"]
    assert everything_in(root) == ["cifar-100-binary", *(f"cifar-100-binary/{file}" for file in files)]
    assert not (tmp_path / "escaped.bin").exists()
    assert load_dataset(StreamConfig(dataset="cifar100", root=str(root)), 32, 3).class_names[99] == "n99"


def test_what_is_there_is_not_fetched_again(cifar100_archive: Path, tmp_path: Path) -> None:
    download("cifar100", tmp_path / "root")
    cifar100_archive.unlink()
    assert download("cifar100", tmp_path / "root").is_dir()


def test_an_incomplete_folder_is_completed_and_keeps_what_is_in_it(cifar100_archive: Path, tmp_path: Path) -> None:
    folder = tmp_path / "root/cifar-100-binary"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    download("cifar100", tmp_path / "root")
    assert {"notes.txt", "train.bin", "test.bin"} <= {path.name for path in folder.iterdir()}


def test_a_wrong_hash_leaves_nothing(cifar100_archive: Path, tmp_path: Path) -> None:
    cifar100_archive.write_bytes(cifar100_archive.read_bytes() + b"!")
    with pytest.raises(InputError, match=r"cifar-100-binary\.tar\.gz to have the hash md5:\w{32} but it has another"):
        download("cifar100", tmp_path / "root")
    assert everything_in(tmp_path / "root") == []


def test_an_archive_without_the_files_is_refused(served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tar(
        served[0] / "cifar-10-binary.tar.gz", {"other/readme.txt": b""}, {"x/data_batch_1.bin": "/etc/passwd"}
    )
    offer(monkeypatch, "cifar10", served[1], [archive])
    with pytest.raises(InputError, match=r"Expected data_batch_1\.bin, .* did not find it there"):
        download("cifar10", tmp_path / "root")
    assert everything_in(tmp_path / "root") == []


def test_no_network_says_which_files_to_put_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    offer(monkeypatch, "mnist", "http://127.0.0.1:9/")
    with pytest.raises(InputError) as caught:
        download("mnist", tmp_path / "root", progress=False)
    assert str(caught.value) == (
        f"Expected to download mnist from http://127.0.0.1:9/ into {tmp_path / 'root/MNIST/raw'} but got: "
        "ConnectionError. Without network, put train-images-idx3-ubyte, train-labels-idx1-ubyte, "
        "t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte there by hand (or their .gz)."
    )


def test_an_address_that_is_gone(served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "cifar10", served[1])
    with pytest.raises(InputError, match=r"but got: HTTPError 404\. Without network, put data_batch_1\.bin, .* there"):
        download("cifar10", tmp_path / "root")
    assert everything_in(tmp_path / "root") == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"Expected to download mnist .* but got: (Not a directory|File exists)"):
        download("mnist", tmp_path / "file")


def test_the_first_layout_of_a_source_has_the_files_that_it_gives() -> None:
    for entry in registered().values():
        if entry.source is not None and entry.source.archive is None:
            assert entry.layouts[0].compressed
            assert {f"{file}.gz" for file in entry.layouts[0].files} == set(entry.source.hashes)


@pytest.mark.parametrize("name", ["digits", "folder", "imagenet"])
def test_what_cannot_be_downloaded(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"can be downloaded \(mnist, fashion-mnist, cifar10, cifar100\) but got"):
        download(name, tmp_path)


def test_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("ICTRL_DATA")
    assert cache_folder().name.lower().startswith(("ictrl", "cache"))


def test_downloads_go_to_the_cache_folder(cifar100_archive: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path / "cache"))
    assert not {listing.name: listing.present for listing in list_datasets()}["cifar100"]
    assert download("cifar100") == tmp_path / "cache/cifar-100-binary"
    assert {listing.name: listing.present for listing in list_datasets()}["cifar100"]


def test_an_archive_with_a_file_beyond_the_limit_is_not_unpacked(
    cifar100_archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICTRL_MAX_UNPACKED_BYTES", "1000")
    with pytest.raises(InputError, match=r"cifar-100-binary\.tar\.gz has one of .*UNPACKED_BYTES"):
        download("cifar100", tmp_path / "root")
    assert everything_in(tmp_path / "root") == []


@pytest.mark.parametrize("damage", [lambda b: b"no archive", lambda b: b[:300]])
def test_an_archive_that_is_none_is_said_in_a_line(cifar100_archive: Path, tmp_path: Path, monkeypatch, served, damage):
    cifar100_archive.write_bytes(damage(cifar100_archive.read_bytes()))
    offer(monkeypatch, "cifar100", served[1], [cifar100_archive])  # with the hash that it has now
    with pytest.raises(InputError, match=r"cifar-100-binary\.tar\.gz(: it| to be an archive but got: )?") as caught:
        download("cifar100", tmp_path / "root")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "root").glob("cifar*"))
