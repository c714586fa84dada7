"""Nothing is without bounds, nothing is kept: bodies, seconds, memory, labels of metrics, files."""

import asyncio
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serve_support import Client, events, form, large, line_of, of

from ictrl import InputError
from ictrl.serve.bounds import MB, Limits
from ictrl.serve.refusals import RefusedError
from ictrl.serve.uploads import Budget, Form

Serve = Callable[..., Client]
PNG = {"content-type": "image/png"}
OPENED: list[str] | None = None


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Notes files that are opened to be written, and temporary ones, while somebody listens."""
    if OPENED is None:
        return
    if event == "open":
        path, mode, flags = arguments
        writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & 0b11)
        if writes and not isinstance(path, int):  # which was opened before
            OPENED.append(str(path))
    elif event.startswith("tempfile."):
        OPENED.append(str(arguments[0]))


sys.addaudithook(watch)


def test_no_picture_is_written_to_disk(wide: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of megabytes, which frameworks put into temporary files: only learner and versions are written."""
    client = serve(wide)
    picture, classes = large(1200), {"hedgehog": [large(1100 + i) for i in range(12)]}
    assert len(picture) > MB
    opened: list[str] = []
    monkeypatch.setattr(sys.modules[__name__], "OPENED", opened)
    assert client.post("/predict", content=picture, headers=PNG).status_code == 200
    assert client.post("/predict", files=form(a=[picture, picture])).status_code == 200
    assert client.post("/predict", files=form(a=[picture[:-5000]])).status_code == 400
    assert opened == []
    assert events(client.post("/teach", files=form(**classes)).text)[-1][0] == "done"
    monkeypatch.undo()
    ours = re.compile(rf"{re.escape(str(wide.parent))}/(\.?learner\.safetensors.*|learner\.versions/.*)")
    assert opened  # the watch sees what is written
    assert [path for path in opened if not ours.fullmatch(path)] == []
    assert sorted(path.name for path in wide.parent.rglob("*") if path.suffix == ".safetensors") == [
        *("learner.safetensors", "version-000001.safetensors", "version-000002.safetensors")
    ]


def test_names_of_files_are_not_logged(wide: Path, serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    client = serve(wide)
    files = [("secret-class", ("secret-name.png", content, "image/png")) for content in [*of(3), b"broken"]]
    assert client.post("/predict", files=files).status_code == 200
    assert client.post("/teach", files=files).status_code == 400
    own = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]  # the client's
    assert "secret" not in " ".join(record.getMessage() for record in own)


async def chunked(size: int) -> Any:
    for _ in range(size // 1000):
        yield bytes(1000)


def test_a_body_is_bounded_before_and_while_it_comes(wide: Path, serve: Serve) -> None:
    client = serve(wide, Limits(max_body=1, max_teaching=2))
    for target, body, option in (
        ("/predict", bytes(1_100_000), "at most 1 MB (--max-body)"),
        ("/predict", chunked(1_100_000), "at most 1 MB (--max-body)"),
    ):
        answer = client.post(target, content=body, headers=PNG)
        assert (answer.status_code, option in line_of(answer)) == (413, True)
    answer = client.post("/teach", files=form(new=[large(900)] * 3))
    assert (answer.status_code, "at most 2 MB (--max-teaching)" in line_of(answer)) == (413, True)
    answer = client.post("/teach", files=form(new=[large(1100)]))
    assert (answer.status_code, "a picture of at most 1 MB (--max-body)" in line_of(answer)) == (413, True)


def test_a_body_that_does_not_come_is_given_up(wide: Path, serve: Serve) -> None:
    async def stalled() -> Any:
        yield bytes(100)
        await asyncio.sleep(30)

    answer = serve(wide, Limits(body_timeout=0.1)).post("/predict", content=stalled(), headers=PNG)
    assert (answer.status_code, "got 100 bytes of it in time (--body-timeout)" in line_of(answer)) == (408, True)


def test_uploads_share_a_budget() -> None:
    budget = Budget(100)
    with budget.share() as one, budget.share() as other:
        one.hold(60)
        other.hold(40)
        with pytest.raises(RefusedError, match="--max-upload") as refused:
            other.hold(41)
        assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
        one.hold(10)
        other.hold(90)
        assert budget.taken == 100
    assert budget.taken == 0


def test_after_refusals_nothing_of_the_budget_is_taken(wide: Path, serve: Serve) -> None:
    client = serve(wide, Limits(max_upload=1))
    assert client.post("/predict", content=large(1100), headers=PNG).status_code == 503
    assert client.post("/predict", files=form(a=[large(1100)])).status_code == 503
    assert client.post("/predict", files=form(a=[b"x" * 1000] * 3)).status_code == 400
    assert client.post("/teach", files=form(cat=of(3))).status_code == 400
    assert client.core.budget.taken == 0
    assert client.post("/predict", files=form(a=of(0, 3))).status_code == 200


def test_a_form_is_the_same_however_it_is_cut() -> None:
    content = bytes(range(256)) * 3 + b"\r\n--b\r"
    head = b'--b\r\nContent-Disposition: form-data; name="a b"; filename="x.png"\r\nContent-Type: image/png\r\n\r\n'
    body = (head + content + b"\r\n") * 3 + b"--b--\r\n"
    for step in (1, 7, 64, len(body)):
        parsed = Form("multipart/form-data; boundary=b", 3, "--max-pictures")
        for start in range(0, len(body), step):
            parsed.write(body[start : start + step])
        parsed.finish()
        assert [(part.name, part.file, bytes(part.content)) for part in parsed.parts] == [("a b", "x.png", content)] * 3


def test_labels_of_metrics_are_few_whatever_is_asked(wide: Path, serve: Serve) -> None:
    client = serve(wide)
    for i in range(40):
        client.get(f"/nothing/{i}")
        client.get(f"/classes/nobody-{i}/samples")
        client.get(f"/static/{i}.js")
        client.request(f"METHOD{i}", "/classes")
        client.post(f"/versions/{i + 100}")
    lines = [line for line in client.get("/metrics").text.splitlines() if line.startswith("ictrl_requests_total")]
    labels = {line.rpartition(" ")[0] for line in lines}
    assert labels == {
        'ictrl_requests_total{method="GET",route="other",status="404"}',
        'ictrl_requests_total{method="GET",route="/classes/{name}/samples",status="409"}',
        'ictrl_requests_total{method="GET",route="/static",status="404"}',
        'ictrl_requests_total{method="other",route="other",status="405"}',
        'ictrl_requests_total{method="POST",route="/versions/{version}",status="404"}',
    }
    assert {line.rpartition(" ")[2] for line in lines} == {"40.0"}


def test_metrics_follow_what_happens(wide: Path, serve: Serve) -> None:
    client = serve(wide)
    client.post("/predict", files=form(a=of(0, 3)))
    client.post("/teach", files=form(new=of(3)))
    text = client.get("/metrics").text
    for line in (
        *("ictrl_predictions_total 3.0", "ictrl_classes 4.0", "ictrl_version 2.0", "ictrl_teaching_seconds_count 1.0"),
        *("ictrl_queue_pictures 0.0", "ictrl_teaching 0.0", "ictrl_upload_bytes 0.0"),
        'ictrl_request_seconds_count{route="/predict"} 1.0',
    ):
        assert line in text, line


def test_too_many_requests_at_once(wide: Path, serve: Serve) -> None:
    client = serve(wide, Limits(max_requests=1))

    async def stalled() -> Any:
        inner = await client._client.get("/classes")  # while this one is being answered
        assert (inner.status_code, inner.headers["retry-after"]) == (503, "1")
        assert "--max-requests" in json.loads(inner.text)["error"]
        yield of(0, 1)[0]

    assert client.post("/predict", content=stalled(), headers=PNG).status_code == 200
    assert client.get("/classes").status_code == 200


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        ({"max_pixels": 0}, "Expected --max-pixels to be above 0 but got 0"),
        ({"wait": -1.0}, "Expected --wait to be at least 0"),
        ({"timeout": float("nan")}, "Expected --timeout"),
        ({"queue": 10}, "Expected --queue to hold all pictures of a request (--max-pictures 64) but got 10"),
    ],
)
def test_limits_that_are_none(limits: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=re.escape(line)):
        Limits(**limits)
