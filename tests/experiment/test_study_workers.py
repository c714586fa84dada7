"""Studies do each run once, share what is the same, go on where they were, and leave nobody behind."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from run_support import newest, tensors, timeless
from study_support import EPOCHS, TOML, write_study

from ictrl import EpochReport, InputError, Results
from ictrl.errors import RunsFailedError
from ictrl.experiment.run import Listener, Stopped, run
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.study import Planned, Study, plan
from ictrl.experiment.study_workers import carry_out, told
from ictrl.recipes.tables import recipe_with


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return write_study(tmp_path)


class Counting(Listener):
    """Which tasks were learned in each run."""

    def __init__(self, learned: list[int]) -> None:
        self.tasks = learned

    def on_task(self, index: int, total: int, task: Any) -> None:
        self.tasks.append(index)


def test_a_shared_first_task_changes_nothing(study: Study, tmp_path: Path) -> None:
    learned: dict[str, list[int]] = {}

    def listener(item: Planned) -> Listener:
        return Counting(learned.setdefault(item.folder.name, []))

    out = tmp_path / "out"
    planned = plan(study, out)
    carry_out(study, planned, out, listener=listener)
    assert learned == {"lambda-3-seed0": [0, 1, 2], "lambda-3-seed1": [0, 1, 2], "lambda-10-seed0": [1, 2]}
    alone, shared = run(planned[2].recipe, tmp_path / "alone").results, planned[2].results
    assert shared is not None
    assert timeless(shared) == timeless(alone)
    assert newest(planned[2].folder).name == "after-task-003.safetensors"
    assert tensors(newest(planned[2].folder)) == tensors(newest(tmp_path / "alone"))
    logs = [(folder / "metrics.jsonl").read_text() for folder in (tmp_path / "alone", planned[2].folder)]
    assert logs[0] == logs[1]


def test_a_finished_study_does_nothing_and_a_stopped_one_goes_on(study: Study, tmp_path: Path) -> None:
    out, epochs = tmp_path / "out", 0

    class Stops(Listener):
        def on_epoch(self, index: int, report: EpochReport) -> None:
            nonlocal epochs
            epochs += 1

    planned = plan(study, out)
    with pytest.raises(Stopped):
        carry_out(study, planned, out, listener=lambda item: Stops(), stop=lambda: epochs == EPOCHS + 3)
    assert [item.finished for item in planned] == [True, False, False]
    finished: list[str] = []
    carry_out(
        study, planned, out, listener=lambda item: Stops(), finished=lambda item: finished.append(item.folder.name)
    )
    assert finished == ["lambda-3-seed1", "lambda-10-seed0"]
    assert epochs == EPOCHS + EPOCHS + 2  # no epoch was played twice, and one first task was shared
    carry_out(study, planned, out, listener=lambda item: Stops())
    assert epochs == EPOCHS + EPOCHS + 2


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (MemoryError(), "this machine"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
            "this machine",
        ),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."), "the GPU"),
    ],
)
def test_a_run_that_lacks_memory_says_so_in_our_words(error: Exception, where: str) -> None:
    assert told(error) == (
        f"Expected enough memory for this but {where} has too little left: free some, or ask for less."
    )


def test_several_runs_at_once_give_the_same_and_one_that_fails_holds_up_no_other(study: Study, tmp_path: Path) -> None:
    """The line in the midst cannot be run: there is no such number of tasks."""
    one, other = study.lines
    impossible = {"stream": {"task_sizes": [], "tasks": 11}}
    wrong = replace(one, label="wrong", recipe=recipe_with(one.recipe, impossible))
    study = replace(study, lines=(one, wrong, other))
    found = []
    for jobs in (1, 2):
        out, failed = tmp_path / f"jobs{jobs}", list[str]()
        planned = plan(study, out, seeds=[0])
        with pytest.raises(InputError, match=r"1 of 3 did not\. wrong-seed0: Expected a number of tasks that divides"):
            carry_out(study, planned, out, jobs=jobs, failed=lambda item, _, to=failed: to.append(item.folder.name))
        assert failed == ["wrong-seed0"]
        assert [item.finished for item in planned] == [True, False, True]
        text = (out / "table.md").read_text()
        assert "λ = 3" in text
        assert "λ = 10" in text
        found.append([(results.memory, results.reencoded) for item in planned if (results := item.results)])
    assert len(found[0]) == 2
    assert found[0] == found[1]


def test_an_error_that_nobody_foresaw_holds_up_no_other_either(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(recipe: Any, out: Path, **more: Any) -> Any:
        if out.name == "lambda-3-seed0":
            raise RuntimeError("out of\nmemory")
        return run(recipe, out, **more)

    monkeypatch.setattr("ictrl.experiment.crew.run", breaks)
    planned = plan(study, tmp_path / "out", seeds=[0])
    with pytest.raises(RunsFailedError, match=r"1 of 2 did not\. lambda-3-seed0: RuntimeError: out of memory"):
        carry_out(study, planned, tmp_path / "out")
    assert [item.finished for item in planned] == [False, True]


def test_several_at_once_wait_for_a_first_task_alone_and_stop_in_the_midst_of_theirs(
    study: Study, tmp_path: Path
) -> None:
    changed = {"method": {"later": {"epochs": 10**6}}}
    endless = replace(study, lines=tuple(replace(x, recipe=recipe_with(x.recipe, changed)) for x in study.lines))
    planned = plan(endless, tmp_path / "out", seeds=[0])

    def both_in_their_second_task() -> bool:
        logs = [item.folder / "metrics.jsonl" for item in planned]
        return all(log.exists() and '"task": 2' in log.read_text() for log in logs)

    with pytest.raises(KeyboardInterrupt):
        carry_out(endless, planned, tmp_path / "out", jobs=2, stop=both_in_their_second_task)
    for item in planned:
        with RunFolder.reopen(item.folder) as folder:  # no process holds it any more
            position = folder.position()
        assert (position.done, position.epoch) == (1, len((item.folder / "metrics.jsonl").read_text().splitlines()) - 2)


def test_a_study_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    write_study(tmp_path, later_epochs=10**6, text=TOML.replace("settings.method.later.epochs = 1", ""))
    begun = [sys.executable, "-m", "ictrl", "study", "lambda.toml", "--jobs", "2", "--out", "out"]
    with subprocess.Popen(begun, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        runs = [tmp_path / "out" / "lambda" / name for name in ("lambda-3-seed0", "lambda-3-seed1")]
        until(lambda: all('"task": 2' in _text(folder / "metrics.jsonl") for folder in runs))
        killed.kill()
    until(lambda: all(_free(folder) for folder in runs))


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _free(folder: Path) -> bool:
    """Whether no process holds the run."""
    try:
        with RunFolder.reopen(folder):
            return True
    except InputError:
        return False


def test_a_folder_of_another_recipe_is_refused(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    planned = plan(study, out, seeds=[0])[:1]
    carry_out(study, planned, out)
    other = replace(planned[0], recipe=recipe_with(planned[0].recipe, {"method": {"later": {"epochs": 2}}}))
    with pytest.raises(InputError, match=r"another recipe \(method.later.epochs: 1 → 2\): remove it"):
        carry_out(study, [other], out)


# nothing that befalls one run holds up another


def test_a_process_that_is_killed_takes_only_its_own_run_with_it(study: Study, tmp_path: Path) -> None:
    """The run of λ = 10 is killed again and again by what its data set does; those beside it know nothing of it."""
    (tmp_path / "sitecustomize.py").write_text(KILLS)
    planned = plan(study, tmp_path / "out")
    failed: list[tuple[str, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        with pytest.raises(RunsFailedError, match=r"1 of 3 did not\. lambda-10-seed0: its process was killed, perhaps"):
            carry_out(
                study,
                planned,
                tmp_path / "out",
                jobs=2,
                failed=lambda item, error: failed.append((item.folder.name, type(error).__name__)),
            )
    assert failed == [("lambda-10-seed0", "BrokenProcessPool")]
    assert [item.finished for item in planned] == [True, True, False]
    carry_out(study, planned, tmp_path / "out")
    assert all(item.finished for item in planned)


KILLS = """
import os, signal, sys
def killed(event, arguments):
    if event == "open" and "lambda-10-seed0" in str(arguments[0]) and "results.json" in str(arguments[0]):
        os.kill(os.getpid(), signal.SIGKILL)
if any("spawn_main" in argument for argument in sys.orig_argv):
    sys.addaudithook(killed)
"""


def test_results_that_cannot_be_read_count_as_not_done_and_are_said(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    planned = plan(study, out, seeds=[0])
    carry_out(study, planned, out)
    good = planned[0].results
    (planned[0].folder / "results.json").write_text('{"complete": tr')
    assert not planned[0].finished
    said: list[str] = []
    carry_out(study, planned, out, said=said.append)
    assert len(said) == 1
    assert said[0].endswith("Expecting value: line 1 column 14 (char 13). It counts as not done.")
    assert good is not None
    again = planned[0].results
    assert again is not None
    assert timeless(again) == timeless(good)


def test_a_recipe_that_cannot_be_read_fails_its_own_run_alone(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    planned = plan(study, out, seeds=[0])
    planned[0].folder.mkdir(parents=True)
    (planned[0].folder / "config.toml").write_bytes(b"name = \xff")
    with pytest.raises(InputError, match=r"1 of 2 did not\. lambda-3-seed0: Expected a recipe file but could not read"):
        carry_out(study, planned, out)
    assert [item.finished for item in planned] == [False, True]


@pytest.mark.parametrize("how", ["a byte", "no log", "a cut log"])
def test_a_shared_first_task_that_is_damaged_is_learned_again(how: str, study: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    planned = plan(study, out, seeds=[0])
    carry_out(study, planned, out)
    (folder,) = (out / "first-tasks").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["learner.safetensors", "metrics.jsonl"]
    alone = run(planned[1].recipe, tmp_path / "alone")
    shutil.rmtree(planned[1].folder)
    if how == "a byte":
        content = bytearray((folder / "learner.safetensors").read_bytes())
        content[len(content) // 2] ^= 1
        (folder / "learner.safetensors").write_bytes(content)
    elif how == "no log":
        (folder / "metrics.jsonl").unlink()
    else:
        (folder / "metrics.jsonl").write_text('{"task": 1\n{"task": 1, "epoch": 2}\n')
    said: list[str] = []
    carry_out(study, planned, out, said=said.append)
    assert len(said) == 1
    assert said[0].endswith("The first task is learned again.")
    assert planned[1].results is not None
    assert timeless(planned[1].results) == timeless(alone.results)
    log = (planned[1].folder / "metrics.jsonl").read_text()
    assert log == (tmp_path / "alone" / "metrics.jsonl").read_text()


def test_absurd_settings_fail_their_own_run_alone(study: Study, tmp_path: Path) -> None:
    one, other = study.lines
    absurd = [
        replace(one, label="tasks", recipe=recipe_with(one.recipe, {"stream": {"task_sizes": [], "tasks": 10**30}})),
        replace(one, label="width", recipe=recipe_with(one.recipe, {"method": {"network": {"width": 2**40}}})),
        replace(one, label="long " * 100, recipe=recipe_with(one.recipe, {"method": {"later": {"epochs": 2}}})),
    ]
    study = replace(study, lines=(*absurd, other))
    planned = plan(study, tmp_path / "out", seeds=[0])
    assert all(len(item.folder.name) < 120 for item in planned)
    assert [item.epochs[0] for item in planned] == [0] * 4
    with pytest.raises(RunsFailedError, match=r"2 of 4 did not\. tasks-seed0: Expected .* width-seed0: "):
        carry_out(study, planned, tmp_path / "out")
    assert [item.finished for item in planned] == [False, False, True, True]


def test_a_table_that_cannot_be_written_holds_up_no_run(study: Study, tmp_path: Path) -> None:
    planned = plan(study, tmp_path / "out", seeds=[0])
    (tmp_path / "out" / "table.md").mkdir(parents=True)
    with pytest.raises(
        RunsFailedError, match=r"^Expected to write all that was found but could not\. table\.md: IsADirectoryError: "
    ):
        carry_out(study, planned, tmp_path / "out")
    assert [item.finished for item in planned] == [True, True]


def test_a_method_that_leaves_does_not_end_the_study(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leaves(recipe: Any, out: Path, **more: Any) -> Any:
        if out.name == "lambda-3-seed0":
            sys.exit(3)
        return run(recipe, out, **more)

    monkeypatch.setattr("ictrl.experiment.crew.run", leaves)
    planned = plan(study, tmp_path / "out", seeds=[0])
    with pytest.raises(RunsFailedError, match=r"1 of 2 did not\. lambda-3-seed0: RuntimeError: SystemExit 3"):
        carry_out(study, planned, tmp_path / "out")
    assert [item.finished for item in planned] == [False, True]


@pytest.mark.parametrize("times", [1, 10**6])
def test_results_that_cannot_be_read_for_a_moment_are_not_left_out_of_the_table(
    times: int, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    planned = plan(study, out, seeds=[0])
    real, left = Results.read, times

    def sometimes(path: Path) -> Results:
        nonlocal left
        if path.parent.name == "lambda-10-seed0" and left:
            left -= 1
            raise InputError(f"Expected what ictrl wrote in {path} but could not read it: EIO.")
        return real(path)

    class LastTask(Listener):
        def on_measured(self, results: Results) -> None:
            if results.complete:
                monkeypatch.setattr(Results, "read", sometimes)

    def carry() -> None:
        carry_out(study, planned, out, listener=lambda item: LastTask())

    if times == 1:
        carry()
        assert (out / "table.md").read_text().count("λ") == 2
    else:
        with pytest.raises(InputError, match=r"table\.md: Expected the results of 2 runs but could read those of 1\."):
            carry()
