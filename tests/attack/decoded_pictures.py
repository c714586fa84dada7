"""Files of decoded pictures: damaged, of other pictures, or made by two processes at once of which one is killed.

Whatever lies in the cache, the pictures that come of it are those that lie in the folder, or there is an error of one
line.
"""

import ctypes
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from shutil import rmtree

import torch

from attack import samples
from attack.commands import COMMANDS, Called, Command, alone, prepared
from attack.kills import difference, undisturbed
from attack.limits import DIES_WITH_PARENT, Ended
from attack.mutations import mutated
from attack.operations import listen
from attack.registry import FAILED, HELD, Outcome, attack
from attack.sealed import played
from ictrl.config import StreamConfig
from ictrl.data import Dataset, decoding, load_dataset, picture_source

BLOCK = 5  # pictures for which the journal has a line
PARTS = ("images", "labels", "test_images", "test_labels")
Laid = dict[str, bytes]
"""files by name"""


@attack(
    "Files of decoded pictures, and what was begun of them, mutated or of other pictures",
    cases=10_000,
    small=30,
    chunk=1000,
)
def decoded_pictures(seed: int, cases: Sequence[int], scratch: Path) -> Iterator[Outcome]:
    os.environ["ICTRL_DATA"] = str(scratch / "data")
    picture_source.BLOCK, decoding.FLUSHED = BLOCK, 1
    folder, root = scratch / "data" / "decoded", samples.laid(_pictures(0), scratch / "pets")
    expected, whole = _read(root, "never"), _whole(root, folder)
    begun = [_begun(root, folder, lines) for lines in (2, 5)]
    samples.laid(_pictures(1), root)  # other pixels and labels, as many of them
    other = _whole(root, folder)
    samples.laid(_pictures(0), root)

    def case_of(case: int) -> Callable[[], object]:
        random = Random(f"decoded pictures {seed} {case}")
        if case % 7 < 4:
            ((name, content),) = whole.items()
            ((_, strange),) = other.items()
            pixels, text = content.index(b"\0" * 8), len(content) - 2000
            cut = [(0, len(content)), (0, pixels), (text, len(content)), (4096, text)][case % 7]
            laid = {name: content[: cut[0]] + mutated(content[slice(*cut)], random, [strange]) + content[cut[1] :]}
            if random.random() < 0.05:
                laid = {name: strange}
        else:
            laid = dict(random.choice(begun))
            chosen = random.choice(list(laid))
            laid[chosen] = mutated(laid[chosen], random, list(laid.values()))

        def read() -> None:
            found = _read(_as_before(root), "always")
            for part in PARTS:
                ours, theirs = getattr(found, part), getattr(expected, part)
                assert torch.equal(ours, theirs), f"{part} are not those of the folder"

        samples.laid(laid, folder)
        return read

    return played(case_of, cases, scratch)


def _pictures(which: int) -> Laid:
    """Twenty-four in three classes, one of them not to be read."""
    kinds = samples.pictures()
    names = [name for name in kinds if name.endswith((".png", ".jpg", ".gif"))]
    found = {f"{(number + which) % 3}/{number:02d}.png": kinds[names[number % len(names)]] for number in range(24)}
    return {**found, "1/07.png": b"no picture"} if not which else found


def _as_before(root: Path) -> Path:
    """With the times that they had when they were decoded."""
    for path in root.rglob("*.png"):
        os.utime(path, (1, 1))
    return root


def _read(root: Path, cache: str) -> Dataset:
    stream = StreamConfig(dataset="folder", root=str(root), tasks=1, cache=cache)  # type: ignore[arg-type]
    return load_dataset(stream, samples.SIDE, 3)


def _whole(root: Path, folder: Path) -> Laid:
    """The file of these pictures, and nothing in the folder any more."""
    _read(_as_before(root), "always")
    return _taken(folder)


def _begun(root: Path, folder: Path, lines: int) -> Laid:
    """What a maker leaves that is stopped once the journal has so many lines."""
    whole, left = decoding.Log.add, lines

    def add(log: decoding.Log, line: str) -> None:
        nonlocal left
        whole(log, line)
        left -= 1
        if not left:
            raise KeyboardInterrupt

    decoding.Log.add = add  # type: ignore[method-assign]
    try:
        with suppress(KeyboardInterrupt):
            _read(_as_before(root), "always")
    finally:
        decoding.Log.add = whole  # type: ignore[method-assign]
    return _taken(folder)


def _taken(folder: Path) -> Laid:
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}
    rmtree(folder)
    return found


@attack("Two processes that decode the same pictures at once, one of them killed or not", cases=300, small=3)
def decoding_at_once(seed: int, cases: Sequence[int], scratch: Path) -> Iterator[Outcome]:
    root, command = scratch.parents[1], COMMANDS["decode"]
    expected = undisturbed("decode", root)
    for case in cases:
        random, folder = Random(f"decoding at once {seed} {case}"), scratch / "case"
        command.prepare(prepared(root), folder)
        meet = random.randrange(len(expected.operations))
        dies = random.randint(meet, len(expected.operations) - 1) if random.random() < 0.7 else -1
        ended = at_once(command, folder, meet, dies)
        wrong = ended.broken or ("killed" if ended.killed else "")
        for called in () if wrong else ended.value:
            wrong = wrong or called.unclean or (f"exit code {called.code}: {called.err}" if called.code else "")
        if not wrong:
            found = alone(lambda: command.state(folder))  # noqa: B023 - called at once
            wrong = found.error or difference(expected.state, found.value)
        rmtree(folder)
        killed = f"killed before operation {dies}" if dies >= 0 else "not killed"
        what = f"the second began at operation {meet} of the first, which was {killed}: {wrong}"
        yield Outcome(case, FAILED, what) if wrong else Outcome(case, HELD)


def at_once(command: Command, folder: Path, meet: int, dies: int) -> Ended:
    """A command in two processes, the second from an operation of the first on: what they came to unless killed."""

    def both() -> list[Called]:
        reader, writer = os.pipe()

        def before(number: int, _: object) -> None:
            if number == meet:
                os.write(writer, b"!")
            if number == dies:
                os.kill(os.getpid(), signal.SIGKILL)

        def attacked() -> Called:
            listen(folder, before)
            return command.attacked(folder)

        first = _begun_in(folder.with_name("first"), attacked)
        os.close(writer)
        os.read(reader, 1)
        second = _begun_in(folder.with_name("second"), lambda: command.attacked(folder))
        for process in (first, second):
            os.waitpid(process, 0)
        told = [folder.with_name(name) for name in ("first", "second")]
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
