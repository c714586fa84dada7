"""Cycles of review: measured, resumable, and the run stays as it was."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from run_support import npz_digits, quick, tensors

from ictrl import ICTRL, InputError, Results, load_learner, run
from ictrl.cli import main
from ictrl.experiment.review import Listener, Manner, review
from ictrl.experiment.run import Stopped
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.run_learners import around_review
from ictrl.methods.storage import LEARNER, read_stored

DOUBTFUL = Manner(doubtful=True)
SHORT = {"first": {"epochs": 2}, "later": {"epochs": 1}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of three tasks on a fraction of six digits, and one that learned the same classes at once."""
    root = tmp_path_factory.mktemp("finished")
    data = {"dataset": "npz", "root": str(npz_digits(root / "digits.npz", classes=6))}
    run(quick(method=SHORT, stream={**data, "tasks": 3}), root / "run")
    run(quick(method=SHORT, stream={**data, "tasks": 1}), root / "joint")
    return {"run": root / "run", "joint": root / "joint"}


@pytest.fixture
def out(finished: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished["run"], tmp_path / "run"))


def reviewed(out: Path) -> dict[str, bytes]:
    """Every number of the learner that a review has left."""
    return tensors(out / "review" / "learner.safetensors")


def test_every_cycle_is_measured_under_both_protocols(out: Path, finished: dict[str, Path]) -> None:
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != ".lock"}
    found = review(out, 2, DOUBTFUL, joint=finished["joint"])
    assert found == json.loads((out / "review.json").read_text())
    assert found["recipe"]["stream"]["root"] is None  # it may be published
    assert [entry["cycle"] for entry in found["cycles"]] == [0, 1, 2]
    alone, joint = (Results.read(finished[name] / "results.json").protocols for name in ("run", "joint"))
    for protocol in ("memory", "reencoded"):
        assert found["cycles"][0][protocol] == alone[protocol].last
        assert found["joint"][protocol] == joint[protocol].last
    assert found["cycles"][0]["recognised"] is None
    for entry in found["cycles"][1:]:
        assert [seen["label"] for seen in entry["classes"]] == list(range(6))
        right = sum(seen["taken_for"] == seen["label"] for seen in entry["classes"])
        assert entry["recognised"] == right / 6
    assert {path: path.read_bytes() for path in before} == before  # the run stays as it was
    learner = ICTRL.load(out / "review" / "learner.safetensors")
    assert len(learner.memory) == 6


class StopAfter(Listener):
    """Asks a review to stop after so many classes."""

    def __init__(self, classes: int) -> None:
        self.left = classes

    def on_reviewed(self, cycle: int, name: str, seen: dict[str, Any]) -> None:
        self.left -= 1

    def __call__(self) -> bool:
        return self.left <= 0


def test_stopping_again_and_again_changes_nothing(out: Path, tmp_path: Path) -> None:
    whole = Path(shutil.copytree(out, tmp_path / "whole"))
    review(whole, 2, DOUBTFUL)
    stops = 0
    while True:
        listener = StopAfter(5)
        try:
            review(out, 2, DOUBTFUL, listener=listener, stop=listener)
            break
        except Stopped:
            stops += 1
    assert stops == 2
    assert reviewed(out) == reviewed(whole)
    assert (out / "review.json").read_text() == (whole / "review.json").read_text()


def test_a_review_that_is_killed_within_a_class_goes_on_before_it(out: Path, tmp_path: Path) -> None:
    whole = Path(shutil.copytree(out, tmp_path / "whole"))
    review(whole, 1, DOUBTFUL)

    class Killed(Listener):
        def on_class(self, cycle: int, index: int, total: int, name: str) -> None:
            if index == 4:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        review(out, 1, DOUBTFUL, listener=Killed())
    review(out, 1, DOUBTFUL)
    assert reviewed(out) == reviewed(whole)


def test_more_cycles_go_on_from_those_done(out: Path, tmp_path: Path) -> None:
    whole = Path(shutil.copytree(out, tmp_path / "whole"))
    review(whole, 2, DOUBTFUL)
    review(out, 1, DOUBTFUL)
    review(out, 2, DOUBTFUL)
    assert reviewed(out) == reviewed(whole)
    again = review(out, 1, DOUBTFUL)  # fewer than are done: nothing to do
    assert len(again["cycles"]) == 3


def test_epochs_and_distillation_are_those_asked_for(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, float]] = []
    real = ICTRL.play

    def watched(self: ICTRL, X: Any, y: Any, others: Any, stage: Any, *rest: Any) -> Any:
        seen.append((stage.epochs, stage.weights.distill_replayed))
        return real(self, X, y, others, stage, *rest)

    monkeypatch.setattr(ICTRL, "play", watched)
    manner = Manner(doubtful=True, epochs=2, distillation=0.5)
    review(out, 1, manner)
    review(out, 2, manner)  # not halved again
    assert seen == [(2, 0.5 * 50.0)] * 12
    assert (
        load_learner(out / "review" / "learner.safetensors").recipe
        == load_learner(out / "checkpoint" / "after-task-003.safetensors").recipe
    )  # the manner is none of the recipe's business


def test_labels_leave_nothing_to_doubt(out: Path) -> None:
    found = review(out, 1, Manner(with_labels=True))
    assert all(seen["changed"] == seen["label"] for seen in found["cycles"][1]["classes"])
    assert found["with_labels"]
    assert found["cycles"][1]["recognised"] is None  # nothing had to be


def test_a_review_with_labels_and_one_without_stand_side_by_side(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    review(out, 1, DOUBTFUL)
    untold = reviewed(out)
    assert main(["review", str(out), "--with-labels"]) == 0
    assert "recognised" not in (output := capsys.readouterr().out)
    assert f'load_learner("{out}/review-with-labels/learner.safetensors")' in output
    assert json.loads((out / "review-with-labels.json").read_text())["with_labels"]
    assert not json.loads((out / "review.json").read_text())["with_labels"]
    assert reviewed(out) == untold


def test_doubtful_classes_are_left_and_named(
    out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ictrl.memory.recognition.LEAST_AFFINITY", 1.01)
    assert main(["review", str(out)]) == 0
    output = capsys.readouterr().out
    entry = json.loads((out / "review.json").read_text())["cycles"][1]
    left = [seen for seen in entry["classes"] if seen["reason"]]
    assert left
    for seen in left:
        assert seen["changed"] is None
        assert f"cycle 1, class {seen['label']}: left as it was, {seen['reason']}" in output
    assert f"after 1 cycle: accuracy memory {entry['memory']:.3f}, reencoded {entry['reencoded']:.3f}" in output
    assert f'load_learner("{out}/review/learner.safetensors")' in output


def test_classes_with_too_few_images_are_not_counted_as_mistaken(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ictrl.methods.ictrl.LEAST_AGAIN", 2.0)
    entry = review(out, 1, DOUBTFUL)["cycles"][1]
    assert all(seen["few"] and "too few to learn their class again" in seen["reason"] for seen in entry["classes"])
    assert entry["recognised"] is None


def test_wrong_inputs_are_one_line(
    out: Path, finished: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: str) -> str:
        assert main(["review", *arguments]) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        return message

    assert "Expected a run folder but" in refused(str(tmp_path / "nothing"))
    assert "Expected at least 1 cycle but got 0" in refused(str(out), "--cycles", "0")
    assert "Expected a finished run of one task for --joint" in refused(str(out), "--joint", str(out))
    review(out, 1, Manner(merge=True))
    assert "was begun but merge was True and is False: use the same" in refused(str(out))
    assert "Expected at least 1 epoch but got 0" in refused(str(out), "--epochs", "0")
    assert "Expected distillation to be at least 0 times the recipe's but got -1.0" in refused(
        str(out), "--distillation", "-1"
    )
    unfinished = Path(shutil.copytree(finished["run"], tmp_path / "unfinished"))
    (unfinished / "checkpoint" / "after-task-003.safetensors").unlink()
    assert "Expected a finished run but" in refused(str(unfinished))


def test_other_data_is_noticed(out: Path) -> None:
    data = json.loads((out / "data.json").read_text())
    (out / "data.json").write_text(json.dumps({**data, "sha256": "0" * 64}))
    with pytest.raises(InputError, match="data"):
        review(out, 1, DOUBTFUL)


@pytest.mark.parametrize(("after", "warned"), [(0.5, True), (0.8, False)])
def test_a_review_that_does_harm_says_so(
    after: float, warned: bool, out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles = [{"memory": 0.8}, {"memory": after}]
    monkeypatch.setattr("ictrl.cli.review.review", lambda *_, **__: {"cycles": cycles, "joint": None})
    assert main(["review", str(out)]) == 0
    assert ("fell from 0.800 to 0.500" in capsys.readouterr().err) == warned


def test_a_method_that_cannot_review_is_told_so_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for method in ("finetune", "frozen"):
        out = tmp_path / method
        run(quick(method, stream={"tasks": 1}, method={"first": {"epochs": 1}}), out)
        line = f"Expected a method that can review (ictrl) but {method} cannot."
        with pytest.raises(InputError, match=f"^{re.escape(line)}$"):
            review(out, 1, DOUBTFUL)
        with pytest.raises(InputError, match=f"^{re.escape(line)}$"):
            around_review(RunFolder.existing(out), "cpu")
        assert main(["review", str(out)]) == 2
        assert capsys.readouterr().err == f"error: {line}\n"
        assert not (out / "review.json").exists()


def test_a_review_begun_by_version_0_1_goes_on(out: Path, tmp_path: Path) -> None:
    """What distillation is now was called anchors then."""
    whole = Path(shutil.copytree(out, tmp_path / "whole"))
    review(whole, 2, DOUBTFUL)
    review(out, 1, DOUBTFUL)
    saved = out / "review" / "learner.safetensors"
    learner, notes = load_learner(saved), read_stored(saved, LEARNER).notes
    progress = json.loads(notes["review"])
    progress["manner"]["anchors"] = progress["manner"].pop("distillation")
    learner.save(saved, {**notes, "review": json.dumps(progress)})
    found = review(out, 2, DOUBTFUL)
    assert found["distillation"] == 1.0
    assert "anchors" not in found
    assert reviewed(out) == reviewed(whole)


@pytest.mark.parametrize("how", ["whole", "cut"])
def test_a_review_whose_learner_is_gone_does_not_begin_again(
    how: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    review(out, 1, DOUBTFUL)
    (out / "review" / "learner.safetensors").unlink()
    written = out / "review.json"
    if how == "cut":
        written.write_bytes(written.read_bytes()[:-20])
    before = written.read_bytes()
    assert main(["review", str(out), "--doubtful"]) == 2
    saved = out / "review" / "learner.safetensors"
    assert capsys.readouterr().err == (
        f"error: Expected {saved}, with which the review in {written} goes on, but it is not there: put it back, or "
        f"remove {written} to begin anew.\n"
    )
    assert written.read_bytes() == before
    written.unlink()
    assert main(["review", str(out), "--doubtful"]) == 0


def test_a_review_says_which_checkpoint_it_passed_over(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = out / "checkpoint" / "after-task-003.safetensors"
    shutil.copy(newest, newest.with_name("after-task-004.safetensors"))
    with newest.with_name("after-task-004.safetensors").open("r+b") as file:
        file.truncate(1000)
    assert main(["review", str(out), "--doubtful"]) == 0
    assert capsys.readouterr().err.startswith("warning: Expected a saved learner but ")
