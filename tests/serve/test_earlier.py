"""How a class was drawn before: by the learners of earlier tasks and by kept versions."""

import base64
import io
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from method_support import recipe_of
from PIL import Image
from serve_support import Client, form, line_of, of
from support import pictures

from ictrl import create_learner, load_learner
from ictrl.methods.capabilities import with_seed

Serve = Callable[..., Client]


@pytest.fixture
def run(short_run: Path, tmp_path: Path) -> Path:
    """Two tasks of five digits, each with its checkpoint."""
    return Path(shutil.copytree(short_run, tmp_path / "run"))


def told(client: Client, name: str) -> list[tuple[str, str]]:
    found = client.get(f"/classes/{name}/earlier").json()["earlier"]
    return [(one["id"], one["what"]) for one in found]


def drawn(client: Client, path: str) -> torch.Tensor:
    answer = client.get(path, headers={"accept": "application/json"})
    assert answer.status_code == 200, answer.text
    shown = [base64.b64decode(url.partition(",")[2]) for url in answer.json()["pictures"]]
    return torch.stack([torch.from_numpy(np.array(Image.open(io.BytesIO(content)))) for content in shown])


def test_of_a_run_the_tasks_before_draw_the_class_too(run: Path, serve: Serve) -> None:
    client = serve(run)
    assert told(client, "1") == [("task-1", "after task 1")]
    assert told(client, "7") == []  # of the second task, which is what is served
    first = load_learner(run / "checkpoint" / "after-task-001.safetensors", "cpu")
    shown = drawn(client, "/classes/1/samples?n=4&seed=3&of=task-1")
    assert torch.equal(shown, with_seed(first, 3).sample(1, 4)[:, 0])
    assert not torch.equal(shown, drawn(client, "/classes/1/samples?n=4&seed=3"))
    assert client.get("/classes/1/samples?of=task-1").headers["content-type"] == "image/png"


def test_versions_that_knew_the_class_follow_and_none_is_named_twice(run: Path, serve: Serve) -> None:
    client = serve(run)
    assert "event: done" in client.post("/teach?held_out=0", files=form(ten=of(3))).text
    assert told(client, "1") == [("task-1", "after task 1"), ("task-2", "after task 2")]  # which version 1 is a copy of
    assert told(client, "ten") == []
    client.delete("/classes/0")
    assert told(client, "1")[2:] == [("version-2", "version 2, taught ten")]
    assert told(client, "ten") == [("version-2", "version 2, taught ten")]
    second = load_learner(run / "taught.versions" / "version-000002.safetensors", "cpu")
    shown = drawn(client, "/classes/ten/samples?n=3&of=version-2")
    assert torch.equal(shown, with_seed(second, 0).sample(max(second.labels), 3)[:, 0])
    assert client.get("/classes/0/earlier").status_code == 404  # what was forgotten is drawn by nobody any more
    assert client.get("/classes/0/samples?of=task-1").status_code == 404


def test_a_learner_that_may_not_be_changed_shows_its_tasks_and_writes_nothing(run: Path, serve: Serve) -> None:
    assert told(serve(run, read_only=True), "1") == [("task-1", "after task 1")]
    assert not (run / "taught.versions").exists()


def test_a_file_by_itself_has_nothing_earlier_until_it_changes(drawing: Path, serve: Serve) -> None:
    client = serve(drawing)
    assert told(client, "cat") == []
    client.delete("/classes/dog")
    assert told(client, "cat") == [("version-1", "version 1, as it was found")]


@pytest.mark.parametrize(
    ("query", "status", "line"),
    [
        ("of=task-2", 404, "got 'task-2'; there are task-1."),  # which is what is served
        ("of=../../etc/passwd", 404, "there are task-1."),
        ("of=", 404, "got ''"),
        ("of=task-1&direction=0", 400, "Expected either direction or of but got both."),
        ("of=task-1&n=0", 400, "Expected n to be a whole number from 1 to 100"),
    ],
)
def test_what_cannot_be_asked_is_said(run: Path, serve: Serve, query: str, status: int, line: str) -> None:
    answer = serve(run).get(f"/classes/1/samples?{query}")
    assert (answer.status_code, line in line_of(answer)) == (status, True), answer.text


def test_a_damaged_file_is_said_and_the_rest_goes_on(run: Path, serve: Serve) -> None:
    client, path = serve(run), run / "checkpoint" / "after-task-001.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # its header is good, its numbers are not
    path.write_bytes(content)
    assert told(client, "1") == [("task-1", "after task 1")]
    answer = client.get("/classes/1/samples?of=task-1")
    assert (answer.status_code, "is damaged" in line_of(answer)) == (409, True)
    path.write_bytes(b"nothing")
    assert told(client, "1") == []


def test_who_cannot_draw_says_so(wide: Path, serve: Serve) -> None:
    assert "method is wide" in line_of(serve(wide).get("/classes/cat/earlier"))


@pytest.mark.parametrize("method", ["dgr", "mergan", "eec"])
def test_methods_without_directions_are_drawn_by_too(method: str, tmp_path: Path, serve: Serve) -> None:
    learner = create_learner(recipe_of(method)).learn(*pictures([0, 1], each=30))
    learner.save(tmp_path / "rival.safetensors")
    client = serve(tmp_path / "rival.safetensors")
    assert torch.equal(drawn(client, "/classes/1/samples?n=4&seed=2"), with_seed(learner, 2).sample(1, 4)[:, 0])
    assert "keeps none of a class" in line_of(client.get("/classes/1/samples?direction=0"))
