"""Some processes that learn together, forked from the tests' own: torch is imported already, and takes no time."""

import multiprocessing
import pickle
import tempfile
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch.distributed as dist

from ictrl.parallel.sharing import Group, member_of, sharing

SECONDS = 60  # that processes wait for each other at most


def together(size: int, do: Callable[[], Any], share: bool = True) -> list[Any]:
    """What a function gives in each of so many processes, which share batches; or in none but this one."""
    if not size:
        return [do()]
    context: Any = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        ends = [context.Pipe(duplex=False) for _ in range(size)]
        workers = [
            context.Process(target=_member, args=(Group(rank, size), Path(folder) / "store", do, share, end))
            for rank, (_, end) in enumerate(ends)
        ]
        for worker in workers:
            worker.start()
        for _, end in ends:
            end.close()
        found = []
        for receiver, _ in ends:
            try:
                found.append(pickle.loads(receiver.recv_bytes()))
            except EOFError:
                found.append(RuntimeError("a process died"))
        for worker in workers:
            worker.join()
    for result in found:
        if isinstance(result, BaseException):
            raise result
    return found


def _member(group: Group, store: Path, do: Callable[[], Any], share: bool, end: Connection) -> None:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=group.rank,
        world_size=group.size,
        timeout=timedelta(seconds=SECONDS),
    )
    try:
        with member_of(group), sharing() if share else nullcontext():
            found = do()
    except BaseException as error:
        found = error
        found.add_note(f"in process {group.rank}:\n{traceback.format_exc()}")
    try:
        end.send_bytes(pickle.dumps(found))
    except Exception as error:
        end.send_bytes(pickle.dumps(RuntimeError(f"{type(error)}: {error}: {found!r}")))
    dist.destroy_process_group()
