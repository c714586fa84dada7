"""Ctrl-C at random bytecodes of commands, twice too: one line, an exit code, and nothing lost."""

import os
import signal
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from shutil import rmtree

import ictrl
from attack.bytecodes import Traced
from attack.commands import COMMANDS, Called, Command, Left, alone, prepared
from attack.kills import gone_on, old_or_new, undisturbed
from attack.limits import Ended
from attack.registry import FAILED, HELD, Outcome, attack
from ictrl import startup

OURS = str(Path(ictrl.__file__).parent)
STOPPED = 130
SOON = 2000
"""Bytecodes after the first Ctrl-C within which the second one comes, mostly."""


def ours(name: str) -> bool:
    return name.startswith(OURS) or name.endswith("contextlib.py")


def interrupted(command: Command, folder: Path, at: Sequence[int]) -> Ended:
    """A command with Ctrl-C at these bytecodes: what it came to, what it let through, and the bytecodes there were."""

    def tried() -> tuple[Called | None, str, int]:
        traced, called = Traced(ours), list[Called]()
        asked = signal.getsignal
        signal.signal = traced.handle  # type: ignore[assignment] - it keeps the real one
        signal.getsignal = lambda number: traced.answer if number == signal.SIGINT else asked(number)
        startup._answers, startup._stop = True, _leave  # as in a process of its own
        raised = traced.run(lambda: called.append(command.attacked(folder)), at)
        return (called[0] if called else None), repr(raised) if raised is not None else "", traced.count

    return alone(tried, seconds=60)


def _leave(number: int, frame: object) -> None:
    raise Left


@cache
def counted(name: str, root: Path) -> int:
    """Bytecodes of a command."""
    folder = root / f"counted-{os.getpid()}"
    COMMANDS[name].prepare(prepared(root), folder)
    ended = interrupted(COMMANDS[name], folder, [])
    assert not ended.error, ended.error
    rmtree(folder)
    return int(ended.value[2])


def judged(called: Called | None, raised: str) -> str:
    """What is wrong with how a command has ended."""
    if called is None:
        return f"it let through {raised}"
    lines = [line for line in called.err.splitlines() if not line.startswith(("Stopping", "warning: stopped: "))]
    if called.code not in (0, STOPPED):
        return f"exit code {called.code}: {called.err!r}"
    return Called(called.code, called.out, "\n".join(lines)).unclean


@attack("Ctrl-C at random bytecodes of commands, once and twice", cases=500, small=6, chunk=25)
def ctrl_c(seed: int, cases: Sequence[int], scratch: Path) -> Iterator[Outcome]:
    root, names = scratch.parents[1], list(COMMANDS)
    for case in cases:
        random, folder, name = Random(f"ctrl-c {seed} {case}"), scratch / "case", names[case % len(names)]
        command, expected, total = COMMANDS[name], undisturbed(name, root), counted(name, root)
        at = [random.randint(1, total)]
        if case // len(names) % 2:
            at.append(random.randint(1, SOON if random.random() < 0.8 else total))
        command.prepare(prepared(root), folder)
        ended = interrupted(command, folder, at)
        wrong = ended.broken or judged(*ended.value[:2])
        wrong = wrong or old_or_new(command, folder, expected) or gone_on(command, folder, expected)
        what = f"{name}, Ctrl-C at {at} of {total} bytecodes: {wrong}"
        yield Outcome(case, FAILED, what) if wrong else Outcome(case, HELD)
        rmtree(folder)
