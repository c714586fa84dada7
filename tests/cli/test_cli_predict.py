"""`ictrl predict`: own pictures that were learned in two tasks, and digits by a linear head."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli_support import COLOURS, NEWEST, Ran
from PIL import Image
from support import call, pictures, tiny_recipe
from torch import Tensor

import ictrl
from ictrl import ICTRL
from ictrl.cli.predict import as_json, classify, print_predictions
from ictrl.config import StreamConfig
from ictrl.data import load_dataset


def test_predict_prints_a_table(own_run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("predict", own_run, "red.png", "blue.png", "green.png", "--device", "cpu") == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["picture", "class", "residual", "runner-up", "residual"]
    cells = [row.split() for row in rows]
    assert [row[:2] for row in cells] == [["red.png", "red"], ["blue.png", "blue"], ["green.png", "green"]]
    for _, nearest, residual, runner_up, further in cells:
        assert runner_up in set(COLOURS) - {nearest}
        assert 0 <= float(residual) <= float(further) <= 4


def test_predict_prints_json(own_run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("predict", own_run, "green.png", "--json", "--device", "cpu") == 0
    (prediction,) = json.loads(capsys.readouterr().out)
    assert {key: prediction[key] for key in ("file", "label", "class")} == {
        "file": "green.png",
        "label": 1,
        "class": "green",
    }
    residuals = [entry["residual"] for entry in prediction["residuals"]]
    assert residuals == sorted(residuals)
    assert prediction["residuals"][0]["class"] == "green"
    assert {entry["label"]: entry["class"] for entry in prediction["residuals"]} == dict(enumerate(COLOURS))


def test_a_picture_that_is_named_twice_is_answered_twice(
    own_run: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("predict", own_run, "red.png", "green.png", "red.png", "--json", "--device", "cpu") == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["file"] for entry in found] == ["red.png", "green.png", "red.png"]
    assert found[0] == found[2]


def test_a_learner_file_serves_too(own_run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(own_run / NEWEST, "mine.safetensors")
    learner = ICTRL.load(own_run / NEWEST, device="cpu")
    assert set(learner.class_names) == set(learner.labels)
    learner.save("saved-again.safetensors")
    learner.class_names = {}
    learner.save("nameless.safetensors")
    for file, expected in {"mine": "red", "saved-again": "red", "nameless": "2"}.items():
        assert call("predict", f"{file}.safetensors", "red.png", "--device", "cpu") == 0
        assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["red.png", expected]


def test_a_learner_that_was_taught_by_name_answers_by_name(
    new: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    images, labels = pictures([0, 1])
    ICTRL(tiny_recipe()).learn(images, ["ant" if label else "bee" for label in labels]).save(tmp_path / "named")
    assert call("predict", tmp_path / "named", "red.png", "--device", "cpu", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert {(one["label"], one["class"]) for one in found["residuals"]} == {(0, "ant"), (1, "bee")}


def test_a_damaged_checkpoint_is_passed_over(own_run: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(own_run, "damaged")
    newest = Path("damaged") / NEWEST
    newest.write_bytes(newest.read_bytes()[:-1] + b"!")
    assert call("predict", "damaged", "blue.png", "--device", "cpu") == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(
        "warning: Expected a saved learner but damaged/checkpoint/after-task-002.safetensors"
    )
    assert captured.out.splitlines()[1].split()[:2] == ["blue.png", "blue"]
    assert "red" not in captured.out  # which was learned in the second task


def test_what_cannot_be_read_is_named_after_the_others(
    own_run: Path, own_pictures: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(own_pictures / "red" / "notes.png", "[notes].png")
    (new / "folder").mkdir()
    files = ["[notes].png", "red.png", "folder", "gone.png", "blue.png"]
    assert call("predict", own_run, *files, "--device", "cpu") == 2
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()] == ["picture", "red.png", "blue.png"]
    assert captured.err == (
        "error: Expected pictures but could not read 3 of 5: [notes].png (it is in no known picture format), folder "
        "(a folder: name the pictures in it, such as folder/*), gone.png (there is no such file).\n"
    )
    assert call("predict", own_run, "gone.png", "--json", "--device", "cpu") == 2
    assert capsys.readouterr().out == "[]\n"


def test_a_cut_off_picture_is_named(own_run: Path, own_pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("predict", own_run, own_pictures / "blue" / "broken.jpg", "--device", "cpu") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(
        f"error: Expected pictures but could not read 1 of 1: {own_pictures}/blue/broken.jpg ("
    )


def test_names_with_brackets_and_long_paths_are_printed_whole(
    own_run: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = new / ("long" * 30) / "[bold] red.png"
    deep.parent.mkdir()
    shutil.copy("red.png", deep)
    assert call("predict", own_run, deep, "--device", "cpu") == 0
    assert str(deep) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "RUN"], "error: Expected at least one picture but got none: name the files after the run."),
        (["predict", "none", "red.png"], "error: Expected a run folder but none is not there: `ictrl run` makes one"),
        (["predict", ".", "red.png"], "error: Expected a run folder but . has no config.toml"),
        (["predict", "red.png", "red.png"], "error: Expected a saved learner but red.png is cut short or of another"),
        (["predict", "RUN", "red.png", "--device", "cuda:99"], "error: Expected a device of this machine (auto, cpu"),
        (["predict"], "RUN"),
    ],
)
def test_a_users_mistake_exits_with_2_and_one_line(
    arguments: list[str], message: str, refused: Callable[[list[str], str], None]
) -> None:
    refused(arguments, message)


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, parts in {
        ("--help",): ["predict", "Say which class each picture shows"],
        ("predict", "--help"): ["Examples:", "ictrl predict runs/mine holiday/*.jpg --json", "IMAGE…", "--unknown"],
    }.items():
        assert call(*arguments) == 0
        output = capsys.readouterr().out
        assert all(part in output for part in parts)


@pytest.fixture
def digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """Two test images, which are also the files 0.png and 1.png where one stands."""
    images = load_dataset(StreamConfig(dataset="digits", limit=12), image_size=8, channels=1).test_images[:2]
    for number, image in enumerate(images):
        Image.fromarray(image[0].numpy()).save(tmp_path / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    return images


@pytest.mark.parametrize("recipe", ["finetune-digits", "joint-digits"])
def test_a_linear_head_predicts_by_negative_log_probabilities(
    recipe: str, ran: Callable[[str], Ran], digits: Tensor, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ran(recipe).folder
    capsys.readouterr()
    scores = ictrl.load_learner(run / NEWEST, device="cpu").scores(digits)
    ranked = scores.argsort(descending=True).tolist()
    assert call("predict", run, "0.png", "1.png", "--device", "cpu") == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["picture", "class", "residual", "runner-up", "residual"]
    assert [row.split() for row in rows] == [
        [f"{i}.png", str(first), f"{-scores[i, first]:.4f}", str(second), f"{-scores[i, second]:.4f}"]
        for i, (first, second, *_) in enumerate(ranked)
    ]
    assert call("predict", run, "0.png", "1.png", "--json", "--device", "cpu") == 0
    predictions = json.loads(capsys.readouterr().out)
    assert [prediction["file"] for prediction in predictions] == ["0.png", "1.png"]
    for i, prediction in enumerate(predictions):
        assert (prediction["label"], prediction["class"]) == (ranked[i][0], str(ranked[i][0]))
        assert [entry["label"] for entry in prediction["residuals"]] == ranked[i]
        probabilities = [math.exp(-entry["residual"]) for entry in prediction["residuals"]]
        assert sum(probabilities) == pytest.approx(1, abs=1e-4)


def test_certainty_has_a_residual_of_0_without_a_sign(capsys: pytest.CaptureFixture[str]) -> None:
    """The log of a probability of 1 is 0, and minus that would print as -0.0000."""

    class Certain:
        labels = (4, 7)

        def scores(self, images: Tensor) -> Tensor:
            return torch.tensor([[0.0, -3.0]])

    learner: Any = Certain()
    (prediction,) = classify(learner, {Path("a.png"): torch.zeros(1, 8, 8, dtype=torch.uint8)})
    print_predictions([prediction], {4: "four", 7: "seven"})
    assert capsys.readouterr().out.splitlines()[1].split() == ["a.png", "four", "0.0000", "seven", "3.0000"]
    assert '"residual": 0.0' in json.dumps(as_json(prediction, {4: "four", 7: "seven"}))


@pytest.fixture
def wide_learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A learner of wide features of stripes, and where one stands a picture of a class and one of noise."""
    method = {"name": "wide", "reading": {"pool": 2}, "trunk": {"epochs": 3, "batch": 15, "warmup": 1}}
    learner = ictrl.create_learner(
        ictrl.recipe_with(tiny_recipe(), {"method": {**method, "calibration": {"held_out": 0.25}}})
    )
    learner.learn(*pictures([0, 1, 2], each=60))
    learner.save(tmp_path / "wide.safetensors")
    Image.fromarray(pictures([1], each=2, seed=7)[0][0, 0].numpy()).save(tmp_path / "known.png")
    noise = np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "wide.safetensors"


def test_a_picture_of_no_class_is_called_unknown(wide_learner: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["known.png", "noise.png", "--device", "cpu"]
    assert call("predict", wide_learner, *files, "--unknown", "0.05") == 0
    known, noise = (line.split() for line in capsys.readouterr().out.splitlines()[1:])
    assert known[:2] == ["known.png", "1"]
    assert noise[:2] == ["noise.png", "unknown"]
    assert len(noise) == len(known) - 1  # the class it looks most like is the runner-up
    assert call("predict", wide_learner, *files) == 0
    assert "unknown" not in capsys.readouterr().out


def test_json_says_what_is_unknown_if_asked(wide_learner: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["known.png", "noise.png", "--json", "--device", "cpu"]
    assert call("predict", wide_learner, *files, "--unknown", "0.05") == 0
    known, noise = json.loads(capsys.readouterr().out)
    assert (known["label"], known["class"], known["unknown"]) == (1, "1", False)
    assert (noise["label"], noise["class"], noise["unknown"]) == (None, "unknown", True)
    assert len(noise["residuals"]) == 3
    assert call("predict", wide_learner, *files) == 0
    assert all("unknown" not in prediction for prediction in json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("rate", ["0", "1.5"])
def test_a_rate_of_false_alarms_that_is_none(wide_learner: Path, rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("predict", wide_learner, "known.png", "--unknown", rate, "--device", "cpu") == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: Expected a share of false alarms above 0 and below 1 but got")
    assert captured.out == ""


def test_a_learner_that_knows_no_strangers_says_so(
    own_run: Path, new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("predict", own_run, "red.png", "--unknown", "0.05", "--device", "cpu") == 2
    captured = capsys.readouterr()
    assert (
        captured.err
        == "error: Expected a method that can tell unknown pictures (wide, wide-gan, wide-ictrl) but ictrl cannot.\n"
    )
    assert captured.out == ""
