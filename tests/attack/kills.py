"""Processes that are killed: before every operation on the file system, in the midst of every write, at any moment."""

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

from attack.commands import COMMANDS, Called, Command, alone, once, prepared
from attack.limits import Ended
from attack.operations import Operation, listen
from attack.registry import FAILED, HELD, Outcome, attack


@dataclass(frozen=True)
class Undisturbed:
    """What a command does and leaves if nothing happens to it."""

    operations: list[Operation]
    state: Any
    before: Any
    """what there was, as far as it can be compared; None if nothing"""
    seconds: float


@cache
def undisturbed(name: str, root: Path) -> Undisturbed:
    """A command from its beginning to its end, in a folder that is removed."""
    return once(root / f"undisturbed {name}", lambda: _undisturbed(name, root))


def _undisturbed(name: str, root: Path) -> Undisturbed:
    command, made, folder = COMMANDS[name], prepared(root), root / f"{name}-undisturbed"
    rmtree(folder, ignore_errors=True)
    command.prepare(made, folder)
    before = alone(lambda: command.state(folder)).value
    operations: list[Operation] = []

    def counted() -> list[Operation]:
        listen(folder, lambda number, operation: operations.append(operation))
        called = command.attacked(folder)
        assert called.code == 0, called
        return operations

    ended = alone(counted, seconds=60)
    assert not ended.error, ended.error
    state = alone(lambda: command.state(folder))
    assert not state.error, state.error
    rmtree(folder)
    return Undisturbed(ended.value, state.value, before, ended.seconds)


def gone_on(command: Command, folder: Path, expected: Undisturbed) -> str:
    """What is wrong once the command was given again; nothing if the end is the undisturbed one."""
    again = alone(lambda: command.again(folder))
    if again.broken or again.killed:
        return f"going on: {again.broken or 'killed'}"
    called: Called = again.value
    if called.code != 0 or called.unclean:
        return f"going on: {called.unclean or f'exit code {called.code}: {called.err}'}"
    found = alone(lambda: command.state(folder))
    if found.error:
        return f"what is left cannot be read: {found.error}"
    return difference(expected.state, found.value)


def difference(one: Any, other: Any, path: str = "") -> str:
    """Where two states differ first."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in one or key not in other:
                return f"{path}/{key} is {'missing' if key in one else 'new'}"
            if found := difference(one[key], other[key], f"{path}/{key}"):
                return found
        return ""
    return "" if one == other else f"{path} differs: {one!r:.300} became {other!r:.300}"


def moments(root: Path) -> list[tuple[str, int, bool]]:
    """Every operation of every command, and every write once more, for a kill in its midst."""
    found = [
        (name, number, torn)
        for name in COMMANDS
        for number, operation in enumerate(undisturbed(name, root).operations)
        for torn in (False, True)
        if operation.changes or operation.name == "fsync"  # before what only reads, nothing has changed
        if not torn or operation.name == "write"
    ]
    return Random("moments").sample(found, len(found))


def killed_before(command: Command, folder: Path, number: int, torn: bool) -> Ended:
    """A command that is killed before its operation of that number, or half-way through it."""

    def before(at: int, operation: Operation) -> None:
        if at == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def dies() -> Called:
        listen(folder, before, lambda at, operation: torn and at == number)
        return command.attacked(folder)

    return alone(dies)


@attack("Killed before every operation on a file, within every write, and at random moments", cases=1000, small=8)
def kills(seed: int, cases: Sequence[int], scratch: Path) -> Iterator[Outcome]:
    root = scratch.parents[1]
    listed = moments(root)
    for case in cases:
        random, folder = Random(f"kills {seed} {case}"), scratch / "case"
        name, number, torn = listed[case] if case < len(listed) else (random.choice([*COMMANDS]), -1, False)
        command, expected = COMMANDS[name], undisturbed(name, root)
        command.prepare(prepared(root), folder)
        if number >= 0:
            operation = expected.operations[number]
            what = f"{name}, {'within' if torn else 'before'} operation {number}: {operation.name} {operation.path}"
            ended = killed_before(command, folder, number, torn)
            wrong = "" if ended.killed else f"was not killed: {ended.value} {ended.error}"
        else:
            after = random.uniform(0, 1.1) * expected.seconds
            what = f"{name}, after {after:.3f} s"
            ended = alone(lambda: command.attacked(folder), kill_after=after)  # noqa: B023 - called at once
            wrong = ended.broken
        wrong = wrong or old_or_new(command, folder, expected) or gone_on(command, folder, expected)
        yield Outcome(case, FAILED, f"{what}: {wrong}") if wrong else Outcome(case, HELD)
        rmtree(folder)


def old_or_new(command: Command, folder: Path, expected: Undisturbed) -> str:
    """A learner that was being replaced is the old one or the new one, whole."""
    if expected.before is None or "learner" not in expected.before:
        return ""
    found = alone(lambda: command.state(folder))
    if found.error:
        return f"what is left cannot be read: {found.error}"
    known = (expected.before["learner"], expected.state["learner"])
    return "" if found.value["learner"] in known else "the learner is neither the old one nor the new one"
