"""Two processes at once in one folder, one of them killed or not: they wait for one another, and nothing is lost."""

import ctypes
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from shutil import rmtree

from attack.commands import COMMANDS, Called, Command, alone, call, prepared
from attack.kills import difference, undisturbed
from attack.limits import DIES_WITH_PARENT, Ended
from attack.operations import listen
from attack.registry import FAILED, HELD, Outcome, attack

Attacked = Callable[[Path], Called]


@attack("Two processes that decode the same pictures at once, one of them killed or not", cases=300, small=3)
def decoding_at_once(seed: int, cases: Sequence[int], scratch: Path) -> Iterator[Outcome]:
    command = COMMANDS["decode"]
    for case in cases:
        random = Random(f"decoding at once {seed} {case}")
        yield _played(case, random, scratch, command, command.attacked, command.attacked)


@attack("Two parts of a study at once in one folder, one of them killed or not, then the whole", cases=100, small=2)
def parts_at_once(seed: int, cases: Sequence[int], scratch: Path) -> Iterator[Outcome]:
    command = COMMANDS["study"]

    def part(which: str, folder: Path) -> Called:
        return call("study", folder / "study.toml", "--out", folder / "out", "--part", which)

    for case in cases:
        random = Random(f"parts at once {seed} {case}")
        yield _played(case, random, scratch, command, partial(part, "1/2"), partial(part, "2/2"), command.again)


def _played(
    case: int,
    random: Random,
    scratch: Path,
    command: Command,
    first: Attacked,
    second: Attacked,
    then: Attacked | None = None,
) -> Outcome:
    root, folder = scratch.parents[1], scratch / "case"
    expected = undisturbed(command.name, root)
    command.prepare(prepared(root), folder)
    meet = random.randrange(len(expected.operations))
    dies = random.randint(meet, len(expected.operations) - 1) if random.random() < 0.7 else -1
    ended = at_once(partial(first, folder), partial(second, folder), folder, meet, dies)
    wrong = ended.broken or ("killed" if ended.killed else "")
    done = [] if wrong else ended.value
    if then is not None and not wrong:
        again = alone(lambda: then(folder))
        wrong, done = again.broken, [*done, again.value]
    for called in () if wrong else done:
        wrong = wrong or called.unclean or (f"exit code {called.code}: {called.err}" if called.code else "")
    if not wrong:
        found = alone(lambda: command.state(folder))
        wrong = found.error or difference(expected.state, found.value)
    rmtree(folder)
    killed = f"killed before operation {dies}" if dies >= 0 else "not killed"
    what = f"the second began at operation {meet} of the first, which was {killed}: {wrong}"
    return Outcome(case, FAILED, what) if wrong else Outcome(case, HELD)


def at_once(first: Callable[[], Called], second: Callable[[], Called], folder: Path, meet: int, dies: int) -> Ended:
    """Two commands at once, the second from an operation of the first on: what they came to unless killed."""

    def both() -> list[Called]:
        reader, writer = os.pipe()

        def before(number: int, _: object) -> None:
            if number == meet:
                os.write(writer, b"!")
            if number == dies:
                os.kill(os.getpid(), signal.SIGKILL)

        def attacked() -> Called:
            listen(folder, before)
            return first()

        told = [folder.with_name("first"), folder.with_name("second")]
        processes = [_begun_in(told[0], attacked)]
        os.close(writer)
        os.read(reader, 1)
        processes.append(_begun_in(told[1], second))
        for process in processes:
            os.waitpid(process, 0)
        assert dies >= 0 or told[0].exists(), "the first said nothing"
        assert told[1].exists(), "the second said nothing"
        found = [pickle.loads(path.read_bytes()) for path in told if path.exists()]
        for path in told:
            path.unlink(missing_ok=True)
        return found

    return alone(both)


def _begun_in(told: Path, function: Callable[[], Called]) -> int:
    """A process that writes into a file what a command came to."""
    process = os.fork()
    if process:
        return process
    try:
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
        told.write_bytes(pickle.dumps(function()))
    finally:
        os._exit(0)
