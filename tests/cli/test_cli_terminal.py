"""Names of strangers on a terminal: nothing steers it, JSON is exact, and every failure is one line."""

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli_support import COLOURS, RECIPE, draw
from rich.table import Table
from support import call

from ictrl import __version__
from ictrl.cli import main
from ictrl.cli.output import open_console
from ictrl.cli.recipes import RecipesCommand
from ictrl.cli.terminal import log_told, shown, tell

EVIL = "cat\x1b[2J\x07\nerror: forged\u202e\u2066"
SHOWN = r"cat\x1b[2J\x07\nerror: forged\u202e\u2066"


def test_what_steers_a_terminal_is_escaped_and_letters_of_all_languages_are_not() -> None:
    assert shown(EVIL) == SHOWN
    kept = "Käfer 猫 كلب \u06a9\u200cب नमस्ते 👩\u200d🔬 ×λΔ [red] $x$ var(--x) \u00a0\u3000"
    assert shown(kept) == kept
    assert shown(os.fsdecode(b"caf\xe9")) == r"caf\udce9"
    assert shown("\x9b31m\x7f\ufeff\u2028") == r"\x9b31m\x7f\ufeff\u2028"


def test_consoles_and_stderr_print_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    console = open_console()
    table = Table(f"title {EVIL[:6]}")
    table.add_row(shown(EVIL))
    console.print(f"one\ntwo {EVIL}")
    console.print(table)
    tell(f"warning: {EVIL}")
    with log_told():
        logging.getLogger("ictrl.data").warning("%s", EVIL)
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert "\u202e" not in out + err
    assert "one\ntwo cat\\x1b[2J" in out
    assert SHOWN in out
    assert err == f"warning: {SHOWN}\n" * 2


@pytest.fixture(scope="module")
def evil_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose classes are called as a stranger would like."""
    root = tmp_path_factory.mktemp("evil")
    names = {"blue": EVIL, "green": "var(--x)", "red": os.fsdecode(b"caf\xe9")}
    for number, (name, colour) in enumerate(COLOURS.items()):
        (root / "pictures" / names[name]).mkdir(parents=True)
        for i in range(12):
            draw(root / "pictures" / names[name] / f"{i}.png", colour, (9, 9), seed=100 * number + i)
    (root / "pictures" / EVIL / "bro\x1bken.png").write_text("buy milk")
    (root / "own.toml").write_text(RECIPE.replace("epochs = 15", "epochs = 2"))
    return root


def test_a_run_of_such_classes_is_told_predicted_and_listed(evil_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = evil_run / "run"
    commands: list[list[Any]] = [
        ["data", "show", evil_run / "own.toml", "--stream.root", evil_run / "pictures"],
        ["run", evil_run / "own.toml", "--stream.root", evil_run / "pictures", "--out", out],
        ["classes", out],
        ["predict", out, *sorted((evil_run / "pictures" / EVIL).glob("*.png"))[:2]],
        ["evaluate", out],
        ["sample", out, "--label", EVIL, "--out", evil_run / "sheet.png"],
        ["teach", out, "--label", EVIL, evil_run / "pictures" / EVIL / "1.png"],
        ["report", out],
    ]
    for command in commands:
        code = call(*command)
        printed = "".join(capsys.readouterr())
        assert code == (2 if command[0] == "teach" else 0), (command, printed)
        assert not {"\x1b", "\x07", "\u202e", "\u2066"} & set(printed), command
        assert "\nerror: forged" not in printed, command
        assert "Traceback" not in printed
    picture = evil_run / "pictures" / EVIL / "1.png"
    assert call("predict", out, picture, "--json") == 0
    (prediction,) = json.loads(capsys.readouterr().out)
    assert prediction["file"] == str(picture)
    assert {EVIL, "var(--x)", os.fsdecode(b"caf\xe9")} == {entry["class"] for entry in prediction["residuals"]}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "error: Expected enough memory for this but this machine has too little left"),
        (torch.OutOfMemoryError("CUDA out of memory"), "error: Expected enough memory for this but the GPU has too"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
            "error: Expected enough memory for this but this machine has too little left",
        ),
        (np.linalg.LinAlgError("Singular matrix"), "error: Expected matrices that can be decomposed but got one that"),
        (torch._C._LinAlgError("linalg.eigh:\nfailed"), "one that can not (linalg.eigh: failed)."),
        (RecursionError("maximum recursion depth exceeded"), "error: Expected settings and files of an ordinary depth"),
        (KeyError(EVIL), "error: Expected the command to succeed but got KeyError"),
    ],
)
def test_failures_are_one_line_and_exit_with_1(
    error: Exception, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: object) -> None:
        raise error

    monkeypatch.setattr(RecipesCommand, "execute", fail)
    assert main(["recipes"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_more_pictures_than_anybody_looks_at_are_refused(own_run: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    sheet = tmp_path / "sheet.png"
    assert call("sample", own_run, "--label", "blue", "--n", 10**12, "--out", sheet) == 2
    line = capsys.readouterr().err
    assert line == (
        "error: Expected fewer pictures for --n but got 1,000,000,000,000 pictures, above the limit of 100,000 "
        "(ICTRL_MAX_DRAWN).\n"
    )
    monkeypatch.setenv("ICTRL_MAX_DRAWN", "3")
    assert call("sample", own_run, "--label", "blue", "--n", 4, "--out", sheet) == 2
    assert not sheet.exists()


def test_a_recipe_in_the_home_folder(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "own.toml").write_text('base = "digits"\n[stream]\ntasks = 3\n')
    assert call("run", "~/own.toml") == 2
    assert "divides the 10 classes of digits but got 3" in capsys.readouterr().err


INTERRUPT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize("command", [["-m", "ictrl"], ["SCRIPT"]])
def test_ctrl_c_while_libraries_are_imported_ends_in_a_line(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    script = tmp_path / "ictrl"
    script.write_text("import sys\nfrom ictrl.cli import main\nsys.exit(main())\n")
    command = [str(script) if word == "SCRIPT" else word for word in command]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, *command, "--version"], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Stopped.\n")


LEAVING = """
import atexit, os, signal
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
"""


@pytest.mark.parametrize("command", ["--version", "nonsense"])
def test_ctrl_c_while_the_interpreter_leaves_prints_no_traceback(tmp_path: Path, command: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(LEAVING)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, "-m", "ictrl", command], capture_output=True, text=True, env=environment)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert done.stderr.endswith("Stopped.\n")
    assert done.stdout == ("" if command == "nonsense" else f"ictrl {__version__}\n")  # what was said is said


def test_a_program_that_imports_the_library_keeps_its_handlers() -> None:
    script = "import signal, ictrl; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "True\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_tilde_that_the_shell_left_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    options = ["--trunk.epochs", "1", "--trunk.warmup", "0", "--stream.limit", "20", "--device", "cpu"]
    assert call("run", "digits", "--out=~/runs/one", *options) == 0
    assert (tmp_path / "home" / "runs" / "one" / "results.json").exists()
    assert call("report", "~/runs/one") == 0
    assert not (tmp_path / "~").exists()
