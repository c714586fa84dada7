"""Parts of a study: every run in one of them, several at once in one folder, gathered by the same command."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from run_support import timeless
from study_support import write_study
from support import ROOT, call

from ictrl import InputError
from ictrl.experiment.study import load_study, plan
from ictrl.experiment.study_parts import part_of, read_part
from ictrl.recipes.tables import beginning


@pytest.mark.parametrize("name", ["best", "lambda"])
def test_every_run_is_in_one_part_and_what_begins_alike_stays_together_up_to_a_fair_share(
    name: str, tmp_path: Path
) -> None:
    planned = plan(load_study(name), tmp_path)
    alike = {item.folder: beginning(item.recipe) for item in planned}
    for n in (1, 2, 3, 5, len(planned) + 1):
        parts = [part_of(planned, k, n) for k in range(1, n + 1)]
        assert sorted(item.folder for part in parts for item in part) == sorted(alike)
        share = -(-len(planned) // n)
        for text, count in Counter(alike.values()).items():
            assert max(sum(alike[item.folder] == text for item in part) for part in parts) == min(count, share)


def test_a_study_whose_runs_all_begin_alike_gives_work_to_every_part(tmp_path: Path) -> None:
    planned = plan(load_study("lambda"), tmp_path)
    assert len({beginning(item.recipe) for item in planned}) == 1
    assert [len(part_of(planned, k, 5)) for k in range(1, 6)] == [len(planned) // 5] * 5


def test_parts_are_about_as_long_as_each_other(tmp_path: Path) -> None:
    planned = plan(load_study("methods-digits"), tmp_path)
    loads = [sum(item.epochs[1] for item in part_of(planned, k, 3)) for k in (1, 2, 3)]
    assert max(loads) < 1.05 * min(loads)


@pytest.mark.parametrize("text", ["", "0/3", "4/3", "1", "1/0", "a/b", "-1/3", "1/3/5", "1.0/3", "1/99999999", "²/3"])
def test_a_wrong_part_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="K/N with K from 1 to N, such as 1/4, but got"):
        read_part(text)


def test_two_parts_at_once_do_each_run_once_and_are_gathered_without_running_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    begun = [sys.executable, "-m", "ictrl", "study", "lambda.toml", "--out", "parts", "--part", "2/2"]
    with subprocess.Popen(begun, stdout=subprocess.PIPE, text=True) as other:
        assert call("study", "lambda.toml", "--out", "parts", "--part", "1/2") == 0
        theirs = other.communicate()[0]
    mine = capsys.readouterr().out
    assert "Runs: 2 of 3, still to be done: 2; " in mine
    assert "Runs: 1 of 3, still to be done: 1; " in theirs
    ended = Counter(line.partition(":")[0] for line in (mine + theirs).splitlines() if ": memory " in line)
    assert ended == {"lambda-3-seed0": 1, "lambda-10-seed0": 1, "lambda-3-seed1": 1}
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").rglob("*") if path.name == "results.json"}

    assert call("study", "lambda.toml", "--out", "parts") == 0
    assert "Runs: 3, still to be done: 0; " in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert call("study", "lambda.toml", "--out", "alone") == 0
    for one, two in zip(plan(study, tmp_path / "parts" / "lambda"), plan(study, tmp_path / "alone" / "lambda")):
        assert one.results is not None
        assert two.results is not None
        assert timeless(one.results) == timeless(two.results)
    gathered = (tmp_path / "parts" / "lambda" / "table.md").read_text()
    assert gathered.count("λ") == 2


def test_a_part_says_what_the_others_have_still_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert call("study", "lambda.toml", "--part", "9/9") == 0  # more parts than runs: nothing to do is no mistake
    printed = capsys.readouterr().out
    assert "Runs: 0 of 3, still to be done: 0; " in printed
    assert "Of the other parts 3 runs are still to be done." in printed
    assert call("study", "lambda.toml", "--part", "5/4") == 2


def test_the_array_of_jobs_on_the_page_begins_every_part_and_gathers(tmp_path: Path) -> None:
    """The very script, where Slurm and ictrl are scripts that say how they were called."""
    page = (ROOT / "docs" / "many-machines.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```sh\n(#!/bin/bash\n.*?)```", page, flags=re.DOTALL)
    (tmp_path / "study.sbatch").write_text(script)
    for name, text in {"srun": 'exec "$@"', "ictrl": 'echo "$@"'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (array,) = re.findall(r"^#SBATCH --array=1-(\d+)", script, flags=re.MULTILINE)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    for k in ("1", array):
        environment = {"PATH": path, "SLURM_ARRAY_TASK_ID": k, "SLURM_CPUS_PER_TASK": "8"}
        called = ["bash", "-eu", str(tmp_path / "study.sbatch")]
        said = subprocess.run(called, env=environment, capture_output=True, text=True, check=True).stdout
        assert said.startswith("study ")
        assert f" --part {k}/{array}\n" in said
