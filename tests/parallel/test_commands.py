"""The real command: by torchrun, with a process killed in the middle, and used wrongly."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_support import npz_digits
from support import call

from ictrl import Results
from ictrl.errors import InputError
from ictrl.parallel.joining import launched
from ictrl.parallel.sharing import Group

RECIPE = """
base = "digits"
[method]
name = "wide"
[method.network]
image_size = 8
width = 4
feature_dim = 16
[method.trunk]
epochs = {epochs}
batch = 24
learning_rate = 1e-3
[stream]
dataset = "npz"
root = "{root}"
tasks = 2
test_share = 0.3
[run]
device = "cpu"
[run.checkpoint]
every_epochs = 2
"""
PATIENCE = 120  # seconds, on a machine that has much else to do


def written(folder: Path, epochs: int) -> Path:
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(epochs=epochs, root=npz_digits(folder / "digits.npz", classes=4)))
    return path


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


def free_port() -> str:
    with socket.create_server(("localhost", 0)) as server:
        return str(server.getsockname()[1])


class Commands:
    """So many processes of the command, with what torchrun tells them; forked, so that nothing is imported again."""

    def __init__(self, size: int, folder: Path, *arguments: str | Path) -> None:
        port, context = free_port(), multiprocessing.get_context("fork")
        self.said = [folder / f"said-{size}-{rank}-{port}" for rank in range(size)]
        self.processes: list[Any] = [
            context.Process(target=_command, args=(rank, size, port, said, arguments))
            for rank, said in enumerate(self.said)
        ]
        for process in self.processes:
            process.start()

    def until(self, happened: Callable[[], bool]) -> None:
        patience = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < patience
            assert all(process.is_alive() for process in self.processes), self.ended()
            time.sleep(0.02)

    def ended(self) -> list[tuple[int, str]]:
        """Exit code of each, and all that it said."""
        for process in self.processes:
            process.join(PATIENCE)
        return [(process.exitcode, said.read_text()) for process, said in zip(self.processes, self.said)]


def _command(rank: int, size: int, port: str, said: Path, arguments: tuple[str | Path, ...]) -> None:
    for descriptor in (1, 2):
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    given = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in given.items()})
    code = call(*arguments)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def test_torchrun_learns_what_one_process_learns(tmp_path: Path) -> None:
    recipe = written(tmp_path, epochs=6)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "ictrl"]
    out = tmp_path / "two"
    done = subprocess.run(
        [*torchrun, "run", str(recipe), "--out", str(out)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("task 2 of 2") == 1  # one speaks
    assert done.stdout.count("Report: ") == 1
    assert call("run", recipe, "--out", tmp_path / "one") == 0
    two, one = (Results.read(folder / "results.json") for folder in (out, tmp_path / "one"))
    assert two.complete
    assert two.memory.average == pytest.approx(one.memory.average, abs=0.05)
    assert two.recipe == one.recipe
    assert two.kept_bytes == one.kept_bytes


def epochs_of(out: Path) -> list[int]:
    """Of the checkpoints of the first task."""
    return sorted(int(path.stem.rpartition("-")[2]) for path in out.glob("checkpoint/task-001-epoch-*.safetensors"))


def logged(out: Path) -> int:
    return len((out / "metrics.jsonl").read_text().splitlines())


def test_a_process_that_dies_ends_the_run_and_another_number_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    commands = Commands(2, tmp_path, "run", written(tmp_path, epochs=100_000), "--out", out)
    commands.until(lambda: len(epochs_of(out)) > 1)
    commands.processes[1].kill()
    (code, said), (killed, nothing) = commands.ended()
    assert (code, killed, nothing) == (1, -signal.SIGKILL, "")
    assert said.splitlines()[1:] == [
        "error: Expected 2 processes but process 1 has died. Go on with any number of processes: "
        f"torchrun --nproc-per-node 2 -m ictrl resume {out}"
    ]
    lines = logged(out)
    assert lines - epochs_of(out)[-1] <= 2  # as the recipe has it
    commands = Commands(3, tmp_path, "resume", out)
    commands.until(lambda: logged(out) > lines + 4)
    os.kill(commands.processes[2].pid, signal.SIGTERM)  # one is asked to stop, and all do
    found = commands.ended()
    assert [code for code, _ in found] == [130, 130, 130]
    assert found[0][1].splitlines()[-1].startswith("Stopped. Go on with any number of processes: torchrun")
    assert [said for _, said in found[1:]] == ["", ""]
    assert logged(out) == epochs_of(out)[-1]


def test_where_the_first_process_dies_the_next_one_says_so(tmp_path: Path) -> None:
    out = tmp_path / "run"
    commands = Commands(3, tmp_path, "run", written(tmp_path, epochs=100_000), "--out", out)
    commands.until(lambda: len(epochs_of(out)) > 1)
    commands.processes[0].kill()
    found = commands.ended()
    assert [code for code, _ in found[1:]] == [1, 1]
    assert found[1][1].startswith("error: Expected 3 processes but process 0 has died. Go on with")
    assert len(found[1][1].splitlines()) == 1
    assert found[2][1] == ""


def test_a_mistake_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ictrl.cli.LINGER", 0.0)
    recipe, out = written(tmp_path, epochs=2), tmp_path / "run"
    out.mkdir()
    (out / "mine").touch()
    found = Commands(2, tmp_path, "run", recipe, "--out", out).ended()
    assert found[0][0] == 2
    assert found[0][1].startswith("error: Expected a new or empty folder for the run")
    assert len(found[0][1].splitlines()) == 1
    assert found[1][0] != 0
    assert found[1][1] == ""
    unknown = Commands(2, tmp_path, "run", recipe, "--trunk.epoch", "3").ended()
    assert [code for code, _ in unknown] == [2, 2]
    assert unknown[1][1] == ""


# Wrong use, before anything has begun


def test_a_size_without_processes_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.delenv("RANK", raising=False)
    assert call("run", "digits") == 2
    said = capsys.readouterr().err
    assert said.startswith("error: Expected torchrun to begin 4 processes (WORLD_SIZE) but RANK, MASTER_ADDR, MASTER_P")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(("rank", "size"), [("4", "4"), ("-1", "2"), ("x", "2"), ("0", "many")])
def test_numbers_that_make_no_sense(rank: str, size: str) -> None:
    with pytest.raises(InputError, match="Expected RANK from 0 to WORLD_SIZE − 1"):
        launched({"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "localhost", "MASTER_PORT": "1"})


@pytest.mark.parametrize("rank", [0, 1])
def test_a_command_that_cannot_be_shared(
    rank: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ictrl.cli.LINGER", 0.0)
    given = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert launched() == Group(rank, 2)
    assert call("recipes") == 2
    said = capsys.readouterr().err
    expected = "error: Expected one process for this command, since only `run` and `resume` can be shared"
    assert said.startswith(expected) if rank == 0 else not said
