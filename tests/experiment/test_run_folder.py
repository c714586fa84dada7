"""The folder of a run: good files whatever happens, one writer at a time, and nothing changed behind its back."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import pytest
from run_support import outcome, quick

from ictrl import ICTRL, InputError, Results, evaluate, resume, run
from ictrl.cli import main
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.sheets import read_sheet
from ictrl.recipes.tables import differences

Begun = Callable[..., Path]


def test_checkpoints_are_written_as_asked_and_the_old_ones_go(begun: Begun) -> None:
    assert sorted(path.name for path in (begun() / "checkpoint").iterdir()) == [
        "after-task-001.safetensors",
        "after-task-002.safetensors",
        "task-003-epoch-00001.safetensors",
        "task-003-epoch-00002.safetensors",
    ]


# damage


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [flip_a_byte, truncate, empty])
@pytest.mark.parametrize(
    ("damaged", "goes_on_at"),
    [
        (["task-003-epoch-00002"], (2, 1)),
        (["task-003-epoch-00002", "task-003-epoch-00001"], (2, 0)),
        (["after-task-002"], (1, 0)),
        (["after-task-002", "after-task-001"], (0, 0)),
    ],
)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    damage: Callable[[Path], None],
    damaged: list[str],
    goes_on_at: tuple[int, int],
    begun: Begun,
    undisturbed: Path,
) -> None:
    out = begun()
    for name in damaged:
        damage(out / "checkpoint" / f"{name}.safetensors")
    position = RunFolder(out).position()
    assert (position.done, position.epoch) == goes_on_at
    assert [name for name, line in zip(damaged, position.warnings) if name in line] == damaged
    assert all("Going back to the checkpoint before it." in line for line in position.warnings[: len(damaged)])
    nothing_left = [line for line in position.warnings if line.endswith("the run goes back to its beginning.")]
    assert len(nothing_left) == (position.done == 0 and any(name.startswith("after") for name in damaged))
    assert resume(out).results.complete
    assert outcome(out)["tensors"] == outcome(undisturbed)["tensors"]
    assert outcome(out)["metrics"] == outcome(undisturbed)["metrics"]


def test_the_fallback_is_said(begun: Begun, capsys: pytest.CaptureFixture[str]) -> None:
    out = begun()
    flip_a_byte(out / "checkpoint" / "task-003-epoch-00002.safetensors")
    assert main(["resume", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("warning: Expected a stopped task but ")
    assert captured.err.endswith("are not those that were written. Going back to the checkpoint before it.\n")
    assert captured.out.startswith("Going on with task 3 of 3, after 1 epoch of task 3.\n")


def test_evaluate_says_what_it_passed_over(begun: Begun, capsys: pytest.CaptureFixture[str]) -> None:
    out = begun()
    truncate(out / "checkpoint" / "after-task-002.safetensors")
    assert main(["evaluate", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("warning: Expected a saved learner but ")
    assert captured.out.startswith("Accuracy on the test images of each task after 1 of 3 tasks")
    truncate(out / "checkpoint" / "after-task-001.safetensors")
    assert main(["evaluate", str(out)]) == 2
    assert "is cut short or of another kind" in capsys.readouterr().err


# one writer, and files of others


def test_a_folder_in_use_is_left_alone(begun: Begun, capsys: pytest.CaptureFixture[str]) -> None:
    out = begun()
    with filelock.FileLock(out / ".lock"):
        assert main(["resume", str(out)]) == 2
    assert (
        capsys.readouterr().err == f"error: Expected {out} to be free but another process is using it: wait for it.\n"
    )
    with RunFolder.reopen(out):
        pass


def test_a_new_run_does_not_write_over_an_old_one(undisturbed: Path) -> None:
    before = outcome(undisturbed)
    with pytest.raises(InputError, match=f"choose another --out, or go on with `ictrl resume {undisturbed}`"):
        run(quick(), undisturbed)
    assert outcome(undisturbed) == before


def test_a_folder_with_files_of_others_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(InputError, match="Expected a new or empty folder for the run but .* is not"):
        run(quick(), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["precious.txt"]


def test_hidden_files_of_others_stay(begun: Begun) -> None:
    out = begun()
    (out / ".notes").write_text("mine")
    (out / ".git").mkdir()
    (out / "checkpoint" / ".after-task-003.safetensors.abc.unfinished").write_bytes(b"half")
    resume(out)
    assert (out / ".notes").read_text() == "mine"
    assert (out / ".git").is_dir()
    assert not list((out / "checkpoint").glob("*.unfinished"))


# nothing changed behind its back


def change(config: Path, before: str, after: str, times: int = 1) -> None:
    text = config.read_text()
    assert text.count(before) == times
    config.write_text(text.replace(before, after))


def test_a_changed_recipe_is_refused_with_the_difference(begun: Begun, capsys: pytest.CaptureFixture[str]) -> None:
    out = begun()
    config = out / "config.toml"
    change(config, "lambda_new = 3.0", "lambda_new = 7.5")
    assert main(["resume", str(out)]) == 2
    said = capsys.readouterr().err
    assert "its config.toml was changed (method.later.weights.lambda_new: 3.0 → 7.5): change it back" in said
    change(config, "lambda_new = 7.5", "lambda_new = 3.0")
    change(config, "every_epochs = 1", "every_epochs = 3")  # no result depends on it
    resume(out)


def test_a_recipe_changed_during_the_first_task_is_refused_too(begun: Begun) -> None:
    out = begun(epochs=2)
    config = out / "config.toml"
    change(config, "distill_new = 10.0", "distill_new = 2.0")
    with pytest.raises(InputError, match=r"was changed \(method.later.weights.distill_new: 10.0 → 2.0\)"):
        resume(out)
    change(config, "distill_new = 2.0", "distill_new = 10.0")
    change(config, "every_minutes = 10.0", "every_minutes = 5.0")
    assert RunFolder(out).position().epoch == 2
    resume(out)


def test_differences_name_every_setting_that_decides_results() -> None:
    one = quick()
    unimportant: dict[str, Any] = {"device": "cuda", "checkpoint": {"every_epochs": 0, "every_minutes": 1.0}}
    assert differences(one, quick(name="x", description="y", run=unimportant, stream={"root": "elsewhere"})) == []
    weights = {"distill_new": 1.0, "distill_replayed": 0.0}
    other = quick(run={"seed": 4}, method={"later": {"weights": weights}})
    assert set(differences(one, other)) == {
        "run.seed: 0 → 4",
        "method.later.weights.distill_new: 10.0 → 1.0",
        "method.later.weights.distill_replayed: 50.0 → 0.0",
    }
    assert "method.name: ictrl → frozen" in differences(one, quick("frozen"))


def test_changed_data_is_noticed(begun: Begun) -> None:
    out = begun()
    noted = json.loads((out / "data.json").read_text())
    assert noted["training_images"] == 120
    (out / "data.json").write_text(json.dumps({**noted, "sha256": "0" * 64}))
    for again in (resume, evaluate):
        with pytest.raises(InputError, match="Expected the data that .* was begun with but it has changed .sha256"):
            again(out)


# what lies in it


def test_a_run_keeps_a_sheet_a_task_and_the_drift_of_every_class(undisturbed: Path) -> None:
    sheets = {path.stem: read_sheet(path) for path in (undisturbed / "pictures").iterdir()}
    assert sorted(sheets) == [*(f"after-task-{number:03d}" for number in range(1, 4)), "originals"]
    originals = sheets.pop("originals")
    assert {label: tuple(images.shape) for label, images in originals.items()} == dict.fromkeys(range(10), (4, 1, 8, 8))
    for number, classes in ((1, 4), (2, 7), (3, 10)):
        assert list(sheets[f"after-task-{number:03d}"]) == list(range(classes))
    learner = ICTRL.load(undisturbed / "checkpoint" / "after-task-003.safetensors", device="cpu")
    for label, images in originals.items():
        difference = sheets["after-task-003"][label].int() - learner.reconstruct(images).int()
        assert int(difference.abs().max()) <= 1  # a batch of another size may round differently
    drift = Results.read(undisturbed / "results.json").drift
    assert drift is not None
    assert drift.classes == list(range(10))
    for rows in (drift.mean, drift.affinity):
        assert [sum(value is not None for value in row) for row in rows] == [4, 7, 10]
    assert drift.mean[0] == [pytest.approx(0, abs=1e-5)] * 4 + [None] * 6
    assert all(value is not None and 0 <= value <= 1 for value in drift.affinity[-1])


def test_a_method_that_draws_nothing_leaves_no_pictures(tmp_path: Path) -> None:
    run(quick("finetune", stream={"tasks": 2}), tmp_path / "run")
    assert not (tmp_path / "run" / "pictures").exists()
    assert (tmp_path / "run" / "metrics.jsonl").read_text().count("cross_entropy") == 8
    assert resume(tmp_path / "run").results.complete
