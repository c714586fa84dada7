"""POST /teach and what surrounds it: a learner learns while it answers, or stays as it was."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve_support import Client, encoded, events, form, line_of, of
from support import call, pictures

from ictrl import load_learner
from ictrl.experiment.taught import writing
from ictrl.methods import storage
from ictrl.serve import lesson, versions
from ictrl.serve.bounds import Limits
from ictrl.serve.estimate import accuracy_from_memory
from ictrl.training.loop import EpochReport

Serve = Callable[..., Client]
PNG = {"content-type": "image/png"}


def taught(client: Client, query: str = "", **classes: list[bytes]) -> list[tuple[str, dict[str, Any]]]:
    answer = client.post(f"/teach{query}", files=form(**classes))
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return events(answer.text)


def test_a_class_is_taught_while_the_service_goes_on(drawing: Path, serve: Serve) -> None:
    client = serve(drawing)
    told = taught(client, "?held_out=0.25&seed=3", hedgehog=of(3, 24), newt=of(4, 20))
    assert told[0] == ("begin", {"classes": {"hedgehog": 24, "newt": 20}})
    assert [event for event, _ in told[1:-1]] == ["progress"] * 4
    assert [(said["epoch"], said["epochs"]) for _, said in told[1:-1]] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    kind, done = told[-1]
    assert (kind, done["version"]) == ("done", 2)
    assert [(new["label"], new["name"], new["images"], new["held_out"]) for new in done["taught"]] == [
        (3, "hedgehog", 18, 6),
        (4, "newt", 15, 5),
    ]
    assert sorted(load_learner(drawing).labels) == [0, 1, 2, 3, 4]
    classes = {row["name"]: row for row in client.get("/classes").json()["classes"]}
    assert list(classes) == ["cat", "dog", "a/b c", "hedgehog", "newt"]
    assert (classes["newt"]["images"], classes["newt"]["tested"], classes["newt"]["among"]) == (15, 5, 5)
    assert client.get("/healthz").json() == {"status": "ok", "classes": 5, "version": 2, "teaching": False}
    said = client.post("/predict", content=of(3, 1)[0], headers=PNG).json()
    assert said["version"] == 2
    assert len(said["predictions"][0]["classes"]) == 5
    state = client.get("/teaching").json()
    assert (state["teaching"], state["last"]["outcome"], state["last"]["version"]) == (False, "done", 2)


def test_it_is_what_the_command_would_have_taught(wide: Path, serve: Serve, tmp_path: Path) -> None:
    """The same pictures in the same order with the same seed: the same numbers in the file."""
    other, folder = tmp_path / "other.safetensors", tmp_path / "new" / "hedgehog"
    other.write_bytes(wide.read_bytes())
    folder.mkdir(parents=True)
    for i, content in enumerate(of(3, 30)):
        (folder / f"{i:02d}.png").write_bytes(content)
    assert call("teach", other, folder.parent, "--device", "cpu", "--seed", "7") == 0
    taught(serve(wide), "?seed=7", hedgehog=of(3, 30))
    images = pictures([0, 1, 2, 3])[0]
    assert load_learner(wide).scores(images).equal(load_learner(other).scores(images))


def test_accuracy_before_and_after_is_estimated_from_replayed_pictures(drawing: Path, serve: Serve) -> None:
    again = of(0, 60, seed=0)  # the very pictures of cat, under another name
    before = accuracy_from_memory(load_learner(drawing))[0]
    _, done = taught(serve(drawing), twin=again)[-1]
    after = accuracy_from_memory(load_learner(drawing))[0]
    assert done["accuracy_of"].startswith("share of up to 100 pictures per class, replayed from memory")
    rows = {row["class"]: row for row in done["accuracy"]}
    labels = {"cat": 0, "dog": 1, "a/b c": 2, "twin": 3}
    assert {name: row["label"] for name, row in rows.items()} == labels
    for name, label in labels.items():
        assert rows[name]["before"] == (None if label == 3 else pytest.approx(before[label], abs=1e-6))
        assert rows[name]["after"] == pytest.approx(after[label], abs=1e-6)
    assert done["taught"][0]["likeness"]["name"] == "cat"


def test_a_learner_that_cannot_draw_says_that_nothing_is_estimated(wide: Path, serve: Serve) -> None:
    _, done = taught(serve(wide), hedgehog=of(3))[-1]
    assert {(row["before"], row["after"]) for row in done["accuracy"]} == {(None, None)}
    assert done["accuracy_of"].startswith("nothing:")
    assert done["taught"][0]["accuracy"] is not None


def test_the_estimate_leaves_the_learner_as_it_is(drawing: Path) -> None:
    learner, other = load_learner(drawing), load_learner(drawing)
    accuracy_from_memory(learner)
    assert learner.sample(0, 5).equal(other.sample(0, 5))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Teaching that begins, and goes on when it is told to."""
    begun, go, real = threading.Event(), threading.Event(), lesson.teach

    def teach(position: Any, images: Any, *, progress: Any, **how: Any) -> Any:
        begun.set()
        assert go.wait(30)
        progress(EpochReport(1, 2, {}, position.learner._state))
        return real(position, images, progress=progress, **how)

    monkeypatch.setattr(lesson, "teach", teach)
    yield begun, go
    go.set()


@contextmanager
def teaching(client: Client, held: tuple[threading.Event, threading.Event]) -> Iterator["Future[httpx.Response]"]:
    """A lesson that is under way, and goes on afterwards."""
    with ThreadPoolExecutor(1) as pool:
        lesson_ = pool.submit(client.post, "/teach", files=form(hedgehog=of(3)))
        assert held[0].wait(30)
        yield lesson_
        held[1].set()


def test_meanwhile_others_are_answered_by_the_learner_as_before(
    wide: Path, serve: Serve, held: tuple[threading.Event, threading.Event]
) -> None:
    client, before = serve(wide), wide.read_bytes()
    with teaching(client, held) as lesson_:
        assert client.post("/predict", content=of(3, 1)[0], headers=PNG).json()["version"] == 1
        state = client.get("/teaching").json()
        assert (state["teaching"], state["classes"]) == (True, {"hedgehog": 20})
        assert client.get("/healthz").json()["teaching"] is True
        for refused in (
            client.post("/teach", files=form(newt=of(4))),
            client.delete("/classes/cat"),
            client.post("/versions/1"),
        ):
            assert refused.status_code == 409
            line_of(refused)
        assert wide.read_bytes() == before
    assert events(lesson_.result().text)[-1][0] == "done"
    assert client.get("/healthz").json()["version"] == 2


def test_cancelled_it_is_as_it_was(wide: Path, serve: Serve, held: tuple[threading.Event, threading.Event]) -> None:
    client, before = serve(wide), wide.read_bytes()
    assert client.delete("/teaching").status_code == 409
    with teaching(client, held) as lesson_, ThreadPoolExecutor(1) as pool:
        cancelled = pool.submit(client.delete, "/teaching")
        while not client.core.teacher.lesson.cancelled.wait(0.01):  # type: ignore[union-attr]
            pass
        held[1].set()
        assert cancelled.result().json()["last"]["outcome"] == "cancelled"
    assert events(lesson_.result().text) == [("begin", {"classes": {"hedgehog": 20}}), ("cancelled", {})]
    assert wide.read_bytes() == before
    assert client.get("/healthz").json() == {"status": "ok", "classes": 3, "version": 1, "teaching": False}
    assert taught(client, hedgehog=of(3))[-1][0] == "done"  # it can be taught afterwards


def test_it_goes_on_if_the_client_goes_away(
    wide: Path, serve: Serve, held: tuple[threading.Event, threading.Event]
) -> None:
    client = serve(wide)
    running = client.core.teacher

    async def begin_and_leave() -> None:
        with running.turn():
            running.begin({"hedgehog": pictures([3])[0]}, 0.2, 0)

    client.await_(begin_and_leave())
    held[1].set()
    client.await_(running.ended(30))
    assert client.get("/teaching").json()["last"]["outcome"] == "done"


def test_a_learner_that_cannot_be_written_stays(wide: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    client, before = serve(wide), wide.read_bytes()

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(storage, "write_atomically", full)
    assert taught(client, hedgehog=of(3))[-1] == (
        "error",
        {"error": "Expected to write the learner but could not: No space left on device. It is as it was."},
    )
    assert wide.read_bytes() == before
    said = client.post("/predict", content=of(3, 1)[0], headers=PNG).json()
    assert (said["version"], len(said["predictions"][0]["classes"])) == (1, 3)
    monkeypatch.undo()
    assert taught(client, hedgehog=of(3))[-1][1]["version"] == 2


def test_a_version_that_cannot_be_kept_is_served_all_the_same(
    wide: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve(wide)

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(versions, "write_atomically", full)
    assert taught(client, hedgehog=of(3))[-1][1]["version"] == 2  # it is written, and nobody is told otherwise
    assert len(load_learner(wide).labels) == 4
    assert client.get("/healthz").json()["version"] == 2
    (record,) = caplog.records
    assert record.getMessage() == "Expected to keep version 2 but could not: No space left on device."


@pytest.mark.parametrize(
    ("query", "classes", "status", "line"),
    [
        ("", {}, 400, "it ends in the middle"),
        ("", {"cat": of(3)}, 400, "cat is known already"),
        ("", {"new": of(3, 9)}, 400, "at least 10 pictures of each class to learn from but got 7 of class new (2 more"),
        ("?held_out=0", {"new": of(3, 9)}, 400, "but got 9 of class new."),
        ("", {"new": [*of(3), b"broken"]}, 400, "It was sent as new/20.png; nothing is learned."),
        ("", {" ": of(3)}, 400, "1 to 200 printable characters, but got ' '"),
        ("", {"x" * 201: of(3)}, 400, "1 to 200 printable characters"),
        ("", {"a\x1b[2Jb": of(3)}, 400, "1 to 200 printable characters"),
        ("?held_out=1", {"new": of(3)}, 400, "held_out to be at least 0 and below 1"),
        ("?seed=-1", {"new": of(3)}, 400, "seed to be a whole number from 0"),
        ("?epochs=3", {"new": of(3)}, 400, "Expected the parameters held_out, seed but got 'epochs'"),
        ("", {"new": of(3, 31)}, 413, "at most 30 pictures in a request (--max-teaching-pictures)"),
    ],
)
def test_what_is_refused_before_anything_is_learned(
    wide: Path, serve: Serve, query: str, classes: dict[str, list[bytes]], status: int, line: str
) -> None:
    client, before = serve(wide, Limits(max_teaching_pictures=30)), wide.read_bytes()
    how: dict[str, Any] = {"files": form(**classes)}
    if not classes:
        how = {"content": b"", "headers": {"content-type": "multipart/form-data; boundary=b"}}
    answer = client.post(f"/teach{query}", **how)
    assert (answer.status_code, line in line_of(answer)) == (status, True), answer.text
    assert wide.read_bytes() == before
    assert taught(client, hedgehog=of(3))[-1][0] == "done"  # the turn was given back


def test_what_another_program_taught_is_taken_up_and_not_lost(wide: Path, serve: Serve, tmp_path: Path) -> None:
    client, folder = serve(wide), tmp_path / "new" / "newt"
    folder.mkdir(parents=True)
    for i, content in enumerate(of(4)):
        (folder / f"{i}.png").write_bytes(content)
    assert call("teach", wide, folder.parent, "--device", "cpu") == 0
    _, done = taught(client, hedgehog=of(3))[-1]  # before the service had time to look
    assert done["version"] == 3
    names = [row["name"] for row in client.get("/classes").json()["classes"]]
    assert names == ["cat", "dog", "a/b c", "newt", "hedgehog"]
    assert call("forget", wide, "newt", "--yes") == 0
    client.await_(client.core.refresh())
    assert client.get("/healthz").json() == {"status": "ok", "classes": 4, "version": 4, "teaching": False}


def test_while_another_program_teaches_it_refuses_to(wide: Path, serve: Serve) -> None:
    client = serve(wide)
    with writing(wide):
        kind, said = taught(client, hedgehog=of(3))[-1]
        assert (kind, "another process is using it" in said["error"]) == ("error", True)
        refused = client.delete("/classes/cat")
        assert (refused.status_code, "another process" in line_of(refused)) == (409, True)
    assert taught(client, hedgehog=of(3))[-1][0] == "done"


def test_a_file_that_became_unreadable_is_not_served(
    wide: Path, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    client, before = serve(wide), wide.read_bytes()
    wide.write_bytes(before[:1000])
    for _ in range(3):
        client.await_(client.core.refresh())
    assert len(caplog.records) == 1  # said once
    health = client.get("/healthz").json()
    assert (health["version"], "cut short" in health["trouble"]) == (1, True)
    assert client.post("/predict", content=of(0, 1)[0], headers=PNG).status_code == 200
    wide.write_bytes(before)
    client.await_(client.core.refresh())
    assert client.get("/healthz").json() == {"status": "ok", "classes": 3, "version": 1, "teaching": False}


def test_names_as_browsers_and_curl_send_them(wide: Path, serve: Serve) -> None:
    image = encoded(pictures([3], each=1)[0][0])
    part = (
        b'--b\r\nContent-Disposition: form-data; name="l\xc3\xa9on %22x%22/1"; filename="a.png"\r\n'
        b"Content-Type: image/png\r\n\r\n" + image + b"\r\n"
    )
    body, headers = part * 12 + b"--b--\r\n", {"content-type": "multipart/form-data; boundary=b"}
    answer = serve(wide).post("/teach?held_out=0", content=body, headers=headers)
    assert events(answer.text)[-1][1]["taught"][0]["name"] == 'léon "x"/1'
