"""What a sealed process finds out about a case."""

import json
import os
import subprocess
import sys
from pathlib import Path

from support import ROOT

SHAMS = """
import json, os, socket, subprocess, sys
from pathlib import Path
from attack.sealed import played
from ictrl.errors import InputError

scratch, elsewhere = map(Path, sys.argv[1:])

def refused():
    raise InputError("Expected this but got\\nthat.")

def broken():
    raise KeyError("a traceback")

def long():
    raise ValueError("x" * 400)

def unprepared():
    raise RuntimeError("not prepared")

attempts = [
    lambda: None,
    refused,
    broken,
    lambda: socket.socket().close(),
    lambda: subprocess.run(["true"]),
    lambda: (elsewhere / "new").write_text("new"),
    lambda: (elsewhere / "old").unlink(),
    lambda: (scratch / "own").write_text("own"),
    lambda: bytearray(1_200_000_000),
    lambda: os.abort(),
    lambda: os._exit(0),
    lambda: __import__("pickle").loads(b"cos\\ngetcwd\\n."),
    lambda: open(elsewhere / "gone").close(),
    lambda: [0 for _ in iter(int, 1)],
    lambda: None,
]

def case_of(case):
    if case == 14:
        unprepared()
    return attempts[case]

import attack.sealed
attack.sealed.SECONDS = 0.5
for outcome in played(case_of, range(len(attempts)), scratch, batch=5):
    print(json.dumps([outcome.case, outcome.how, outcome.what]))
"""


def test_what_a_case_may_not_do_is_found(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "old").write_text("old")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-c", SHAMS, str(tmp_path / "scratch"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [case for case, _, _ in outcomes] == list(range(15))
    found = {case: f"{how} {what}" for case, how, what in outcomes}
    assert [found[case].partition(" ")[0] for case in (0, 1, 7, 12)] == ["held", "refused", "held", "refused"]
    for case, what in {
        2: "failed KeyError: 'a traceback'",
        3: "did what a file may not: socket.__new__",
        4: "did what a file may not: subprocess.Popen",
        5: "did what a file may not: open",
        6: "did what a file may not: os.remove",
        8: "failed MemoryError",
        9: "failed ended by SIGABRT",
        10: "failed the process left with 0",
        11: "did what a file may not: pickle.find_class",
        13: "failed hung for",
        14: "failed RuntimeError: not prepared",
    }.items():
        assert what in found[case], found
