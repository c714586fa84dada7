"""`experiments/drawing.py`: several runs, one judge, one classifier, one file."""

import json
import shutil
from pathlib import Path

import pytest
from support import call, script
from visualize.stand_in_judges import Means

from ictrl.visualize.judges import EfficientNetLite0

drawing = script("drawing")


@pytest.fixture(autouse=True)
def _judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(EfficientNetLite0, "installed", lambda: Means())
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path))


def test_runs_are_measured_alike(short_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(short_run, tmp_path / "again")
    options = ["--images", "100", "--classifier-epochs", "3", "--device", "cpu", "--after-each-task"]
    drawing.main([str(short_run), str(tmp_path / "again"), "--out", str(tmp_path / "new" / "d.json"), *options])
    found = json.loads((tmp_path / "new" / "d.json").read_text())
    one, other = found["runs"]
    assert (one["name"], other["name"]) == ("run", "again")
    assert one["overall"] == other["overall"]  # the same learner, whose samples are drawn anew
    assert one["learners"]["after task 2"]["overall"]["distances"]["test images"] == pytest.approx(
        one["overall"]["distances"]["test images"]
    )
    assert list(one["learners"]) == ["after task 1", "after task 2"]
    assert len(one["learners"]["after task 1"]["by_class"]) == 5
    assert one["recipe"]["stream"]["root"] is None
    assert found["classifier"]["epochs"] == 3
    assert set(found["versions"]) == {"ictrl", "python", "torch", "numpy"}
    assert str(tmp_path) not in json.dumps(found)
    head, _, first, second = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert head[:5] == ["run", "samples", "reconstructions", "floor", "ratio"]
    assert (first[0], first[4], second[4]) == ("run", "1.000", "1.000")
    assert first[1] == f"{one['overall']['distances']['samples']:.2f}"
    assert len(head) == len(first)


def test_runs_of_other_images_or_without_a_decoder_are_refused(
    short_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = (short_run.parent / "short.toml").read_text()
    (tmp_path / "fewer.toml").write_text(recipe.replace("limit = 12", "limit = 11"))
    assert call("run", tmp_path / "fewer.toml", "--out", tmp_path / "fewer") == 0
    out = tmp_path / "d.json"
    with pytest.raises(SystemExit, match="error: Expected runs of the same training images but those of .*fewer"):
        drawing.main([str(short_run), str(tmp_path / "fewer"), "--out", str(out), "--device", "cpu"])
    finetune = ["--stream.limit", "4", "--first.epochs", "1", "--later.epochs", "1"]
    assert call("run", "finetune-digits", "--out", tmp_path / "none", *finetune) == 0
    with pytest.raises(SystemExit, match="error: Expected a method that can draw .* but finetune cannot"):
        drawing.main([str(tmp_path / "none"), "--out", str(out), "--device", "cpu"])
    with pytest.raises(SystemExit, match="error: Expected a run folder but .*gone is not there"):
        drawing.main([str(tmp_path / "gone"), "--out", str(out)])
    assert not out.exists()
