"""Files of decoded pictures: damaged, of other pictures, or read by a run that is killed.

Whatever lies in the cache, the pictures that come of it are those that lie in the folder, or there is an error of one
line.
"""

import io
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, suppress
from functools import partial
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

import torch

from attack import samples
from attack.commands import Called, alone, call, prepared, state_of_run
from attack.ctrl_c import judged
from attack.kills import difference
from attack.mutations import mutated
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
    with redirect_stderr(io.StringIO()):
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


STREAM = ("--stream.task-sizes", "2", "1", "--stream.test-share", "0.1")
NETWORK = ("--network.image-size", "8", "--network.channels", "1", "--network.width", "8")
SHORT = ("--first.epochs", "2", "--later.epochs", "2", "--first.batch", "6", "--later.batch", "12", "--device", "cpu")


@attack("Runs whose images are read from a file, killed or stopped by Ctrl-C at random moments", cases=100, small=2)
def runs_from_a_file(seed: int, cases: Sequence[int], scratch: Path) -> Iterator[Outcome]:
    made, folder = prepared(scratch.parents[1]), scratch / "case"

    def begun(cache: str) -> Called:
        os.environ["ICTRL_DATA"] = str(folder / "data")
        given = ("--stream.dataset", "folder", "--stream.root", folder / "pets", "--stream.cache", cache)
        return call("run", "ictrl-digits", *given, *STREAM, *NETWORK, *SHORT, "--out", folder / "run")

    def gone_on() -> Called:
        os.environ["ICTRL_DATA"] = str(folder / "data")
        return call("resume", folder / "run") if (folder / "run" / "config.toml").exists() else begun("always")

    def state() -> Any:
        found = state_of_run(folder / "run")
        del found["results"]["recipe"]["stream"]["cache"], found["config"]  # the one setting that differs
        return found

    def prepare() -> None:
        rmtree(folder, ignore_errors=True)
        shutil.copytree(made / "pets", folder / "pets")
        (folder / "pets" / "1" / "10.png").unlink()
        for path in list((folder / "pets").rglob("*.png")):  # as many again, as learning needs more of a class
            for number in range(2):
                shutil.copy2(path, path.with_name(f"{path.stem}-{number}.png"))

    prepare()
    in_memory = alone(lambda: begun("never"), seconds=60)
    expected = alone(state)
    assert not in_memory.error, in_memory.error
    assert in_memory.value.code == 0, in_memory.value
    assert not expected.error, expected.error
    for case in cases:
        random = Random(f"runs from a file {seed} {case}")
        prepare()
        after = random.uniform(0, 1.2) * in_memory.seconds
        how = "killed" if case % 2 else "Ctrl-C"
        if case % 2:
            ended = alone(lambda: begun("always"), kill_after=after)
        else:
            ended = alone(partial(_interrupted, after, begun))
        wrong = ended.broken or (judged(ended.value, "") if ended.value else "")
        if not wrong and not (ended.value and ended.value.code == 0):
            again = alone(gone_on)
            wrong = again.broken or again.value.unclean or ("" if again.value.code == 0 else again.value.err)
            wrong = wrong and f"going on: {wrong}"
        if not wrong:
            found = alone(state)
            wrong = found.error or difference(expected.value, found.value)
        yield Outcome(case, FAILED, f"{how} after {after:.3f} s: {wrong}") if wrong else Outcome(case, HELD)


def _interrupted(after: float, begun: Callable[[str], Called]) -> Called:
    """A run that is sent Ctrl-C after so many seconds, as a process of its own hears it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, max(after, 0.001))
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    return begun("always")
