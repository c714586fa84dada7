"""Kept versions: going back, forgetting, restarting, and leaving alone what is not one's own."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from serve_support import Client, form, line_of, of
from support import call, pictures

from ictrl import InputError, load_learner
from ictrl.experiment.taught import TAUGHT
from ictrl.methods.storage import LEARNER, read_stored
from ictrl.serve.host import LearnerHost

Serve = Callable[..., Client]


def versions(client: Client) -> dict[int, dict[str, Any]]:
    found = client.get("/versions").json()
    rows = {row["version"]: row for row in found["versions"]}
    assert [number for number, row in rows.items() if row["current"]] == [found["version"]]
    assert list(rows) == sorted(rows, reverse=True)
    return rows


def teach(client: Client, name: str, label: int) -> None:
    assert "event: done" in client.post("/teach", files=form(**{name: of(label)})).text


def test_one_can_go_back_and_forward(wide: Path, serve: Serve) -> None:
    client, before = serve(wide), wide.read_bytes()
    teach(client, "hedgehog", 3)
    rows = versions(client)
    assert [(number, row["what"], len(row["classes"])) for number, row in rows.items()] == [
        (2, "taught hedgehog", 4),
        (1, "as it was found", 3),
    ]
    answer = client.post("/versions/1")
    assert (answer.json()["version"], len(answer.json()["classes"])) == (1, 3)
    assert wide.read_bytes() == before
    assert client.post("/predict", files=form(a=of(0, 1))).json()["version"] == 1
    assert client.post("/versions/2").json()["classes"][3]["name"] == "hedgehog"
    assert len(load_learner(wide).labels) == 4
    client.post("/versions/1")
    teach(client, "newt", 4)  # numbers go on from the highest
    assert [row["what"] for row in versions(client).values()] == ["taught newt", "taught hedgehog", "as it was found"]


def test_a_restarted_service_knows_them(wide: Path, serve: Serve) -> None:
    first = serve(wide)
    teach(first, "hedgehog", 3)
    first.post("/versions/1")
    second = serve(wide)
    assert second.get("/healthz").json()["version"] == 1
    assert versions(second)[2]["what"] == "taught hedgehog"
    assert second.post("/versions/2").json()["version"] == 2


def test_only_the_last_ones_are_kept_and_strangers_left_alone(wide: Path, serve: Serve) -> None:
    folder = wide.with_suffix(".versions")
    folder.mkdir()
    for name in ("notes.txt", "version-7.safetensors", "version-000099.safetensors.bak", "version-000098.safetensors"):
        (folder / name).write_text("mine")
    client = serve(wide, versions=2)
    for i in range(3):
        teach(client, f"new {i}", 3 + i)
    assert list(versions(client)) == [4, 3]
    assert sorted(path.name for path in folder.iterdir()) == [
        "notes.txt",
        *("version-000003.safetensors", "version-000004.safetensors", "version-000098.safetensors"),
        *("version-000099.safetensors.bak", "version-7.safetensors"),
    ]
    assert (folder / "version-000098.safetensors").read_text() == "mine"


def test_forgetting_says_what_is_kept_and_can_remove_it(wide: Path, serve: Serve) -> None:
    client = serve(wide)
    teach(client, "hedgehog", 3)
    teach(client, "newt", 4)
    said = client.delete("/classes/hedgehog").json()
    assert (said["version"], said["kept_versions_with_it"]) == (4, 2)
    assert said["remains"][-1] == "the kept versions 3, 2, which still know it"
    assert "hedgehog" not in "".join(read_stored(wide, LEARNER).notes.values())  # not even in a note of what was done
    assert versions(client)[4]["what"] == "forgot a class"
    client.post("/versions/3")
    said = client.delete("/classes/hedgehog?versions=remove").json()
    assert (said["version"], said["kept_versions_with_it"]) == (5, 0)
    assert list(versions(client)) == [5, 4, 1]
    assert not [path for path in wide.parent.rglob("*") if path.is_file() and b"hedgehog" in path.read_bytes()]


def test_a_class_whose_name_needs_encoding(wide: Path, serve: Serve) -> None:
    client = serve(wide)
    assert client.delete("/classes/a%2Fb%20c").json()["version"] == 2
    assert [row["name"] for row in client.get("/classes").json()["classes"]] == ["cat", "dog"]
    assert client.delete("/classes/a/b c").status_code == 404
    assert "learned are cat, dog" in line_of(client.delete("/classes/cow"))
    assert client.delete("/classes/%ff").status_code == 400
    assert client.delete("/classes/cat").status_code == 200
    assert "the only one is to be forgotten" in line_of(client.delete("/classes/dog"))


@pytest.mark.parametrize(
    ("path", "status", "line"),
    [
        ("/versions/9", 404, "kept are 1"),
        ("/versions/x", 400, "'x'"),
        ("/versions/-1", 400, "'-1'"),
        ("/versions/", 404, ""),
    ],
)
def test_versions_that_are_none(wide: Path, serve: Serve, path: str, status: int, line: str) -> None:
    answer = serve(wide).post(path)
    assert (answer.status_code, line in line_of(answer)) == (status, True)


def test_a_damaged_version_is_refused(wide: Path, serve: Serve) -> None:
    client = serve(wide)
    teach(client, "hedgehog", 3)
    first, before = wide.with_suffix(".versions") / "version-000001.safetensors", wide.read_bytes()
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    answer = client.post("/versions/1")
    assert (answer.status_code, "is damaged" in line_of(answer)) == (400, True)
    assert wide.read_bytes() == before
    assert client.get("/healthz").json()["version"] == 2


def test_of_a_run_the_first_version_is_its_checkpoint(short_run: Path, tmp_path: Path, serve: Serve) -> None:
    run = tmp_path / "run"
    shutil.copytree(short_run, run)
    own = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    images = pictures([0, 1, 2, 3])[0]
    before = load_learner(run).scores(images)
    client = serve(run)
    answer = client.post("/teach?held_out=0", files=form(ten=of(3)))
    assert "event: done" in answer.text, answer.text
    assert "the run's own checkpoints" in client.delete("/classes/4").json()["remains"][-2]
    assert {path: path.read_bytes() for path in own} == own  # the run stays as it is
    assert client.post("/versions/1").json()["version"] == 1
    assert torch.equal(load_learner(run / TAUGHT).scores(images), before)
    assert serve(run).get("/healthz").json()["version"] == 1
    assert call("predict", run, *sorted(tmp_path.glob("none"))) == 2  # the folder is still one that commands open


def test_what_cannot_be_changed_says_so_and_writes_nothing(wide: Path, serve: Serve, tmp_path: Path) -> None:
    small = tmp_path / "small" / "small.safetensors"
    small.parent.mkdir()
    load_learner(wide).save(small, inference_only=True)
    for client, reason in (
        (serve(wide, read_only=True), "--read-only"),
        (serve(small), "its file was saved with inference_only=True"),
    ):
        can = client.get("/classes").json()["can"]
        assert (can["learn"], can["forget"]) == (False, False)
        for answer in (
            client.post("/teach", files=form(new=of(3))),
            client.delete("/classes/cat"),
            client.post("/versions/1"),
        ):
            assert (answer.status_code, reason in line_of(answer)) == (409, True), answer.text
        assert client.post("/predict", files=form(a=of(0, 1))).status_code == 200
        assert client.get("/versions").json()["versions"] == []
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [wide.name, small.name]


def test_what_cannot_be_served(tmp_path: Path, wide: Path) -> None:
    for path, line in ((tmp_path / "none", "there is no"), (tmp_path, "no config.toml")):
        with pytest.raises(InputError, match=line):
            LearnerHost(path, "cpu")
    wide.write_bytes(b"short")
    with pytest.raises(InputError, match="cut short or of another kind"):
        LearnerHost(wide, "cpu")
