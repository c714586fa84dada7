"""The folder of a run: good files whatever happens, one writer at a time, and nothing changed behind its back."""

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import filelock
import pytest
from run_support import outcome, quick

from ictrl import ICTRL, InputError, Results, evaluate, load_learner, resume, run
from ictrl.cli import main
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.sheets import read_sheet
from ictrl.files import Log
from ictrl.methods import storage
from ictrl.recipes.tables import differences

Begun = Callable[..., Path]


def test_checkpoints_are_written_as_asked_and_the_old_ones_go(begun: Begun) -> None:
    assert sorted(path.name for path in (begun() / "checkpoint").iterdir()) == [
        "after-task-001.safetensors",
        "after-task-002.safetensors",
        "task-003-epoch-00001.safetensors",
        "task-003-epoch-00002.safetensors",
    ]


def test_the_learner_of_every_task_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    run(quick(run={"checkpoint": {"every_task": True}}), tmp_path / "run")
    kept = [f"after-task-{task:03d}.safetensors" for task in (1, 2, 3)]
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoint").iterdir()) == kept
    assert resume(tmp_path / "run").results == Results.read(tmp_path / "run" / "results.json")
    assert sorted(path.name for path in (tmp_path / "run" / "checkpoint").iterdir()) == kept
    assert len(load_learner(tmp_path / "run" / "checkpoint" / kept[0], device="cpu").labels) == 4


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
    name = "task-003-epoch-00002.safetensors"
    assert captured.err.endswith(
        "are not those that were written. Going back to the checkpoint before it.\n"
        f"warning: Kept the damaged {name} as {name}.damaged.\n"
    )
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


# what nobody may lose


def test_a_folder_that_was_left_before_its_recipe_was_written_counts_as_new(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    (out / "checkpoint").mkdir(parents=True)
    (out / ".lock").touch()
    (out / ".config.toml.0123abcd.unfinished").write_bytes(b"name = ")
    (out / "checkpoint" / ".after-task-001.safetensors.0123abcd.unfinished").write_bytes(b"half")
    run(quick(), out)
    assert outcome(out) == outcome(undisturbed)
    assert not list(out.rglob("*.unfinished"))


@pytest.mark.parametrize("mine", ["checkpoint/mine.safetensors", ".notes", ".mine.unfinished", "results.json"])
def test_a_folder_with_anything_of_mine_does_not(mine: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    (out / "checkpoint").mkdir(parents=True)
    (out / mine).write_text("mine")
    with pytest.raises(InputError, match="Expected a new or empty folder"):
        run(quick(), out)
    assert (out / mine).read_text() == "mine"
    assert not (out / "config.toml").exists()


def test_one_bad_byte_in_the_log_costs_one_line(
    undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    shutil.copytree(undisturbed, out)
    lines = (out / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    before = b"".join([*lines[:2], b"\xff" + lines[2][1:], *lines[3:]])
    (out / "metrics.jsonl").write_bytes(before)
    assert main(["resume", str(out)]) == 0
    assert (out / "metrics.jsonl").read_bytes() == b"".join([*lines[:2], *lines[3:]])
    assert (out / "metrics-before.jsonl").read_bytes() == before
    said = capsys.readouterr().err
    assert "warning: Expected JSON with a task and an epoch in every line" in said
    assert "could not read 1 (3): left out." in said
    assert "warning: Kept metrics.jsonl as it was as metrics-before.jsonl.\n" in said
    assert main(["resume", str(out)]) == 0
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", [b"null", b"[1]", b'{"task": 1}', b'{"task": true, "epoch": 1}', b'{"task": "x", "epoch": 1}', b"[" * 9999]
)
def test_lines_that_are_json_but_none_of_ours_are_no_traceback(line: bytes, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(undisturbed, out)
    good = (out / "metrics.jsonl").read_bytes()
    (out / "metrics.jsonl").write_bytes(line + b"\n" + good + b'{"task": 4, "ep')
    resume(out)
    assert (out / "metrics.jsonl").read_bytes() == good


@pytest.mark.parametrize("how", ["missing", "empty", "foreign"])
def test_a_run_whose_checkpoints_are_gone_does_not_begin_again(
    how: str, begun: Begun, capsys: pytest.CaptureFixture[str]
) -> None:
    out = begun()
    shutil.rmtree(out / "checkpoint")
    if how != "missing":
        (out / "checkpoint").mkdir()
    if how == "foreign":
        (out / "checkpoint" / "after-task-best.safetensors").write_bytes(b"mine")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert main(["resume", str(out)]) == 2
    assert capsys.readouterr().err == (
        f"error: Expected the checkpoints of {out}, which has learned 2 tasks, but {out / 'checkpoint'} has none: put "
        "them back, or begin a new run in another folder.\n"
    )
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert (out / "checkpoint").exists() == (how != "missing")


def test_checkpoints_that_cannot_be_listed_are_an_error(begun: Begun, monkeypatch: pytest.MonkeyPatch) -> None:
    out = begun()
    real = os.listdir

    def refused(folder: Any) -> list[str]:
        if Path(folder).name == "checkpoint":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return real(folder)

    monkeypatch.setattr(os, "listdir", refused)
    before = (out / "metrics.jsonl").read_bytes()
    with pytest.raises(PermissionError):
        resume(out)
    assert (out / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("reader", ["open_regular", "safe_open"])  # its header is looked at, then it is read
def test_a_checkpoint_that_cannot_be_read_is_an_error_and_not_damaged(
    reader: str, begun: Begun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = begun()
    newest, real = out / "checkpoint" / "after-task-002.safetensors", getattr(storage, reader)

    def refused(path: Path, *given: Any, **more: Any) -> Any:
        if path == newest:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *given, **more)

    monkeypatch.setattr(storage, reader, refused)
    assert main(["resume", str(out)]) == 1
    said = f"Expected a saved learner but could not read {newest}: Permission denied."
    assert capsys.readouterr().err == f"error: {said}\n"
    with pytest.raises(InputError, match=re.escape(said)):  # and no older learner answers in its place
        load_learner(out)
    monkeypatch.undo()
    assert newest.is_file()
    assert main(["resume", str(out)]) == 0
    assert capsys.readouterr().err == ""


def test_what_a_run_that_goes_back_would_write_over_is_kept(
    begun: Begun, undisturbed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = begun()
    damaged = out / "checkpoint" / "after-task-002.safetensors"
    truncate(damaged)
    before = {name: (out / name).read_bytes() for name in ("metrics.jsonl", "results.json")}
    half = damaged.read_bytes()
    assert main(["resume", str(out)]) == 0
    assert (out / "metrics-before.jsonl").read_bytes() == before["metrics.jsonl"]
    assert (out / "results-before.json").read_bytes() == before["results.json"]
    assert (out / "checkpoint" / "after-task-002.safetensors.damaged").read_bytes() == half
    said = capsys.readouterr().err
    assert "checkpoints are left of 1: the rest is learned again." in said
    for name in ("metrics-before.jsonl", "results-before.json", "after-task-002.safetensors.damaged"):
        assert name in said
    assert (out / "metrics.jsonl").read_text() == outcome(undisturbed)["metrics"]


def test_checkpoints_of_other_names_are_nobodys_business(begun: Begun) -> None:
    out = begun()
    mine = ["after-task-001-backup.safetensors", "after-task-best.safetensors", "after-task-1.safetensors"]
    mine += ["task-003-epoch-best.safetensors", "after-task-000001x.safetensors", "task-1-epoch-2.safetensors"]
    for name in mine:
        (out / "checkpoint" / name).write_bytes(b"mine")
    (out / "checkpoint" / "after-task-009.safetensors").mkdir()
    assert main(["evaluate", str(out)]) == 0
    assert main(["classes", str(out)]) == 0
    resume(out)
    assert [(out / "checkpoint" / name).read_bytes() for name in mine] == [b"mine"] * len(mine)


def test_pictures_of_others_stay_where_a_run_keeps_its_own(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(undisturbed, out)
    mine = out / "pictures" / "mine.png"
    mine.write_bytes(b"mine")
    resume(out, keep_pictures=0)
    assert [path.name for path in (out / "pictures").iterdir()] == ["mine.png"]
    mine.unlink()
    resume(out, keep_pictures=2)
    resume(out, keep_pictures=0)
    assert not (out / "pictures").exists()


def test_what_a_killed_process_left_is_gone_after_the_next_start(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(undisturbed, out)
    before = sorted(path.relative_to(out) for path in out.rglob("*"))
    for folder in ("checkpoint", "pictures", "figures", "review", "."):
        (out / folder).mkdir(exist_ok=True)
        (out / folder / ".a.0123abcd.unfinished").write_bytes(b"half")
    newest = (out / "checkpoint" / "after-task-003.safetensors").read_bytes()
    for name in ("after-task-001", "task-003-epoch-00001", "task-002-epoch-00001"):
        (out / "checkpoint" / f"{name}.safetensors").write_bytes(newest)
    resume(out)
    for folder in ("figures", "review"):
        (out / folder).rmdir()
    assert sorted(path.relative_to(out) for path in out.rglob("*")) == before


def test_the_log_is_on_the_disk_before_the_checkpoint_that_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    monkeypatch.setattr(Log, "add", lambda log, line, real=Log.add: (happened.append("line"), real(log, line)))
    monkeypatch.setattr(Log, "flush", lambda log, real=Log.flush: (happened.append("flush"), real(log)))
    for kind in ("learner", "task"):
        name = f"save_{kind}"
        real = getattr(RunFolder, name)

        def saved(folder: Any, *given: Any, real: Any = real) -> None:
            happened.append("checkpoint")
            real(folder, *given)

        monkeypatch.setattr(RunFolder, name, saved)
    run(quick("finetune", stream={"tasks": 2}, run={"checkpoint": {"every_epochs": 2}}), tmp_path / "run")
    assert happened.count("checkpoint") == 2 * 3
    for before, after in pairwise(happened):
        assert after != "checkpoint" or before == "flush"


@pytest.mark.parametrize("content", ["", "[]", "3", "{", "[" * 9999, '{"sha256": NaN}', "\x00"])
def test_a_damaged_data_json_is_refused_in_a_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(content)
    with pytest.raises(InputError, match=r"Expected what ictrl wrote in .*data\.json but could not read it") as error:
        RunFolder(tmp_path).check_data({"sha256": ""})
    assert "\n" not in str(error.value)
