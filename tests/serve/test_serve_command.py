"""`ictrl serve` as a process: how it begins, what it refuses, how it ends."""

import json
import random
import re
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve_support import form, of
from support import ROOT, call, script

from ictrl import load_learner
from ictrl.cli import serve as command
from ictrl.experiment.run_folder import LOCK

sys.path.insert(0, str(ROOT / "experiments"))  # where the scripts find their neighbours
serving = script("serving")
hostile = script("hostile")
serve_hostile = script("serve_hostile")
kill_serving = script("kill_serving")
serve_load = script("serve_load")
OPTIONS = ["--body-timeout", "0.5", "--max-body", "2", "--max-connections", "40", "--threads", "1"]


@pytest.fixture(scope="module")
def learner(wide_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "learner.safetensors"
    path.write_bytes(wide_file.read_bytes())
    return path


@pytest.fixture(scope="module")
def server(learner: Path) -> Iterator[Any]:
    with serving.served(learner, *OPTIONS) as running:
        yield running


def test_it_says_where_it_is_and_answers(server: Any, learner: Path) -> None:
    assert server.log.read_text() == (
        f"Serving {learner}: wide, 3 classes, version 1\n"
        "  cat dog a/b c\n"
        f"Taught, it is written to {learner}; 5 versions are kept in {learner.with_suffix('.versions')}\n"
        f"Open http://127.0.0.1:{server.port}/ (Ctrl-C stops it)\n"
    )
    with httpx.Client(base_url=server.url) as client:
        assert client.get("/healthz").json()["classes"] == 3
        found = client.post("/predict", files=form(a=of(0, 3))).json()["predictions"]
        assert len(found) == 3
        assert client.get("/").headers["content-type"].startswith("text/html")


def test_hostile_requests_are_refused_in_one_line(server: Any, learner: Path) -> None:
    """A handful; run by hand, `experiments/serve_hostile.py` sends ten thousand."""
    before, log = learner.read_bytes(), server.log.read_text()
    answers: dict[int, tuple[str, str]] = {}
    asked = [hostile.hostile(random.Random(f"test {number}")) for number in range(150)]
    asked += [kind(random.Random(7)) for kind in hostile.QUICK]

    def send(number: int) -> None:
        answers[number] = asked[number].kind, serve_hostile.send(server.port, asked[number])[0]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, range(len(asked))))
    assert {kind for kind, _ in answers.values()} >= {"bomb", "huge", "wrong form", "wrong head", "wrong lesson"}
    assert {answer for answer in answers.values() if not re.fullmatch(r"4\d\d|closed|left", answer[1])} == set()
    assert server.log.read_text() == log  # not a line, and no traceback
    assert learner.read_bytes() == before
    assert httpx.get(f"{server.url}/healthz").json()["version"] == 1


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", b""),
        (b"GET /hea", b"408"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"408"),
        (b"\0\0\r\n\r\n", b"400"),
    ],
)
def test_a_head_that_does_not_come(server: Any, sent: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(sent)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))  # until it is closed
    if status:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 " + status)
        assert list(json.loads(body)) == ["error"]
    else:
        assert answer == b""


def test_a_second_request_on_a_connection_may_not_come_slowly_either(server: Any) -> None:
    good = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        for _ in range(2):
            connection.sendall(good)
            received = b""
            while not serve_hostile._whole(received):
                received += connection.recv(65536)
            assert received.startswith(b"HTTP/1.1 200")
        connection.sendall(good[:20])
        assert connection.recv(65536).startswith(b"HTTP/1.1 408")


def test_too_many_connections(server: Any) -> None:
    held = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(40)]
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"--max-connections" in answer
    finally:
        for connection in held:
            connection.close()


def refused(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    capfd.readouterr()
    assert call("serve", *arguments) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    assert captured.err.startswith("error: ")
    return captured.err.removeprefix("error: ")


def test_what_it_cannot_begin_with(
    server: Any, learner: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = refused(capfd, learner, "--port", str(server.port))
    assert line.startswith(f"Expected port {server.port} to be free but another program listens there")
    assert "there is no" in refused(capfd, tmp_path / "none", "--port", "0")
    assert "no config.toml" in refused(capfd, tmp_path, "--port", "0")
    assert "--port from 0 to 65535 but got 70000" in refused(capfd, learner, "--port", "70000")
    assert "address of this machine" in refused(capfd, learner, "--host", "not an address", "--port", "0")
    assert "--versions of at least 1" in refused(capfd, learner, "--versions", "0", "--port", "0")
    assert "at least 16 printable" in refused(capfd, learner, "--token", "short", "--port", "0")
    monkeypatch.setenv("ICTRL_TOKEN", "short too")
    assert "at least 16 printable" in refused(capfd, learner, "--port", "0")
    monkeypatch.delenv("ICTRL_TOKEN")
    (tmp_path / "file").write_text("in the way")
    path = tmp_path / "folder" / "learner.safetensors"
    path.parent.mkdir()
    path.write_bytes(learner.read_bytes())
    (tmp_path / "folder" / "learner.versions").write_text("in the way")
    assert call("serve", path, "--port", "0") == 1
    assert "Not a directory" in capfd.readouterr().err


def test_without_the_extra_it_says_how_to_install_it(
    learner: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("ictrl.serve.", "starlette"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert refused(capfd, learner) == (
        "Expected the extra packages of the service but starlette is not installed: pip install 'ictrl[serve]'.\n"
    )


def test_the_help_teaches(capfd: pytest.CaptureFixture[str]) -> None:
    assert call("serve", "--help") == 0
    out = " ".join(capfd.readouterr().out.split())
    for part in (
        "curl -F picture=@cat.jpg",
        "ICTRL_TOKEN",
        "--max-pixels",
        "--read-only",
        "No picture is ever written",
    ):
        assert part in out, part


def test_listening_for_others_it_makes_a_token(learner: Path) -> None:
    with serving.served(learner, "--host", "0.0.0.0", "--read-only") as server:
        found = re.search(r"Token, printed this once: (\S+)", server.log.read_text())
        assert found
        assert f"/#token={found[1]} " in server.log.read_text()
        assert "--read-only" in server.log.read_text()
        anyone = httpx.get(f"{server.url}/classes", headers={"host": "my-machine.local"})
        assert anyone.status_code == 401
        good = {"authorization": f"Bearer {found[1]}", "host": "my-machine.local"}
        assert httpx.get(f"{server.url}/classes", headers=good).status_code == 200
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 130
        assert server.log.read_text().endswith("\nStopped. The learner is version 1.\n")


def test_which_token_it_takes(learner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "0123456789abcdef"
    assert command.ServeCommand(learner)._token(local=True) == (None, False)
    assert command.ServeCommand(learner, token=long)._token(local=True) == (long, False)
    made, new = command.ServeCommand(learner)._token(local=False)
    assert (len(made or ""), new) == (32, True)
    assert command.ServeCommand(learner, public_name=("a.example",))._token(local=True)[1]
    monkeypatch.setenv("ICTRL_TOKEN", long)
    assert command.ServeCommand(learner)._token(local=True) == (long, False)


def test_stopped_while_it_teaches_the_learner_is_as_it_was(drawing_file: Path, tmp_path: Path) -> None:
    """And what was being answered is answered."""
    path = tmp_path / "learner.safetensors"
    load_learner(drawing_file, "cpu").save(path)
    before = path.read_bytes()
    server = serving.start(path)
    images, told = [content for i in range(25) for content in of(5, 100, seed=i)], b""
    with httpx.stream("POST", f"{server.url}/teach", files=form(new=images), timeout=60) as answer:
        for part in answer.iter_bytes():
            told += part
            if b"event: progress" in told and server.process.poll() is None:
                server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    assert b"event: cancelled" in told  # whoever watches is told
    assert b"event: done" not in told
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".*.unfinished"))
    assert "Traceback" not in server.log.read_text()
    server.log.unlink()


def test_killed_while_it_teaches_it_is_the_old_or_the_new_learner(tmp_path: Path) -> None:
    """Once; run by hand, `experiments/kill_serving.py` does it as often as one likes."""
    path, new = kill_serving.prepare(tmp_path)
    before, sent = path.read_bytes(), kill_serving.lesson(new)
    left, told, _ = kill_serving.attempt(path, before, sent, None)  # while the new learner is being written
    assert left in (kill_serving.OLD, kill_serving.NEW)
    assert (path.read_bytes() == before) == (left == kill_serving.OLD)
    assert left == kill_serving.NEW or not told


def test_the_load_script_counts_wrong_answers(wide_file: Path, tmp_path: Path) -> None:
    learner = load_learner(wide_file, "cpu")
    (tmp_path / "version-000001.safetensors").write_bytes(wide_file.read_bytes())
    images = serve_load.torch.zeros(1, 1, 8, 8, dtype=serve_load.torch.uint8)
    distances = (-learner.scores(images))[0].tolist()
    rows = [{"label": label, "distance": distance} for label, distance in enumerate(distances)]
    nearest = min(rows, key=lambda row: row["distance"])["label"]
    good = {"version": 1, "predictions": [{"label": nearest, "classes": rows}]}
    other = {"version": 1, "predictions": [{"label": (nearest + 1) % 3, "classes": rows}]}
    fewer = {"version": 1, "predictions": [{"label": nearest, "classes": rows[:2]}]}
    far = {"version": 1, "predictions": [{"label": nearest, "classes": [{**row, "distance": 7e5} for row in rows]}]}
    answers = [(0, answer) for answer in (good, other, fewer, far)]
    assert serve_load.check(answers, tmp_path, images) == (3, [1])


def test_a_learner_that_cannot_be_locked(learner: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "learner.safetensors"
    path.write_bytes(learner.read_bytes())
    (tmp_path / f".{path.name}{LOCK}").mkdir()  # in the way, for whoever may write anywhere too
    assert "Expected to write into" in refused(capfd, path, "--port", "0")
