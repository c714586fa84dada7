"""POST /predict: what `ictrl predict` says, for many at once, within bounds."""

import base64
import io
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from serve_support import Client, encoded, form, large, line_of, of
from support import call, pictures

from ictrl import load_learner
from ictrl.data import read_picture
from ictrl.serve import batches, png
from ictrl.serve.batches import Batches
from ictrl.serve.bounds import Limits

Serve = Callable[..., Client]
PNG = {"content-type": "image/png"}


def test_it_says_what_the_command_says(
    wide: Path, serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = pictures([0, 1, 2], each=2, seed=5)[0]
    turned = Image.fromarray(np.rot90(images[4, 0].numpy()).copy()).getexif()
    turned[0x0112] = 6  # to be turned by a quarter
    clear = Image.fromarray(np.dstack([images[5, 0].numpy()] * 3 + [np.full((8, 8), 100, np.uint8)]), "RGBA")
    buffer = io.BytesIO()
    clear.save(buffer, format="WEBP", lossless=True)
    sent = {
        "a.png": encoded(images[0]),
        "b.jpg": encoded(images[1], "JPEG"),
        "c.bmp": encoded(images[2], "BMP"),
        "d.gif": encoded(images[3], "GIF"),
        "e.tif": encoded(images[4], "TIFF"),
        "e.jpg": encoded(images[4], "JPEG", exif=turned),
        "f.webp": buffer.getvalue(),
        "g.png": large(300),
    }
    for name, content in sent.items():
        (tmp_path / name).write_bytes(content)
    capsys.readouterr()
    assert call("predict", wide, *(tmp_path / name for name in sent), "--json", "--device", "cpu") == 0
    said = json.loads(capsys.readouterr().out)
    files = [("pictures", (name, content, "application/octet-stream")) for name, content in sent.items()]
    answer = serve(wide).post("/predict", files=files).json()
    assert answer["version"] == 1
    for one, other, name in zip(answer["predictions"], said, sent, strict=True):
        assert (one["file"], one["error"], one["class"], one["label"]) == (name, None, other["class"], other["label"])
        assert [(row["class"], row["label"]) for row in one["classes"]] == [
            (row["class"], row["label"]) for row in other["residuals"]
        ]
        residuals = [row["residual"] for row in other["residuals"]]
        assert [row["distance"] for row in one["classes"]] == pytest.approx(residuals, abs=1e-4)
        assert one["unknown"] is one["reconstruction"] is one["seen"] is None


def test_probabilities_strangers_and_the_first_few_classes(wide: Path, serve: Serve) -> None:
    learner, client = load_learner(wide, "cpu"), serve(wide)
    images = pictures([0, 1, 2], each=3, seed=7)[0]
    strange = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 1, 8, 8), dtype=np.uint8))
    shown = torch.cat([images, strange])
    answer = client.post("/predict?unknown=0.05&top=2", files=form(x=[encoded(image) for image in shown])).json()
    expected = learner.predict_proba(shown).max(1).values.tolist()
    assert [one["probability"] for one in answer["predictions"]] == pytest.approx(expected, abs=1e-5)
    assert [one["unknown"] for one in answer["predictions"]] == learner.unknown(shown, 0.05).tolist()
    assert any(one["unknown"] for one in answer["predictions"][-3:])
    assert {len(one["classes"]) for one in answer["predictions"]} == {2}


def test_reconstructions_and_what_the_network_sees(drawing: Path, serve: Serve) -> None:
    learner, image = load_learner(drawing, "cpu"), pictures([1], each=1, seed=3)[0]
    client = serve(drawing)
    (said,) = client.post("/predict?reconstruct=1", content=encoded(image[0]), headers=PNG).json()["predictions"]

    def decoded(url: str) -> torch.Tensor:
        return torch.from_numpy(np.array(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))))

    assert torch.equal(decoded(said["seen"]), image[0, 0])
    assert torch.equal(decoded(said["reconstruction"]), learner.reconstruct(image)[0, 0])
    assert said["probability"] is None  # a classifier by moments does not calibrate
    refused = client.post("/predict?unknown=0.05", content=encoded(image[0]), headers=PNG)
    assert (refused.status_code, "its method is ictrl" in line_of(refused)) == (409, True)


def test_pictures_that_cannot_be_read_are_named_beside_the_others(wide: Path, serve: Serve) -> None:
    client, good = serve(wide), of(0, 1)[0]
    answer = client.post("/predict", files=form(a=[good, b"no picture", good]))
    assert answer.status_code == 200
    first, second, third = answer.json()["predictions"]
    assert first == {**third, "file": first["file"]}
    assert "it is in no known picture format" in second["error"]
    assert (second["class"], second["classes"]) == (None, [])
    none = client.post("/predict", files=form(a=[b"no", b"picture"]))
    assert none.status_code == 400
    assert len(none.json()["predictions"]) == 2
    assert "no known picture format" in line_of(none)


def bomb() -> bytes:
    """Few bytes that say they are 10,000 by 10,000 pixels."""
    buffer = io.BytesIO()
    Image.new("1", (10_000, 10_000)).save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "headers", "status", "line"),
    [
        (b"", PNG, 400, "got an empty body"),
        (b"x", {"content-type": "application/json"}, 415, "but got 'application/json'"),
        (b"x", {"content-type": "application/x-www-form-urlencoded"}, 415, "with curl, `-F picture=@file`"),
        (b"x", {"content-type": "multipart/form-data"}, 415, "with a boundary"),
        (b"x", {"content-type": "multipart/form-data; boundary=b"}, 400, "could not parse it"),
        (b"--b\r\n", {"content-type": "multipart/form-data; boundary=b"}, 400, "it ends in the middle"),
        (b"--b--\r\n", {"content-type": "multipart/form-data; boundary=b"}, 400, "at least one picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", PNG, 400, "no known picture format"),
        (b"P6 1 1 255 aaa", PNG, 400, "no known picture format"),
        (large(200)[:5000], PNG, 400, "could not read the picture"),
        (bomb(), PNG, 400, "it has 10000×10000 pixels, and --max-pixels allows 40 million"),
        (large(), PNG, 413, "of at most 1 MB (--max-body)"),
    ],
)  # fmt: skip
def test_what_is_no_picture_is_refused_in_a_line(
    wide: Path, serve: Serve, content: bytes, headers: dict[str, str], status: int, line: str
) -> None:
    answer = serve(wide, Limits(max_body=1)).post("/predict", content=content, headers=headers)
    assert (answer.status_code, line in line_of(answer)) == (status, True), answer.text


def test_a_picture_that_takes_its_memory_when_it_is_opened_is_not(
    wide: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = io.BytesIO()
    first, second = (Image.new("RGBA", (9, 9), colour) for colour in ("blue", "red"))
    first.save(buffer, format="WEBP", save_all=True, append_images=[second])
    content = bytearray(buffer.getvalue())
    assert content[12:16] == b"VP8X"
    content[24:30] = (12_345 - 1).to_bytes(3, "little") * 2

    def opened(*arguments: Any, **how: Any) -> None:
        raise AssertionError("it was opened")

    client = serve(wide)
    assert client.post("/predict", content=buffer.getvalue(), headers=PNG).status_code == 200
    monkeypatch.setattr(Image, "open", opened)
    line = line_of(client.post("/predict", content=bytes(content), headers=PNG))
    assert "it has 12345×12345 pixels, and --max-pixels allows 40 million" in line


def test_a_bomb_is_never_decoded(wide: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def decoded(*arguments: Any) -> None:
        raise AssertionError("it was decoded")

    monkeypatch.setattr(png, "from_picture", decoded)
    assert "million" in line_of(serve(wide).post("/predict", content=bomb(), headers=PNG))


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("unknown=x", "Expected unknown to be above 0 and below 1 but got 'x'"),
        ("unknown=0", "above 0"),
        ("unknown=nan", "'nan'"),
        ("reconstruct=2", "1 or 0"),
        ("top=0", "from 1 to"),
        ("top=9" * 30, "got"),
        ("colour=1", "Expected the parameters reconstruct, unknown, top but got 'colour'"),
        ("top=1&top=2", "once"),
    ],
)
def test_wrong_parameters(wide: Path, serve: Serve, query: str, line: str) -> None:
    answer = serve(wide).post(f"/predict?{query}", content=of(0, 1)[0], headers=PNG)
    assert (answer.status_code, line in line_of(answer)) == (400, True), answer.text


def test_a_request_has_so_many_pictures_at_most(wide: Path, serve: Serve) -> None:
    client = serve(wide, Limits(max_pictures=3))
    assert client.post("/predict", files=form(a=of(0, 3))).status_code == 200
    answer = client.post("/predict", files=form(a=of(0, 4)))
    assert (answer.status_code, "at most 3 pictures in a request (--max-pictures)" in line_of(answer)) == (413, True)


def test_clients_are_answered_in_batches_and_each_gets_its_own(
    wide: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, real = threading.Event(), threading.Event(), batches.answers

    def held(served: Any, images: torch.Tensor, asked: Any) -> Any:
        begun.set()
        assert go.wait(30)  # until all others wait
        return real(served, images, asked)

    monkeypatch.setattr(batches, "answers", held)
    client, learner = serve(wide), load_learner(wide, "cpu")
    images = pictures([0, 1, 2], each=10, seed=9)[0]
    pause, bodies = threading.Event(), [encoded(image) for image in images]
    with ThreadPoolExecutor(30) as pool:
        answers = [pool.submit(client.post, "/predict", content=bodies[0], headers=PNG)]
        assert begun.wait(30)
        answers += [pool.submit(client.post, "/predict", content=body, headers=PNG) for body in bodies[1:]]
        while client.core.batches.waiting < 29:
            pause.wait(0.005)
        go.set()
        found = [answer.result().json()["predictions"][0] for answer in answers]
    assert [one["label"] for one in found] == learner.predict(images).tolist()
    distances = -learner.scores(images).max(1).values
    assert [one["classes"][0]["distance"] for one in found] == pytest.approx(distances.tolist(), abs=1e-4)
    text = client.get("/metrics").text
    assert "ictrl_predictions_total 30.0" in text
    assert "ictrl_batch_pictures_count 2.0" in text  # the first alone, then all that had come meanwhile


def test_a_full_queue_and_a_late_answer(wide: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr(Batches, "_answered", lambda self, batch: go.wait(30) and [])
    client = serve(wide, Limits(queue=2, max_pictures=2, timeout=0.3))
    with ThreadPoolExecutor(3) as pool:
        late = pool.submit(client.post, "/predict", content=of(0, 1)[0], headers=PNG)
        answers = [client.post("/predict", files=form(a=of(0, 2))) for _ in range(3)]
        answers.append(late.result())
        go.set()
    assert {answer.status_code for answer in answers} == {503}
    assert {answer.headers["retry-after"] for answer in answers} == {"1"}
    lines = " ".join(line_of(answer) for answer in answers)
    assert "wait already: come again" in lines
    assert "Expected a prediction within 0.3 s" in lines


def test_a_failure_is_one_line_for_the_client_and_one_for_the_log(
    wide: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: Any) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(batches, "answers", broken)
    client = serve(wide)
    answer = client.post("/predict", content=of(0, 1)[0], headers=PNG)
    assert (answer.status_code, line_of(answer)) == (500, "two lines")
    assert [record.getMessage() for record in caplog.records] == ["POST /predict failed: two lines"]
    monkeypatch.undo()
    assert client.post("/predict", content=of(0, 1)[0], headers=PNG).status_code == 200  # the thread lives


def test_a_picture_is_read_as_files_are(wide: Path, tmp_path: Path) -> None:
    content = encoded(pictures([0], each=1)[0][0].repeat_interleave(9, 1).repeat_interleave(5, 2), "JPEG")
    (tmp_path / "x.jpg").write_bytes(content)
    assert torch.equal(png.decode(content, 8, 1, 40), read_picture(tmp_path / "x.jpg", 8, 1))
