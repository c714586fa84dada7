"""Processes that end while gloo's threads still hold tensors end with their own exit code, and silently."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from ictrl import cli
from ictrl.errors import NonFiniteError
from ictrl.parallel.joining import joined
from ictrl.parallel.sharing import Group

PATIENCE = 60


def ended(size: int, do: Callable[..., None], *given: Any) -> list[int | None]:
    """Exit codes of so many forked processes."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=do, args=(rank, *given)) for rank in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE)
    return [process.exitcode for process in processes]


LEAVING = """
import os, sys, time
import torch
import torch.distributed as dist
from ictrl import cli

cli.main = lambda: 130
folder = sys.argv[1]

def stopped(rank, store):
    # stopped just after a sum, on a machine so busy that gloo's thread comes late
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    sys.setswitchinterval(100)  # from now on the interpreter is given away by whoever waits only
    dist.all_reduce(torch.ones(10))
    end = time.perf_counter() + 0.05
    while time.perf_counter() < end:
        pass
    cli.command()

for attempt in range(6):
    processes = []
    for rank in range(2):
        if not (process := os.fork()):
            stopped(rank, f"{folder}/store-{attempt}")  # it ends as a program does
        processes.append(process)
    print(*(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes), flush=True)
"""


def test_a_command_of_several_processes_ends_with_its_code(tmp_path: Path) -> None:
    """A process that takes its interpreter apart is ended by a signal here in two cases of five."""
    together = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LEAVING, str(tmp_path)],
        env={**os.environ, **together},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", "130 130\n" * 6)


def test_a_command_of_one_process_ends_as_any_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(cli, "main", lambda: 2)
    with pytest.raises(SystemExit, match="2"):
        cli.command()


def fails(rank: int, port: str) -> None:
    """A script that fails where it is joined; its exit code says whether a thread of gloo is left."""
    given = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in given.items()})
    try:
        with joined("cpu", whole=Group(rank, 2)):
            dist.all_reduce(torch.ones(10))
            raise NonFiniteError("Expected numbers.")
    except Exception:
        threads = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
        os._exit(7 if any("gloo" in name for name in threads) else 0)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted by /proc")
def test_no_thread_of_gloo_outlives_a_failure() -> None:
    from test_commands import free_port

    assert ended(2, fails, free_port()) == [0, 0]
