"""A file system that fails: every operation of every command in turn, once or from then on, as SQLite tests it."""

import errno
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from shutil import rmtree

from attack.commands import COMMANDS, Called, Command, alone, prepared
from attack.kills import Undisturbed, difference, gone_on, old_or_new, undisturbed
from attack.limits import Ended
from attack.operations import Operation, listen
from attack.registry import FAILED, HELD, REFUSED, Outcome, attack

NO_SPACE, BROKEN, REFUSES = errno.ENOSPC, errno.EIO, errno.EACCES
Failure = tuple[str, int, int, bool]
"""a command, the number of an operation, what the system says, and whether it says so from then on"""


def can_say(operation: Operation) -> list[int]:
    """What a file system may answer to an operation."""
    if operation.name in ("write", "fsync"):
        return [NO_SPACE, BROKEN]
    grows = operation.name in ("mkdir", "rename") or (operation.name == "open" and operation.changes)
    return [*[NO_SPACE] * grows, BROKEN, REFUSES]


@cache
def every_failure(root: Path) -> list[Failure]:
    """All of them, in an order in which the first of each command come early."""
    found = [
        (name, number, error, forever)
        for name in COMMANDS
        for number, operation in enumerate(undisturbed(name, root).operations)
        for error in can_say(operation)
        for forever in (False, True)
    ]
    return Random("failures").sample(found, len(found))


def failing(command: Command, folder: Path, number: int, error: int, forever: bool) -> Ended:
    """A command whose operation of that number fails, and all later ones of the kind too where it is for ever."""

    def before(at: int, operation: Operation) -> None:
        if at == number or (forever and at > number and error in can_say(operation)):
            raise OSError(error, os.strerror(error), str(folder / operation.path))

    def torn(at: int, operation: Operation) -> bool:
        return at == number and error == NO_SPACE  # a full disk takes what still has room

    def fails() -> Called:
        listen(folder, before, torn)
        return command.attacked(folder)

    return alone(fails)


def judged(
    command: Command, folder: Path, path: str, writing: bool, ended: Ended, expected: Undisturbed
) -> tuple[str, str]:
    """Held or refused, and what is wrong, if anything is.

    What cannot be written is a failure, what cannot be read or is not allowed may be a mistake of whoever named it. A
    page, and decoded pictures, may do without one that they say could not be read, until they are made again.
    """
    if ended.broken or ended.killed:
        return FAILED, ended.broken or "killed"
    called: Called = ended.value
    if called.unclean:
        return FAILED, called.unclean
    if called.code not in ((0, 1) if writing else (0, 1, 2)):
        return FAILED, f"exit code {called.code}: {called.err}"
    told = called.out if command.name == "decode" else called.err
    lines = [line for line in told.splitlines() if line.startswith(("warning: ", "  "))]
    said = any(path.removeprefix("pets/") in line for line in lines)
    if called.code == 0 and not (said and command.name in ("report", "decode")):
        found = alone(lambda: command.state(folder))
        if wrong := found.error or difference({**expected.state, "files": []}, {**found.value, "files": []}):
            return FAILED, f"said that all was well, but {wrong}"
    wrong = old_or_new(command, folder, expected) or gone_on(command, folder, expected)
    return (FAILED, wrong) if wrong else (REFUSED if called.code else HELD, "")


def count(root: Path) -> int:
    """How many there are."""
    return len(every_failure(root))


@attack(
    "Every operation on a file failing in turn, once or from then on: full disk, I/O error, no permission",
    cases=count,
    small=8,
)
def failures(seed: int, cases: Sequence[int], scratch: Path) -> Iterator[Outcome]:
    root = scratch.parents[1]
    for case in cases:
        name, number, error, forever = every_failure(root)[case]
        command, expected, folder = COMMANDS[name], undisturbed(name, root), scratch / "case"
        command.prepare(prepared(root), folder)
        operation, said = expected.operations[number], errno.errorcode[error]
        writing = error != REFUSES and (operation.changes or operation.name in ("write", "fsync"))
        ended = failing(command, folder, number, error, forever)
        how, wrong = judged(command, folder, operation.path, writing, ended, expected)
        where = f"operation {number}{' and all later ones' if forever else ''}: {operation.name} {operation.path}"
        yield Outcome(case, how, f"{name}, {said} at {where}: {wrong}" if wrong else "")
        rmtree(folder)
