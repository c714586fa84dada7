"""A small share of every attack, and the machinery that plays them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

from attack import report
from attack.registry import FAILED, HELD, Outcome, all_attacks, chosen
from attack.runner import Count

HERE = {**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


@pytest.fixture(scope="module")
def played() -> dict[str, Any]:
    """What the small share came to: in a process of its own, because those that it forks must have one thread."""
    command = [sys.executable, "-m", "attack", "--small", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=HERE, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", all_attacks())
def test_a_small_share_of_every_attack_is_held(name: str, played: dict[str, Any]) -> None:
    found = played[name]
    assert found["failures"] == []
    assert found["failed"] == 0
    assert found["cases"] == found["held"] + found["refused"] > 0


def test_the_table_is_that_of_the_files() -> None:
    text = report.PAGE.read_text("utf-8")
    assert text.partition(report.BEGIN)[2].partition(report.END)[0].strip() == report.section()


def test_cases_are_spread_evenly() -> None:
    assert chosen(100, 4) == [0, 25, 50, 75]
    assert chosen(3, 10) == [0, 1, 2]


def test_what_is_counted() -> None:
    count = Count()
    count.add([Outcome(0, HELD), Outcome(1, FAILED, "it broke")], 2.0)
    assert (count.cases, count.held, count.failed, count.failures) == (2, 1, 1, ["case 1: it broke"])


SHAMS = """
import os, time
from attack.limits import forked, in_time
from attack.registry import HELD, Outcome, attack

def play(seed, cases, scratch):
    for case in cases:
        yield Outcome(case, HELD)

@attack("one case dies", cases=7, small=7, chunk=5)
def dies(seed, cases, scratch):
    for case in cases:
        if case == 2:
            os.abort()
        yield Outcome(case, HELD)

@attack("one case hangs", cases=3, small=3)
def hangs(seed, cases, scratch):
    for case in cases:
        with in_time(0.2):
            while case == 1:
                pass
        yield Outcome(case, HELD)

@attack("limits", cases=4, small=4)
def limits(seed, cases, scratch):
    def slow():
        time.sleep(60)
    def large():
        return len(bytearray(1_500_000_000))
    def small():
        return 7
    for case in cases:
        ended = forked([slow, large, small, os.abort][case], seconds=0.6 if case == 0 else 10)
        yield Outcome(case, "failed", f"{ended.value} {ended.error} {ended.broken} {ended.killed}")
"""


def test_the_machinery_finds_the_case_that_dies_hangs_or_takes_too_much(tmp_path: Path) -> None:
    (tmp_path / "shams.py").write_text(SHAMS)
    (tmp_path / "sitecustomize.py").write_text("import shams\n")
    command = [sys.executable, "-m", "attack", "--only", "dies", "hangs", "limits", "--small", "--json"]
    path = f"{tmp_path}{os.pathsep}{HERE['PYTHONPATH']}"
    done = subprocess.run(command, capture_output=True, text=True, env={**HERE, "PYTHONPATH": path}, check=False)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["dies"]["failures"] == ["case 2: the process died, or hung for 10 s"]
    assert found["hangs"]["failures"] == ["case 1: the process died, or hung for 10 s"]
    assert (found["dies"]["held"], found["hangs"]["held"]) == (6, 2)
    slow, large, small, aborted = (line.partition(": ")[2] for line in found["limits"]["failures"])
    assert slow == "None  hung for 1 s True"
    assert "took 1.5 GB beyond the interpreter" in large
    assert small == "7   False"
    assert "ended by SIGABRT" in aborted


WAITS = """
import os, time
from pathlib import Path
from attack import report
from attack.limits import forked
from attack.registry import HELD, Outcome, attack

report.RESULTS, report.PAGE = (Path(os.environ["TOLD"]).with_name(name) for name in ("results", "page.md"))

@attack("Ends at once", cases=3, small=1)
def ends(seed, cases, scratch):
    for case in cases:
        yield Outcome(case, HELD)

@attack("waits", cases=1, small=1)
def waits(seed, cases, scratch):
    def wait():
        told = Path(os.environ["TOLD"])
        told.with_suffix(".half").write_text(f"{os.getppid()} {os.getpid()} {scratch}")
        told.with_suffix(".half").rename(told)
        time.sleep(60)
    forked(wait, seconds=60)
    yield Outcome(0, HELD)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_no_process_and_no_folder_but_what_had_ended(how: signal.Signals, tmp_path: Path) -> None:
    (page := tmp_path / "page.md").write_text("before\n<!-- attacks -->\n<!-- end of attacks -->\nafter\n")
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "sitecustomize.py").write_text("import waits\n")
    told = tmp_path / "told"
    environment = {**HERE, "PYTHONPATH": f"{tmp_path}{os.pathsep}{HERE['PYTHONPATH']}", "TOLD": str(told)}
    command = [sys.executable, "-m", "attack", "--only", "ends", "waits"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as attacks:
        until(lambda: told.exists() and "| Ends at once | 3 | 3 | 0 | 0 |" in page.read_text())
        attacks.send_signal(how)
        _, said = attacks.communicate(timeout=60)
    assert attacks.returncode == 130
    assert said == "Stopped. Attacks that had ended are written.\n"
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["ends.json"]
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nafter\n")
    worker, case, scratch = told.read_text().split()
    until(lambda: not any(Path(f"/proc/{process}").exists() for process in (worker, case)))
    assert not Path(scratch).parents[1].exists()


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
