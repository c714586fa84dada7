"""A run can be stopped, killed and resumed, from anywhere and with any method, and comes to the same end."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from run_support import EPOCHS, QUICK, StopAfter, newest, outcome, quick, stopped_run, tensors, timeless
from support import pictures
from torch import nn

import ictrl
from ictrl import ICTRL, InputError, NonFiniteError, Results, load_learner, tasks_from_arrays
from ictrl.cli import main
from ictrl.experiment.run import Listener, Stopped, begin_alike, evaluate, resume, run
from ictrl.experiment.run_data import IN_MEMORY
from ictrl.experiment.run_folder import RunFolder
from ictrl.files import make_folder
from ictrl.methods.base import LEARNERS
from ictrl.methods.storage import LEARNER, STOPPED_TASK, read_stored
from ictrl.recipes.reader import read_resolved
from ictrl.recipes.tables import recipe_with, to_toml
from ictrl.training import task as game_task

# stopping and resuming


@pytest.mark.parametrize("every", [1, 5, 7])
def test_stopping_and_resuming_again_and_again_changes_nothing(every: int, undisturbed: Path, tmp_path: Path) -> None:
    out, stops = stopped_run(quick(), tmp_path / "run", every), 1
    while not (out / "results.json").exists() or not Results.read(out / "results.json").complete:
        stop = StopAfter(every)
        try:
            resume(out, listener=stop, stop=stop)
        except Stopped:
            stops += 1
    assert stops == (EPOCHS - 1) // every if every > 1 else stops >= EPOCHS - 1
    assert outcome(out) == outcome(undisturbed)


ONCE = ("frozen", "wide", "slda", "fecam", "analytic", "fearnet")


@pytest.mark.parametrize("method", sorted(LEARNERS))
def test_every_method_is_resumed_to_the_same_end(method: str, tmp_path: Path) -> None:
    """Stopped in the midst of a task and between tasks; some have epochs in their first task alone."""
    recipe = quick(method, stream={"tasks": 2})
    whole, stop = tmp_path / "whole", (2, 4) if method in ONCE else (2, 4, 6)
    finished = run(recipe, whole)
    assert finished.results.complete
    assert type(finished.learner) is LEARNERS[method]
    for epochs in stop:
        out = stopped_run(recipe, tmp_path / f"stopped-{epochs}", epochs)
        again = resume(out)
        assert timeless(again.results) == timeless(finished.results)
        assert outcome(out) == outcome(whole)
        dataset, _ = ictrl.experiment.run_data.run_data(RunFolder(out))
        assert torch.equal(again.learner.scores(dataset.test_images), finished.learner.scores(dataset.test_images))


KILLED = """
import os, signal, sys
import sklearn.datasets
import ictrl, ictrl.files

# dies at a moment within the writing of its n-th file: before, in the middle of, or after it
writes, real = 0, ictrl.files.write_atomically
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
recipe, out = sys.argv[1:]
for moment in sys.stdin:  # a life for each line, so that all of this is imported but once
    if not (child := os.fork()):
        writes = int(moment)
        ictrl.resume(out) if os.path.exists(f"{out}/config.toml") else ictrl.run(ictrl.load_recipe(recipe), out)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_killed_at_random_moments_and_resumed_to_the_same_end(undisturbed: Path, tmp_path: Path) -> None:
    """SIGKILL, which nothing can catch, at moments that a seed chooses; the end is the same, bit for bit."""
    out, recipe = tmp_path / "run", tmp_path / "quick.toml"
    recipe.write_text(to_toml(quick()))
    moments, kills = random.Random(0), 0
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(recipe), str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
    ) as lives:
        assert lives.stdin
        assert lives.stdout
        while kills < 4:
            lives.stdin.write(f"{moments.randrange(2, 9)}\n")
            lives.stdin.flush()
            code = int(lives.stdout.readline())
            assert code in (-signal.SIGKILL, 0)
            if code == 0:
                break
            kills += 1
            assert list(out.rglob("*.unfinished"))
    assert kills >= 2
    resume(out)
    assert outcome(out) == outcome(undisturbed)


def test_a_run_killed_before_its_first_checkpoint_begins_again(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    shutil.copy(undisturbed / "config.toml", out)
    (out / "metrics.jsonl").write_text('{"task": 1, "epoch": 1}\n{"task": 1, "ep')
    with pytest.raises(InputError, match="has none: `ictrl resume"):
        evaluate(out)
    resume(out)
    assert outcome(out) == outcome(undisturbed)


def test_missing_results_are_written_again(
    undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    shutil.copytree(undisturbed, out)
    (out / "results.json").unlink()
    assert main(["resume", str(out)]) == 0
    assert f"{out} is finished: all 3 tasks are learned." in capsys.readouterr().out.replace("\n", " ")
    assert outcome(out) == outcome(undisturbed)
    (out / "results.json").unlink()
    evaluate(out)
    assert outcome(out) == outcome(undisturbed)


def test_evaluate_measures_what_was_measured(undisturbed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (undisturbed / "results.json").read_bytes()
    results = Results.from_json(before.decode())
    assert timeless(evaluate(str(undisturbed))) == timeless(results)
    assert main(["evaluate", str(undisturbed)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Accuracy on the test images of each task after 3 of 3 tasks"
    assert lines[2].split() == ["task", "classes", "memory", "reencoded"]
    for t, (line, classes) in enumerate(zip(lines[3:6], ("0 1 2 3", "4 5 6", "7 8 9"))):
        row = [f"{scores.matrix[-1][t]:.3f}" for scores in results.protocols.values()]
        assert line.split() == [str(t + 1), *classes.split(), *row]
    assert lines[6].split() == ["all", *(f"{scores.last:.3f}" for scores in results.protocols.values())]
    assert (undisturbed / "results.json").read_bytes() == before


def test_a_full_disk_leaves_the_last_checkpoint(
    begun: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = begun()
    before = {path: path.read_bytes() for path in (out / "checkpoint").iterdir()}
    real = os.fsync

    def full(descriptor: int) -> None:
        if os.fstat(descriptor).st_size > 20_000:
            raise OSError(28, "No space left on device", "the disk")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    assert main(["resume", str(out)]) == 1
    failed = out / "checkpoint" / "task-003-epoch-00003.safetensors"
    said = capsys.readouterr().err
    why = "No space left on device. What was written before is good."
    assert said == f"error: Expected to read and write {failed} but could not: {why}\n"
    assert {path: path.read_bytes() for path in (out / "checkpoint").iterdir()} == before
    monkeypatch.undo()
    assert resume(out).results.complete


def test_a_diverging_run_leaves_the_last_good_checkpoint(
    begun: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, real = begun(), game_task.encoder_step
    nan = {"reduction": torch.tensor(float("nan"))}
    monkeypatch.setattr(game_task, "encoder_step", lambda *given: {**real(*given), **nan})
    with pytest.raises(NonFiniteError, match=r"encoder\.reduction became nan"):
        resume(out)
    assert RunFolder(out).position().epoch == 2
    assert read_stored(out / "checkpoint" / "task-003-epoch-00002.safetensors", STOPPED_TASK).epoch == 2


def test_a_run_begun_before_there_was_drift_goes_on(begun: Callable[..., Path], undisturbed: Path) -> None:
    out = begun()
    shutil.rmtree(out / "pictures")
    for path in (out / "checkpoint").glob("after-task-*"):
        learner, stored = ICTRL.load(path, device="cpu"), read_stored(path, LEARNER)
        measured = json.loads(stored.notes["measured"])
        del measured["drift_mean"], measured["drift_affinity"]
        learner.save(path, {**stored.notes, "measured": json.dumps(measured)})
    drift, expected = resume(out).results.drift, Results.read(undisturbed / "results.json").drift
    assert drift is not None
    assert expected is not None
    assert drift.mean[:2] == [[None] * 10] * 2
    assert drift.mean[2:] == expected.mean[2:]
    written = sorted(path.name for path in (out / "pictures").iterdir())
    assert written == [*(f"after-task-{number:03d}.png" for number in range(2, 4)), "originals.png"]


# where the data is


def folder_of_pictures(root: Path, each: int, parts: tuple[str, ...] = ("",)) -> Path:
    """Noise of two kinds."""
    for part in parts:
        for label in range(2):
            (root / part / str(label)).mkdir(parents=True)
            for i in range(each):
                Image.effect_noise((8, 8), 20 + 60 * label).save(root / part / str(label) / f"{i}.png")
    return root


def test_a_run_can_be_resumed_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_of_pictures(tmp_path / "own", 10, ("train", "test"))
    recipe = quick(stream={"dataset": "folder", "root": "own", "tasks": 1})
    monkeypatch.chdir(tmp_path)
    run(recipe, tmp_path / "run")
    monkeypatch.chdir("/")
    assert resume(tmp_path / "run").results.complete


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder_of_pictures(tmp_path / "own", 10, ("train", "test"))
    run(quick(stream={"dataset": "folder", "root": "~/own", "tasks": 1}), tmp_path / "run")
    assert read_resolved(tmp_path / "run" / "config.toml").stream.root == str((tmp_path / "own").resolve())
    (tmp_path / "own").rename(tmp_path / "moved")
    assert main(["evaluate", str(tmp_path / "run"), "--root", "~/moved"]) == 0


@pytest.mark.parametrize("command", ["resume", "evaluate", "review"])
def test_data_that_has_moved_is_found_by_root(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder_of_pictures(tmp_path / "own", 12)
    out = tmp_path / "run"
    run(quick(stream={"dataset": "folder", "root": str(tmp_path / "own"), "tasks": 2}), out)
    (tmp_path / "own").rename(tmp_path / "moved")
    assert main([command, str(out)]) == 2
    assert f"{tmp_path / 'own'} is not there" in capsys.readouterr().err
    assert main([command, str(out), "--root", str(tmp_path / "moved")]) == 0
    shutil.rmtree(tmp_path / "moved" / "1")
    assert main([command, str(out), "--root", str(tmp_path / "moved")]) == 2  # other data is no moved data


def stream_in_memory(each: int = 12) -> Any:
    """Stripes in two tasks."""
    tasks = []
    for seed, classes in enumerate(([7, 3], [1, 12])):
        tasks.append((*pictures(classes, each=each, seed=seed), *pictures(classes, each=4, seed=9)))
    return tasks_from_arrays(tasks, class_names={1: "one", 3: "three", 7: "seven", 12: "twelve"})


def test_a_stream_in_memory_is_learned_and_resumed_when_it_is_given_again(tmp_path: Path) -> None:
    recipe = quick()
    whole = run(recipe, tmp_path / "whole", stream=stream_in_memory())
    assert whole.results.tasks == [[3, 7], [1, 12]]
    assert whole.results.class_names == {1: "one", 3: "three", 7: "seven", 12: "twelve"}
    assert whole.results.image_bytes == 4 * 12 * 64
    assert whole.results.recipe.stream.dataset == IN_MEMORY
    assert whole.learner.labels == [3, 7, 1, 12]
    out = stopped_run(recipe, tmp_path / "stopped", 5, stream=stream_in_memory())
    before = outcome(out)
    for again in (resume, evaluate):
        with pytest.raises(
            InputError, match="the tasks of this run, which were given in memory, but got none"
        ) as error:
            again(out)
        assert "\n" not in str(error.value)
        assert "ictrl.resume(folder, stream=…)" in str(error.value)
    with pytest.raises(InputError, match="Expected the data that .* was begun with but it has changed"):
        resume(out, stream=stream_in_memory(each=13))
    assert outcome(out) == before
    assert timeless(resume(out, stream=stream_in_memory()).results) == timeless(whole.results)
    assert outcome(out) == outcome(tmp_path / "whole")


# a learner of one's own


def own_networks(seed: int = 0) -> dict[str, nn.Module]:
    torch.manual_seed(seed)
    return {
        "encoder": nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 16)),
        "decoder": nn.Sequential(nn.Linear(16, 64), nn.Unflatten(1, (1, 8, 8)), nn.Tanh()),
    }


@pytest.mark.parametrize("stream", [None, stream_in_memory()], ids=["digits", "memory"])
def test_a_learner_with_networks_of_its_own_is_run_and_resumed(stream: Any, tmp_path: Path) -> None:
    recipe, given = quick(stream={"tasks": 2}), {} if stream is None else {"stream": stream}
    learner = ICTRL(recipe, **own_networks())
    whole = run(recipe, tmp_path / "whole", learner=learner, **given)
    assert whole.learner is learner
    assert (
        whole.results.parameters
        == learner.parameter_count
        == sum(p.numel() for network in own_networks().values() for p in network.parameters())
    )
    for epochs in (2, 5):  # before there is a learner to be read, and afterwards
        out = tmp_path / f"stopped-{epochs}"
        stopped_run(recipe, out, epochs, learner=ICTRL(recipe, **own_networks()), **given)
        again = resume(out, learner=ICTRL(recipe, **own_networks()), **given)
        assert timeless(again.results) == timeless(whole.results)
        assert tensors(newest(out)) == tensors(newest(tmp_path / "whole"))
    unlike = ICTRL(recipe, **own_networks(seed=5))
    assert tensors(newest(tmp_path / "whole")) == tensors_of(
        resume(tmp_path / "whole", learner=unlike, **given).learner, tmp_path
    )


def tensors_of(learner: Any, tmp_path: Path) -> dict[str, bytes]:
    learner.save(tmp_path / "learner")
    return tensors(tmp_path / "learner")


def test_networks_of_ones_own_are_not_replaced_by_others(tmp_path: Path) -> None:
    """A run that cannot be gone on with is refused; it does not begin anew with other networks."""
    recipe = quick(stream={"tasks": 2})
    out = stopped_run(recipe, tmp_path / "run", 5, learner=ICTRL(recipe, **own_networks()))
    before = outcome(out)
    line = r"the contents of .*after-task-001.* do not fit: .*goes on with the same: ictrl.resume\(folder, learner=…\)"
    for given in ({}, {"learner": ICTRL(recipe)}, {"learner": ICTRL(recipe, encoder=own_networks()["encoder"])}):
        with pytest.raises(InputError, match=line) as error:
            resume(out, **given)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=line):
        evaluate(out)
    assert outcome(out) == before


def test_only_a_new_learner_of_the_recipe_is_taken(tmp_path: Path) -> None:
    recipe = quick(stream={"tasks": 2})
    learned = ICTRL(recipe).learn(*pictures([0, 1]))
    others = {
        "2 classes": learned,
        "another seed": ICTRL(recipe, seed=4),
        "other settings": ICTRL(quick(method={"later": {"epochs": 9}})),
        "another method": LEARNERS["finetune"](quick("finetune")),
    }
    for learner in others.values():
        with pytest.raises(InputError, match="Expected a new learner of the recipe's method, settings and seed 0 but"):
            run(recipe, tmp_path / "run", learner=learner)
    assert not (tmp_path / "run").exists()
    stopped_run(recipe, tmp_path / "run", 5)
    with pytest.raises(
        InputError, match=r"seed 0 but got ICTRL\('ictrl-digits', 2 classes, 2184 parameters, cpu\) of seed 0"
    ):
        resume(tmp_path / "run", learner=learned)


# the rest


def test_listeners_hear_what_happens_in_order(tmp_path: Path) -> None:
    heard: list[str] = []

    class Listening(Listener):
        def on_begin(self, position: Any, dataset: Any, tasks: Any) -> None:
            heard.append(f"begin with {position.done} of {len(tasks)} of {dataset.name}")

        def on_task(self, index: int, total: int, task: Any) -> None:
            heard.append(f"task {index} of {total}: {task.classes}")

        def on_epoch(self, index: int, report: Any) -> None:
            heard.append(f"epoch {report.epoch} of {report.epochs} of task {index}")

        def on_measured(self, results: Results) -> None:
            heard.append(f"measured {results.done}, complete {results.complete}")

    recipe = quick("finetune", stream={"tasks": 2}, method={"first": {"epochs": 2}, "later": {"epochs": 1}})
    run(recipe, tmp_path / "run", listener=Listening())
    assert heard == [
        "begin with 0 of 2 of digits",
        "task 0 of 2: (0, 1, 2, 3, 4)",
        "epoch 1 of 2 of task 0",
        "epoch 2 of 2 of task 0",
        "measured 1, complete False",
        "task 1 of 2: (5, 6, 7, 8, 9)",
        "epoch 1 of 1 of task 1",
        "measured 2, complete True",
    ]


def test_a_profile_tells_where_the_time_went(tmp_path: Path) -> None:
    recipe = quick(stream={"tasks": 2})
    run(recipe, tmp_path / "run", profile=True)
    run(recipe, tmp_path / "plain")
    profile = json.loads((tmp_path / "run" / "profile.json").read_text())
    assert len(profile["tasks"]) == 2
    assert all(seconds >= 0 for task in profile["tasks"] for seconds in task.values())
    assert "encoder: f(X)" in profile["tasks"][0]
    assert not (tmp_path / "plain" / "profile.json").exists()
    assert tensors(newest(tmp_path / "run")) == tensors(newest(tmp_path / "plain"))  # watching changes nothing


def test_what_begins_alike() -> None:
    recipe = ictrl.load_recipe("ictrl-cifar10-5")
    for settings in (
        {"method": {"later": {"weights": {"lambda_new": 7.0, "gamma_old": 0.0}}}},
        {"method": {"later": {"weights": {"distill_new": 0.0, "distill_replayed": 0.0}}}},
        {"method": {"later": {"epochs": 3, "batch": 10}, "game": {"replay": "frozen", "resample": "step"}}},
        {"method": {"memory": {"samples": 3, "drift_compensation": False}}},
        {"name": "other", "run": {"checkpoint": {"every_epochs": 1}}},
    ):
        assert begin_alike(recipe, recipe_with(recipe, settings)), settings
    for settings in (
        {"run": {"seed": 1}},
        {"method": {"first": {"epochs": 3}}},
        {"method": {"first": {"augmentation": {"mirror": False}}}},
        {"method": {"first": {"weights": {"lambda_new": 3.0}}}},
        {"method": {"memory": {"directions": 3}}},
        {"method": {"memory": {"neighbours": 3}}},
        {"method": {"game": {"eps_sq": 0.5}}},
        {"method": {"game": {"optimiser": "fresh"}}},
        {"stream": {"tasks": 10}},
        {"method": {"network": {"width": 32}}},
        {"method": {"classifier": {"pooled": 0.3}}},
        {"method": {"name": "frozen"}},
    ):
        assert not begin_alike(recipe, recipe_with(recipe, settings)), settings


def test_another_first_task_is_refused(undisturbed: Path, tmp_path: Path) -> None:
    """Of another seed, or of another number of classes."""
    kept = stopped_run(quick(), tmp_path / "run", 5) / "checkpoint" / "after-task-001.safetensors"
    for settings in ({"run": {"seed": 5}}, {"stream": {"task_sizes": [5, 3, 2]}}):
        with pytest.raises(InputError, match="begins differently"):
            run(quick(**settings), tmp_path / "other", first_task=kept)
    assert not (tmp_path / "other").exists()
    run(quick(), tmp_path / "same", first_task=kept)
    assert tensors(newest(tmp_path / "same")) == tensors(newest(undisturbed))


def test_resuming_what_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("resume", "evaluate"):
        assert main([command, str(tmp_path / "nothing")]) == 2
        assert "Expected a run folder but" in capsys.readouterr().err


def test_a_file_where_a_folder_should_be_is_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / "file")
    assert main(["run", "digits", "--out", str(tmp_path / "file" / "run")]) == 2
    assert capsys.readouterr().err.endswith("Not a directory.\n")


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


def test_a_run_may_be_read_by_any_method(undisturbed: Path) -> None:
    learner = load_learner(newest(undisturbed), device="cpu")
    assert learner.recipe == replace(recipe_with(ictrl.load_recipe("ictrl-digits"), QUICK), name="ictrl-digits")
