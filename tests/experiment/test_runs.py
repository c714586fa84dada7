"""A run survives what happens to runs: kills, stops, full disks, damaged files, a second process."""

import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import filelock
import pytest
import torch
from PIL import Image

from ictrl import ICTRL, InputError, NonFiniteError, Recipe, load_recipe
from ictrl.cli import main
from ictrl.config import AnchorsConfig, CheckpointConfig, DataConfig, GameConfig, NetworkConfig
from ictrl.experiment.run import Listener, Stopped, evaluate, resume, run
from ictrl.files import make_folder
from ictrl.training.game import EpochReport
from ictrl.recipes.reader import differences, to_toml
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.sheets import read_sheet
from ictrl.methods.storage import LEARNER, STOPPED_TASK, read_stored


def quick(**changes: Any) -> Recipe:
    """The whole method on a fraction of the digits: a run of a second or two."""
    recipe = load_recipe("digits")
    return replace(
        recipe,
        **{
            "device": "cpu",
            "network": NetworkConfig(image_size=8, channels=1, width=4, feature_dim=16),
            "game": GameConfig(
                epochs=4, first_epochs=4, batch=20, first_batch=20, learning_rate=1e-3, resample="step", averaged=0.0
            ),
            "data": replace(recipe.data, limit=16),
            "checkpoint": CheckpointConfig(every_epochs=2),
            **changes,
        },
    )


def outcome(out: Path) -> dict[str, Any]:
    """Everything a run leaves that must not depend on how often it was stopped."""
    results = json.loads((out / "results.json").read_text())
    results.pop("seconds")
    newest = sorted((out / "checkpoint").glob("after-task-*"))[-1]
    tensors = read_stored(newest, LEARNER).tensors
    return {
        "results": results,
        "metrics": (out / "metrics.jsonl").read_text(),
        "tensors": {name: tensor.numpy().tobytes() for name, tensor in tensors.items()},
        "files": sorted(path.name for path in (out / "checkpoint").iterdir()),
        "pictures": {path.name: path.read_bytes() for path in (out / "pictures").iterdir()},
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    run(quick(), out)
    return out


class StopAfter(Listener):
    """Asks a run to stop after so many epochs in all."""

    def __init__(self, epochs: int) -> None:
        self.left = epochs

    def on_epoch(self, index: int, report: EpochReport) -> None:
        self.left -= 1

    def __call__(self) -> bool:
        return self.left <= 0


@pytest.mark.parametrize("every", [1, 3, 7])
def test_stopping_and_resuming_again_and_again_changes_nothing(every: int, undisturbed: Path, tmp_path: Path) -> None:
    out, stops = tmp_path / "run", 0
    stop = StopAfter(every)
    try:
        run(quick(), out, stop, stop)
    except Stopped:
        stops += 1
    while not json.loads((out / "results.json").read_text())["complete"] if (out / "results.json").exists() else True:
        stop = StopAfter(every)
        try:
            resume(out, stop, stop)
        except Stopped:
            stops += 1
    assert stops == (20 - 1) // every if every > 1 else stops >= 19
    assert outcome(out) == outcome(undisturbed)


def test_killed_at_random_moments_and_resumed_to_the_same_end(undisturbed: Path, tmp_path: Path) -> None:
    """SIGKILL, which nothing can catch, at moments that a seed chooses; the end is the same, bit for bit."""
    out, recipe = tmp_path / "run", tmp_path / "quick.toml"
    recipe.write_text(to_toml(quick()))
    moments, kills = random.Random(0), 0
    command = ["run", str(recipe), "--out", str(out)]
    while kills < 4:
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(moments.randrange(1, 8)), *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
        )
        _, errors = process.communicate(timeout=120)
        assert process.returncode in (-9, 0), errors.decode()
        if process.returncode == 0:
            break
        kills += 1
        command = ["resume", str(out)]
    assert kills >= 2
    resume(out)
    assert outcome(out) == outcome(undisturbed)


KILLED = """
import os, signal, sys
from pathlib import Path
import ictrl.files
from ictrl.cli import main

# dies at a moment within the writing of its n-th file: before, in the middle of, or after it
writes, real = int(sys.argv[1]), ictrl.files.write_atomically
def write(path, content):
    global writes
    writes -= 1
    if writes == 0:
        path.with_name(f".{path.name}.abc.unfinished").write_bytes(content[: len(content) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    real(path, content)

for module in list(sys.modules.values()):
    if getattr(module, "write_atomically", None) is real:
        module.write_atomically = write
sys.exit(main(sys.argv[2:]))
"""


def begun(tmp_path: Path, epochs: int = 10) -> Path:
    """A run stopped in its third task, with a learner after two tasks and two checkpoints of the third."""
    out, stop = tmp_path / "run", StopAfter(epochs)
    with pytest.raises(Stopped):
        run(quick(checkpoint=CheckpointConfig(every_epochs=1)), out, stop, stop)
    return out


def test_checkpoints_are_written_as_asked_and_the_old_ones_go(tmp_path: Path) -> None:
    assert sorted(path.name for path in (begun(tmp_path) / "checkpoint").iterdir()) == [
        "after-task-001.safetensors",
        "after-task-002.safetensors",
        "task-003-epoch-00001.safetensors",
        "task-003-epoch-00002.safetensors",
    ]


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("damage", [flip_a_byte, truncate, lambda path: path.write_bytes(b"")])
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
    damage: Any, damaged: list[str], goes_on_at: tuple[int, int], undisturbed: Path, tmp_path: Path
) -> None:
    out = begun(tmp_path)
    for name in damaged:
        damage(out / "checkpoint" / f"{name}.safetensors")
    position = RunFolder(out).position()
    assert (position.done, position.epoch) == goes_on_at
    assert [name for name, line in zip(damaged, position.warnings) if name in line] == damaged
    assert all("Going back to the checkpoint before it." in line for line in position.warnings)
    results, _ = resume(out)
    assert results["complete"]
    assert outcome(out)["tensors"] == outcome(undisturbed)["tensors"]
    assert outcome(out)["metrics"] == outcome(undisturbed)["metrics"]


def test_the_fallback_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = begun(tmp_path)
    flip_a_byte(out / "checkpoint" / "task-003-epoch-00002.safetensors")
    assert main(["resume", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("warning: Expected a stopped task but ")
    assert captured.err.endswith("are not those that were written. Going back to the checkpoint before it.\n")
    assert captured.out.startswith("Going on with task 3 of 5, after 1 epoch of task 3.\n")


def test_missing_results_are_written_again(
    undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    shutil.copytree(undisturbed, out)
    (out / "results.json").unlink()
    assert main(["resume", str(out)]) == 0
    assert f"{out} is finished: all 5 tasks are learned." in capsys.readouterr().out.replace("\n", " ")
    assert outcome(out) == outcome(undisturbed)
    (out / "results.json").unlink()
    evaluate(out)
    assert outcome(out) == outcome(undisturbed)


def test_evaluate_measures_what_was_measured(undisturbed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (undisturbed / "results.json").read_bytes()
    results = json.loads(before)
    assert main(["evaluate", str(undisturbed)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Accuracy on the test images of each task after 5 of 5 tasks"
    assert lines[2].split() == ["task", "classes", "memory", "reencoded"]
    for t, line in enumerate(lines[3:8]):
        row = [f"{results[protocol]['matrix'][-1][t]:.3f}" for protocol in ("memory", "reencoded")]
        assert line.split() == [str(t + 1), str(2 * t), str(2 * t + 1), *row]
    assert lines[8].split() == ["all", *(f"{results[protocol]['last']:.3f}" for protocol in ("memory", "reencoded"))]
    assert (undisturbed / "results.json").read_bytes() == before


def test_a_folder_in_use_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = begun(tmp_path)
    with filelock.FileLock(out / ".lock"):
        assert main(["resume", str(out)]) == 2
    assert (
        capsys.readouterr().err == f"error: Expected {out} to be free but another process is using it: wait for it.\n"
    )
    resume(out)


def test_a_changed_recipe_is_refused_with_the_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = begun(tmp_path)
    config = out / "config.toml"
    config.write_text(config.read_text().replace("lambda_new = 3.0", "lambda_new = 7.5"))
    assert main(["resume", str(out)]) == 2
    assert "its config.toml was changed (objective.lambda_new: 3.0 → 7.5): change it back" in capsys.readouterr().err
    config.write_text(config.read_text().replace("lambda_new = 7.5", "lambda_new = 3.0"))
    config.write_text(config.read_text().replace("every_epochs = 1", "every_epochs = 3"))  # no result depends on it
    resume(out)


def test_differences_name_every_setting_that_decides_results() -> None:
    one = quick()
    assert differences(one, replace(one, name="x", device="cuda", checkpoint=CheckpointConfig())) == []
    other = replace(one, seed=4, anchors=AnchorsConfig(new=1.0, replayed=0.0))
    assert set(differences(one, other)) == {
        "seed: 0 → 4",
        f"anchors.new: {one.anchors.new} → 1.0",
        f"anchors.replayed: {one.anchors.replayed} → 0.0",
    }


def test_resuming_what_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("resume", "evaluate"):
        assert main([command, str(tmp_path / "nothing")]) == 2
        assert "Expected a run folder but" in capsys.readouterr().err


def test_a_run_killed_before_its_first_checkpoint_begins_again(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    shutil.copy(undisturbed / "config.toml", out)
    (out / "metrics.jsonl").write_text('{"task": 1, "epoch": 1}\n{"task": 1, "ep')
    with pytest.raises(InputError, match="has none: `ictrl resume"):
        evaluate(out)
    resume(out)
    assert outcome(out) == outcome(undisturbed)


def test_a_new_run_does_not_write_over_an_old_one(undisturbed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = outcome(undisturbed)
    with pytest.raises(InputError, match=f"choose another --out, or go on with `ictrl resume {undisturbed}`"):
        run(quick(), undisturbed)
    assert outcome(undisturbed) == before


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    out = begun(tmp_path)
    before = {path: path.read_bytes() for path in (out / "checkpoint").iterdir()}
    real = os.fsync

    def full(descriptor: int) -> None:
        if os.fstat(descriptor).st_size > 20_000:
            raise OSError(28, "No space left on device", "the disk")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    assert main(["resume", str(out)]) == 1
    newest = out / "checkpoint" / "task-003-epoch-00003.safetensors"
    said = capsys.readouterr().err
    why = "No space left on device. What was written before is good."
    assert said == f"error: Expected to read and write {newest} but could not: {why}\n"
    assert {path: path.read_bytes() for path in (out / "checkpoint").iterdir()} == before
    monkeypatch.undo()
    results, _ = resume(out)
    assert results["complete"]


def test_a_read_only_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write anywhere, so the refusal is the system's answer to making a folder, played back."""
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    assert main(["run", "--out", str(tmp_path / "run")]) == 2
    assert (
        f"Expected to write the run into {tmp_path / 'run'} but could not: Permission denied."
        in capsys.readouterr().err
    )


def test_a_diverging_run_leaves_the_last_good_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = begun(tmp_path)
    import ictrl.training.game

    real = ictrl.training.game.encoder_step
    monkeypatch.setattr(ictrl.training.game, "encoder_step", lambda *a: replace(real(*a), reduction=torch.tensor(float("nan"))))
    with pytest.raises(NonFiniteError, match=r"encoder\.reduction became nan"):
        resume(out)
    assert RunFolder(out).position().epoch == 2
    assert read_stored(out / "checkpoint" / "task-003-epoch-00002.safetensors", STOPPED_TASK).epoch == 2


def test_hidden_files_of_others_stay(tmp_path: Path) -> None:
    out = begun(tmp_path)
    (out / ".notes").write_text("mine")
    (out / ".git").mkdir()
    (out / "checkpoint" / ".after-task-003.safetensors.abc.unfinished").write_bytes(b"half")
    resume(out)
    assert (out / ".notes").read_text() == "mine"
    assert (out / ".git").is_dir()
    assert not list((out / "checkpoint").glob("*.unfinished"))


def test_a_recipe_changed_during_the_first_task_is_refused_too(tmp_path: Path) -> None:
    out = begun(tmp_path, epochs=2)
    config = out / "config.toml"
    config.write_text(config.read_text().replace("gamma_old = 1.0", "gamma_old = 2.0"))
    with pytest.raises(InputError, match=r"was changed \(objective.gamma_old: 1.0 → 2.0\)"):
        resume(out)
    config.write_text(config.read_text().replace("gamma_old = 2.0", "gamma_old = 1.0"))
    config.write_text(config.read_text().replace("every_minutes = 10.0", "every_minutes = 5.0"))
    resume(out)


def test_changed_data_is_noticed(tmp_path: Path) -> None:
    out = begun(tmp_path)
    noted = json.loads((out / "data.json").read_text())
    assert noted["training_images"] == 160
    (out / "data.json").write_text(json.dumps({**noted, "sha256": "0" * 64}))
    for again in (resume, evaluate):
        with pytest.raises(InputError, match="Expected the data that .* was begun with but it has changed .sha256"):
            again(out)


def test_evaluate_says_what_it_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = begun(tmp_path)
    truncate(out / "checkpoint" / "after-task-002.safetensors")
    assert main(["evaluate", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("warning: Expected a saved learner but ")
    assert captured.out.startswith("Accuracy on the test images of each task after 1 of 5 tasks")
    truncate(out / "checkpoint" / "after-task-001.safetensors")
    assert main(["evaluate", str(out)]) == 2
    assert "is cut short or of another kind" in capsys.readouterr().err


def test_a_run_can_be_resumed_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("train", "test"):
        for label in range(2):
            (tmp_path / "own" / part / str(label)).mkdir(parents=True)
            for i in range(3):
                Image.new("L", (8, 8), 50 * label + i).save(tmp_path / "own" / part / str(label) / f"{i}.png")
    recipe = quick(data=DataConfig(name="folder", root="own", tasks=1))
    monkeypatch.chdir(tmp_path)
    run(recipe, tmp_path / "run")
    monkeypatch.chdir("/")
    assert resume(tmp_path / "run")[0]["complete"]


@pytest.mark.parametrize("command", ["resume", "evaluate", "review"])
def test_data_that_has_moved_is_found_by_root(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for label in range(2):
        (tmp_path / "own" / str(label)).mkdir(parents=True)
        for i in range(12):
            Image.effect_noise((8, 8), 20 + 60 * label).save(tmp_path / "own" / str(label) / f"{i}.png")
    out = tmp_path / "run"
    run(quick(data=DataConfig(name="folder", root=str(tmp_path / "own"), tasks=2)), out)
    (tmp_path / "own").rename(tmp_path / "moved")
    assert main([command, str(out)]) == 2
    assert f"{tmp_path / 'own'} is not there" in capsys.readouterr().err
    assert main([command, str(out), "--root", str(tmp_path / "moved")]) == 0
    shutil.rmtree(tmp_path / "moved" / "1")
    assert main([command, str(out), "--root", str(tmp_path / "moved")]) == 2  # other data is no moved data


def test_a_run_keeps_a_sheet_a_task_and_the_drift_of_every_class(undisturbed: Path) -> None:
    sheets = {path.stem: read_sheet(path) for path in (undisturbed / "pictures").iterdir()}
    assert sorted(sheets) == [*(f"after-task-{number:03d}" for number in range(1, 6)), "originals"]
    originals = sheets.pop("originals")
    assert {label: tuple(images.shape) for label, images in originals.items()} == dict.fromkeys(range(10), (4, 1, 8, 8))
    for number in range(1, 6):
        assert list(sheets[f"after-task-{number:03d}"]) == list(range(2 * number))
    learner = ICTRL.load(undisturbed / "checkpoint" / "after-task-005.safetensors", device="cpu")
    for label, images in originals.items():
        difference = sheets["after-task-005"][label].int() - learner.reconstruct(images).int()
        assert int(difference.abs().max()) <= 1  # a batch of another size may round differently
    drift = json.loads((undisturbed / "results.json").read_text())["drift"]
    assert drift["classes"] == list(range(10))
    for rows in (drift["mean"], drift["affinity"]):
        assert [sum(value is not None for value in row) for row in rows] == [2, 4, 6, 8, 10]
    assert drift["mean"][0] == [pytest.approx(0, abs=1e-5)] * 2 + [None] * 8
    assert all(0 <= value <= 1 for value in drift["affinity"][-1])


def test_a_run_begun_before_there_was_drift_goes_on(undisturbed: Path, tmp_path: Path) -> None:
    out = begun(tmp_path)
    shutil.rmtree(out / "pictures")
    for path in (out / "checkpoint").glob("after-task-*"):
        learner, stored = ICTRL.load(path, device="cpu"), read_stored(path, LEARNER)
        measured = json.loads(stored.notes["measured"])
        del measured["drift_mean"], measured["drift_affinity"]
        learner.save(path, {**stored.notes, "measured": json.dumps(measured)})
    results, _ = resume(out)
    assert results["drift"]["mean"][:2] == [[None] * 10] * 2
    assert results["drift"]["mean"][2:] == json.loads((undisturbed / "results.json").read_text())["drift"]["mean"][2:]
    written = sorted(path.name for path in (out / "pictures").iterdir())
    assert written == [*(f"after-task-{number:03d}.png" for number in range(2, 6)), "originals.png"]


def test_a_file_where_a_folder_should_be_is_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "file")
    assert main(["run", "digits", "--out", str(tmp_path / "file" / "run")]) == 2
    assert capsys.readouterr().err.endswith("Not a directory.\n")
