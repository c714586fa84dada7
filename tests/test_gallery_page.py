"""The gallery's page says what its list says, and every picture is named there with the commands that make it."""

import hashlib
import importlib
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support import ROOT

from ictrl.cli import parse
from ictrl.cli.gallery import GalleryCommand

PICTURES = ROOT / "docs" / "gallery"


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))  # where it finds its neighbours
    return importlib.import_module("publish_gallery")


def test_the_page_is_that_of_the_list(published: Any) -> None:
    assert published.page() == published.PAGE.read_text(encoding="utf-8")


def test_every_picture_is_named_and_small_and_has_words(published: Any) -> None:
    gallery = published.Gallery.read()
    named = [sheet.picture for sheet in gallery.sheets]
    assert len(named) == len(set(named))
    there = {path.name for path in PICTURES.glob("*.png")}
    assert there <= set(named)
    assert {path.name for path in PICTURES.iterdir()} - there == {published.MADE}
    assert published.undescribed(gallery) == []
    page = published.page()
    for name in named:
        if name in there:
            assert (PICTURES / name).stat().st_size <= published.LARGEST
            assert f"(gallery/{name})" in page
        else:
            assert f"`{name}`" in page.partition("Not made yet: ")[2]


def test_a_sheet_that_was_made_is_the_one_that_lies_there(published: Any) -> None:
    noted = json.loads((PICTURES / published.MADE).read_text(encoding="utf-8"))
    sheets = {sheet.picture for sheet in published.Gallery.read().sheets if sheet.runs}
    assert set(noted) == {name for name in sheets if (PICTURES / name).exists()}
    for name, note in noted.items():
        assert hashlib.sha256((PICTURES / name).read_bytes()).hexdigest() == note["sha256"], name
        assert "torch" in note["by"]


def test_every_command_can_be_typed(published: Any) -> None:
    gallery = published.Gallery.read()
    for sheet in gallery.sheets:
        for name in sheet.runs:
            run: Any = parse(shlex.split(gallery.run_of(name))[1:])
            assert run.settings.checkpoint.every_task
            assert run.out == Path("runs") / name
        if sheet.runs:
            drawn = parse(shlex.split(sheet.drawn_by())[1:])
            assert isinstance(drawn, GalleryCommand)
            assert [run.name for run in drawn.runs] == list(sheet.runs)


def test_a_new_picture_stands_on_the_page_once_somebody_has_said_what_it_shows(published: Any, tmp_path: Path) -> None:
    gallery = published.Gallery.read()
    coming = next(sheet for sheet in gallery.sheets if sheet.picture == "cifar10-by-class.png")
    gallery = replace(gallery, sheets=[coming])
    assert "Not made yet: `cifar10-by-class.png`" in published.page(gallery, tmp_path)
    Image.new("L", (30, 20)).save(tmp_path / coming.picture)
    assert published.undescribed(gallery, tmp_path) == ["cifar10-by-class.png"]
    described = replace(gallery, sheets=[replace(coming, alt="Rows of ships", caption="Only `dgr`\ndraws < 3 ships.")])
    assert published.undescribed(described, tmp_path) == []
    page = published.page(described, tmp_path)
    assert "[![Rows of ships](gallery/cifar10-by-class.png){ width=30 }](gallery/cifar10-by-class.png)" in page
    assert "<figcaption>Only <code>dgr</code> draws &lt; 3 ships.</figcaption>" in page
    assert "ictrl run dgr-cifar10-5 --checkpoint.every-task --out runs/dgr-cifar10-5" in page
    assert coming.drawn_by() in page


def test_a_sheet_is_made_with_the_runs_that_are_missing(
    published: Any, tmp_path: Path, short_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, asked = tmp_path / "gallery.toml", []
    listed.write_text(
        'introduction = "i"\nsections = [{ title = "s" }]\n[[sheets]]\n'
        'picture = "a.png"\nsection = "s"\nruns = ["one"]\n'
    )
    (tmp_path / "runs").mkdir()

    def ictrl(command: str) -> None:
        asked.append(command)
        if command.startswith("ictrl run"):
            (tmp_path / "runs" / "one").symlink_to(short_run)
        else:
            (tmp_path / "a.png").write_bytes(b"a picture")

    monkeypatch.setattr(published, "ictrl", ictrl)
    for _ in range(2):  # the second time the run is there
        published.make("a.png", tmp_path / "runs", "/data", tmp_path, listed)
    place = (tmp_path / "runs" / "one").as_posix()
    drawn = f"ictrl gallery {place} -o {(tmp_path / 'a.png').as_posix()}"
    assert asked == [f"ictrl run one --stream.root /data --checkpoint.every-task --out {place}", drawn, drawn]
    note = json.loads((tmp_path / published.MADE).read_text())["a.png"]
    assert note["sha256"] == hashlib.sha256(b"a picture").hexdigest()
    assert note["by"].startswith("cpu")
    with pytest.raises(SystemExit, match="Expected a sheet of gallery.toml"):
        published.make("b.png", tmp_path / "runs", "", tmp_path, listed)
