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
from attack.limits import Patience, activity
from attack.registry import FAILED, HELD, Outcome, all_attacks, chosen
from attack.runner import Count, Notes, note

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
    count.add([(Outcome(0, HELD), 2.0), (Outcome(1, FAILED, "it broke"), 0.5)])
    assert (count.cases, count.held, count.failed, count.failures) == (2, 1, 1, ["case 1: it broke"])
    assert count.seconds == 2.5


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
from attack.limits import Patience, activity
from attack.limits import forked
from attack.registry import HELD, Outcome, attack

names = ("results", "page.md", "notes")
report.RESULTS, report.PAGE, report.NOTES = (Path(os.environ["TOLD"]).with_name(name) for name in names)

@attack("Ends at once", cases=3, small=1)
def ends(seed, cases, scratch):
    for case in cases:
        yield Outcome(case, HELD)

@attack("Waits", cases=4, small=1, chunk=2)
def waits(seed, cases, scratch):
    for case in cases:
        told = Path(f"{os.environ['TOLD']}-{case}")
        def wait():
            told.with_suffix(".half").write_text(f"{os.getppid()} {os.getpid()} {scratch}")
            told.with_suffix(".half").rename(told)
            time.sleep(60)
        with told.with_name("played").open("a") as file:
            file.write(f"{case} ")
        if case % 2 and not told.exists():
            forked(wait, seconds=60)
        yield Outcome(case, HELD)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_no_process_and_no_folder_but_what_was_played(how: signal.Signals, tmp_path: Path) -> None:
    (page := tmp_path / "page.md").write_text("before\n<!-- attacks -->\n<!-- end of attacks -->\nafter\n")
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "sitecustomize.py").write_text("import waits\n")
    told = [tmp_path / f"told-{case}" for case in (1, 3)]  # two processes at once, each with a case that waits
    environment = {**HERE, "PYTHONPATH": f"{tmp_path}{os.pathsep}{HERE['PYTHONPATH']}", "TOLD": str(tmp_path / "told")}
    command = [sys.executable, "-m", "attack", "--only", "ends", "waits"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as attacks:
        until(
            lambda: all(path.exists() for path in told) and "| Ends at once | 3 | 3 | 0 | 0 |" in page.read_text(), 300
        )
        attacks.send_signal(how)
        _, said = attacks.communicate(timeout=300)
    assert attacks.returncode == 130
    assert said == "Stopped. What was played is written; go on with --resume.\n"
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["ends.json", "waits.json"]
    assert "| Waits | 2 of 4 (stopped) | 2 | 0 | 0 |" in page.read_text()
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nafter\n")
    for path in told:
        worker, case, scratch = path.read_text().split()
        until(lambda: not any(Path(f"/proc/{process}").exists() for process in (worker, case)))  # noqa: B023
        assert not Path(scratch).parents[1].exists()

    if how == signal.SIGINT:  # once is enough
        return
    (tmp_path / "played").write_text("")
    subprocess.run([*command, "--resume"], env=environment, stdout=subprocess.DEVNULL, check=True)
    assert sorted((tmp_path / "played").read_text().split()) == ["1", "3"]
    assert "| Ends at once | 3 | 3 | 0 | 0 |" in page.read_text()
    assert "| Waits | 4 | 4 | 0 | 0 |" in page.read_text()


def test_a_part_takes_no_whole_results_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    attack, path = all_attacks()["kills"], tmp_path / "kills.json"
    report.write(attack, Count(cases=3, held=3), 0, 3)
    whole = path.read_text()
    report.write(attack, Count(cases=2, held=2), 0, 3)
    assert path.read_text() == whole
    report.write(attack, Count(cases=2, held=1, failed=1, failures=["case 1: it broke"]), 0, 3)
    assert "it broke" in path.read_text()
    assert "| 2 of 3 (stopped) | 1 | 0 | 1 |" in report.section()


def test_notes_that_were_cut_off_and_cases_that_failed_are_played_again(tmp_path: Path) -> None:
    book = Notes(tmp_path)
    note(path := book.next("kills"), Outcome(4, HELD), 0.5)
    note(path, Outcome(5, FAILED, "it broke"), 0.5)
    with path.open("a") as file:
        file.write('{"case": 6, "how": "he')
    assert book.of("kills", resume=True) == {4: (Outcome(4, HELD), 0.5)}
    assert book.of("kills", resume=False) == {}


@pytest.mark.parametrize(
    ("seen", "hangs"),
    [
        ([(9.0, True)] * 90, False),  # a busy machine lets it work a little only
        ([(0.1 * second, False) for second in range(90)], False),
        ([(0.2 * second, True) for second in range(90)], True),
        ([(3.0, False)] * 12, True),  # it waits for what does not come
        ([(3.0, False)] * 9 + [(3.1, False)] * 9, False),
        ([(3.0, True)] * 40, False),
    ],
)
def test_a_case_hangs_by_what_it_does_not_by_the_clock(seen: list[tuple[float, bool]], hangs: bool) -> None:
    now = 0.0
    patience = Patience(0, 10, lambda process: seen[int(now)], lambda: now)
    for now in map(float, range(len(seen))):  # noqa: B007 - read above
        if patience.is_over():
            break
    assert patience.is_over() == hangs


def test_the_work_of_children_counts() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY_CHILD], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        until(lambda: activity(process.pid)[0] > 0.3)
        assert activity(process.pid)[1]
        process.kill()


BUSY_CHILD = """
import ctypes, os
if os.fork() == 0:
    ctypes.CDLL(None).prctl(1, 9)
    print("begun", flush=True)
    while True:
        pass
os.wait()
"""


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
