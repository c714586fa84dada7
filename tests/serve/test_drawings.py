"""What a class looks like, over HTTP: the same as from the library."""

import base64
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from serve_support import Client, line_of
from torch.nn.functional import normalize

from ictrl import load_learner
from ictrl.serve.drawings import sheet
from ictrl.visualize.walks import variation, walk

Serve = Callable[..., Client]


def image(content: bytes) -> torch.Tensor:
    return torch.from_numpy(np.array(Image.open(io.BytesIO(content))))


def test_samples_are_those_of_the_class_and_of_the_seed(drawing: Path, serve: Serve) -> None:
    client, learner = serve(drawing), load_learner(drawing, "cpu")
    asked = {"accept": "application/json"}

    def samples(query: str) -> list[torch.Tensor]:
        urls = client.get(f"/classes/a%2Fb%20c/samples?{query}", headers=asked).json()["pictures"]
        return [image(base64.b64decode(url.partition(",")[2])) for url in urls]

    own = learner.sample(2, 7)  # a new learner's own random numbers begin with its seed, 0
    assert torch.equal(torch.stack(samples("n=7&seed=0")), own[:, 0])
    assert torch.equal(torch.stack(samples("n=7")), own[:, 0])
    assert not torch.equal(torch.stack(samples("n=7&seed=1")), own[:, 0])
    along = load_learner(drawing, "cpu").sample(2, 4, direction=1)
    assert torch.equal(torch.stack(samples("n=4&direction=1")), along[:, 0])
    shown = client.get("/classes/a%2Fb%20c/samples?n=7")
    assert shown.headers["content-type"] == "image/png"
    assert shown.content == sheet(own)
    assert "from 0 to 2 for class cat" in line_of(client.get("/classes/cat/samples?direction=3"))
    assert "from 1 to 100" in line_of(client.get("/classes/cat/samples?n=101"))


@pytest.mark.parametrize(("n", "columns"), [(1, 1), (2, 2), (4, 2), (5, 3), (16, 4), (100, 10)])
def test_a_sheet_is_about_as_wide_as_high(n: int, columns: int) -> None:
    width, height = Image.open(io.BytesIO(sheet(torch.zeros(n, 1, 8, 8, dtype=torch.uint8)))).size
    assert (width - 16) // 80 == columns
    assert columns - 1 <= (height - 16) // 80 <= columns


def test_a_point_is_as_many_deviations_from_the_mean_as_asked(drawing: Path, serve: Serve) -> None:
    client, learner = serve(drawing), load_learner(drawing, "cpu")
    found = client.get("/classes/dog/directions").json()["directions"]
    deviations, directions = variation(learner.recall(1))
    assert [one["sigma"] for one in found] == pytest.approx(deviations.tolist(), abs=1e-6)
    assert [one["index"] for one in found] == list(range(len(found)))
    kept = learner.recall(1)
    point = kept.mean + 1.5 * deviations[0] * directions[0] - 2 * deviations[2] * directions[2]
    expected = learner.decode(normalize(point[None]))[0, 0]
    assert torch.equal(image(client.get("/classes/dog/picture?at=1.5,0,-2").content), expected)
    mean = walk(learner, 1, 0, steps=3)[1, 0]
    assert torch.equal(image(client.get("/classes/dog/picture").content), mean)
    assert torch.equal(image(client.get("/classes/dog/picture?at=0,0").content), mean)


@pytest.mark.parametrize("at", ["x", "1,,2", "nan", "inf", "7", "1," * 200 + "1", "-1e9"])
def test_points_that_are_none(drawing: Path, serve: Serve, at: str) -> None:
    answer = serve(drawing).get(f"/classes/dog/picture?at={at}")
    assert answer.status_code == 400
    line_of(answer)


def test_how_classes_lie_to_each_other(drawing: Path, wide: Path, serve: Serve) -> None:
    found = serve(drawing).get("/affinity").json()
    matrix = torch.tensor(found["matrix"])
    assert (found["kind"], found["classes"]) == ("affinity of subspaces", ["cat", "dog", "a/b c"])
    assert torch.allclose(matrix, matrix.T, atol=1e-5)
    assert torch.allclose(matrix.diagonal(), torch.ones(3), atol=1e-5)
    assert float(matrix.min()) >= 0
    found = serve(wide).get("/affinity").json()
    assert found["kind"] == "distance between classes"
    assert torch.allclose(torch.tensor(found["matrix"]), load_learner(wide, "cpu").class_distances(), atol=1e-5)


def test_what_a_method_cannot_do_is_said(wide: Path, serve: Serve) -> None:
    client = serve(wide)
    can = client.get("/classes").json()["can"]
    assert {name for name, able in can.items() if not able} == {"draw", "directions"}
    for path in ("samples", "directions", "picture"):
        answer = client.get(f"/classes/cat/{path}")
        assert (answer.status_code, line_of(answer).endswith("its method is wide.")) == (409, True)
