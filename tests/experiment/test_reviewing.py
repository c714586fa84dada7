"""Cycles of review: measured, resumable, and the run stays as it was."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ictrl import ICTRL, InputError, load_recipe
from ictrl.cli import main
from ictrl.config import GameConfig, MemoryConfig, NetworkConfig
from ictrl.experiment.run import Stopped, run
from ictrl.experiment.review import Listener, Manner, review
from ictrl.methods.storage import LEARNER, read_stored

DOUBTFUL = Manner(doubtful=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of five tasks on a fraction of the digits, and one that learned the same classes at once."""
    root = tmp_path_factory.mktemp("finished")
    recipe = load_recipe("digits")
    recipe = replace(
        recipe,
        device="cpu",
        network=NetworkConfig(image_size=8, channels=1, width=4, feature_dim=16),
        memory=MemoryConfig(directions=3, neighbours=5, samples=4, transport=True),
        game=GameConfig(epochs=2, first_epochs=2, batch=20, first_batch=20, learning_rate=1e-3, averaged=0.0),
        data=replace(recipe.data, limit=16),
    )
    run(recipe, root / "run")
    run(replace(recipe, data=replace(recipe.data, tasks=1)), root / "joint")
    return {"run": root / "run", "joint": root / "joint"}


@pytest.fixture
def out(finished: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished["run"], tmp_path / "run"))


def tensors(out: Path) -> dict[str, bytes]:
    stored = read_stored(out / "review" / "learner.safetensors", LEARNER)
    return {name: tensor.numpy().tobytes() for name, tensor in stored.tensors.items()}


def test_every_cycle_is_measured_under_both_protocols(out: Path, finished: dict[str, Path]) -> None:
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != ".lock"}
    found = review(out, 2, DOUBTFUL, joint=finished["joint"])
    assert found == json.loads((out / "review.json").read_text())
    assert found["recipe"]["data"]["root"] is None  # it may be published
    assert [entry["cycle"] for entry in found["cycles"]] == [0, 1, 2]
    results = json.loads((out / "results.json").read_text())
    for protocol in ("memory", "reencoded"):
        assert found["cycles"][0][protocol] == results[protocol]["last"]
        assert (
            found["joint"][protocol] == json.loads((finished["joint"] / "results.json").read_text())[protocol]["last"]
        )
    assert found["cycles"][0]["recognised"] is None
    for entry in found["cycles"][1:]:
        assert [seen["label"] for seen in entry["classes"]] == list(range(10))
        right = sum(seen["taken_for"] == seen["label"] for seen in entry["classes"])
        assert entry["recognised"] == right / 10
    assert {path: path.read_bytes() for path in before} == before  # the run stays as it was
    learner = ICTRL.load(out / "review" / "learner.safetensors")
    assert len(learner.memory) == 10


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
        listener = StopAfter(7)
        try:
            review(out, 2, DOUBTFUL, listener=listener, stop=listener)
            break
        except Stopped:
            stops += 1
    assert stops == 2
    assert tensors(out) == tensors(whole)
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
    assert tensors(out) == tensors(whole)


def test_more_cycles_go_on_from_those_done(out: Path, tmp_path: Path) -> None:
    whole = Path(shutil.copytree(out, tmp_path / "whole"))
    review(whole, 2, DOUBTFUL)
    review(out, 1, DOUBTFUL)
    review(out, 2, DOUBTFUL)
    assert tensors(out) == tensors(whole)
    again = review(out, 1, DOUBTFUL)  # fewer than are done: nothing to do
    assert len(again["cycles"]) == 3


def test_epochs_and_anchors_are_those_asked_for(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, float]] = []
    real = ICTRL.review

    def watched(self: ICTRL, *arguments: Any, **options: Any) -> Any:
        seen.append((self.recipe.game.epochs, self.recipe.anchors.replayed))
        return real(self, *arguments, **options)

    monkeypatch.setattr(ICTRL, "review", watched)
    held = load_recipe("digits").anchors.replayed
    review(out, 1, Manner(doubtful=True, epochs=1, anchors=0.5))
    review(out, 2, Manner(doubtful=True, epochs=1, anchors=0.5))  # not halved again
    assert seen == [(1, 0.5 * held)] * 20


def test_labels_leave_nothing_to_doubt(out: Path) -> None:
    found = review(out, 1, Manner(with_labels=True))
    assert all(seen["changed"] == seen["label"] for seen in found["cycles"][1]["classes"])
    assert found["with_labels"]
    assert found["cycles"][1]["recognised"] is None  # nothing had to be


def test_a_review_with_labels_and_one_without_stand_side_by_side(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    review(out, 1, DOUBTFUL)
    untold = tensors(out)
    assert main(["review", str(out), "--with-labels"]) == 0
    assert "recognised" not in (output := capsys.readouterr().out)
    assert f'ICTRL.load("{out}/review-with-labels/learner.safetensors")' in output
    assert json.loads((out / "review-with-labels.json").read_text())["with_labels"]
    assert not json.loads((out / "review.json").read_text())["with_labels"]
    assert tensors(out) == untold


def test_doubtful_classes_are_left_and_named(
    out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ictrl.memory.recognition.LEAST_AFFINITY", 0.9)
    assert main(["review", str(out)]) == 0
    output = capsys.readouterr().out
    entry = json.loads((out / "review.json").read_text())["cycles"][1]
    left = [seen for seen in entry["classes"] if seen["reason"]]
    assert left
    for seen in left:
        assert seen["changed"] is None
        assert f"cycle 1, class {seen['label']}: left as it was, {seen['reason']}" in output
    assert f"after 1 cycle: accuracy memory {entry['memory']:.3f}, reencoded {entry['reencoded']:.3f}" in output
    assert f'ICTRL.load("{out}/review/learner.safetensors")' in output


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
    assert "Expected anchors to be at least 0 times the recipe's but got -1.0" in refused(str(out), "--anchors", "-1")
    unfinished = Path(shutil.copytree(finished["run"], tmp_path / "unfinished"))
    (unfinished / "checkpoint" / "after-task-005.safetensors").unlink()
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
