"""The power fails: of what was not flushed, some is lost, as file systems do it when they are at their worst.

What is flushed is there afterwards. Of the rest, each file has its flushed contents, its last ones or a part of them,
and each folder names what it named when it was flushed or what it names now; a case draws which. What a command has
reported as done must be there if the power fails right after it.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from shutil import rmtree

from attack.commands import COMMANDS, Called, Command, alone, prepared
from attack.kills import Undisturbed, difference, gone_on, old_or_new, undisturbed
from attack.limits import Ended
from attack.operations import Operation, listen
from attack.registry import FAILED, HELD, Outcome, attack

ENDS = 15
Entries = dict[str, int]
"""inodes by name"""


class Disk:
    """What is safe of a folder and all below it, by inode."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.contents: dict[int, bytes] = {}
        self.entries: dict[int, Entries] = {}
        for path in [root, *root.rglob("*")]:
            self.flush(path)

    def flush(self, path: Path) -> None:
        """A file or a folder is safe as it is now."""
        inode = path.stat().st_ino
        if path.is_dir():
            self.entries[inode] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self.contents[inode] = path.read_bytes()

    def after_failure(self, to: Path, random: Random) -> None:
        """Write what one finds when the power is back."""
        now_contents, now_entries = dict[int, bytes](), dict[int, Entries]()
        for path in [self.root, *self.root.rglob("*")]:
            inode = path.stat().st_ino
            if path.is_dir():
                now_entries[inode] = {entry.name: entry.inode() for entry in os.scandir(path)}
            else:
                now_contents[inode] = path.read_bytes()
        self._restore(self.root.stat().st_ino, to, now_contents, now_entries, random)

    def _restore(
        self, inode: int, to: Path, contents: dict[int, bytes], entries: dict[int, Entries], random: Random
    ) -> None:
        if inode in entries or inode in self.entries:
            to.mkdir(exist_ok=True)
            safe, now = self.entries.get(inode, {}), entries.get(inode, {})
            chosen = random.choice([safe, now]) if now else safe
            for name in sorted(chosen):
                self._restore(chosen[name], to / name, contents, entries, random)
            return
        safe_content, content = self.contents.get(inode, b""), contents.get(inode, b"")
        cut = content[: random.randint(0, len(content))]
        grown = content.startswith(safe_content)  # what was appended may be there in part
        partial = content[: random.randint(len(safe_content), len(content))] if grown else cut
        unsafe = inode not in self.contents or safe_content != content
        to.write_bytes(
            random.choice([safe_content, content, partial]) if unsafe and inode in contents else safe_content
        )


@cache
def moments(root: Path) -> list[tuple[str, int]]:
    """Every operation of every command, in some order, and several times the end of each, which is behind the last."""
    found = [
        (name, number)
        for name in COMMANDS
        for number, operation in enumerate(undisturbed(name, root).operations)
        if operation.changes or operation.name == "fsync"
    ]
    found += [(name, len(undisturbed(name, root).operations)) for name in COMMANDS for _ in range(ENDS)]
    return Random("power").sample(found, len(found))


def without_power(command: Command, folder: Path, to: Path, number: int, random: Random) -> Ended:
    """A command in a machine that loses its power before the operation of that number; what is left goes elsewhere."""
    disk = Disk(folder)

    def stops() -> None:
        disk.after_failure(to, random)
        os.kill(os.getpid(), signal.SIGKILL)

    def before(at: int, operation: Operation) -> None:
        if at == number:
            stops()

    def flushed(path: str) -> None:
        disk.flush(Path(path))

    def fails() -> Called:
        listen(folder, before, flushed=flushed)
        called = command.attacked(folder)
        stops()
        return called

    return alone(fails)


@attack("The power failing before an operation on a file: what was not flushed is lost or cut", cases=1000, small=6)
def power_failures(seed: int, cases: Sequence[int], scratch: Path) -> Iterator[Outcome]:
    root = scratch.parents[1]
    listed = moments(root)
    for case in cases:
        name, number = listed[case % len(listed)]
        command, expected, folder, after = COMMANDS[name], undisturbed(name, root), scratch / "case", scratch / "after"
        command.prepare(prepared(root), folder)
        random = Random(f"power {seed} {case}")
        ended = without_power(command, folder, after, number, random)
        wrong = "" if ended.killed else f"was not killed: {ended.value} {ended.error}"
        rmtree(folder)
        if after.exists():
            after.rename(folder)  # paths in files are those of before
            at_end = number == len(expected.operations)
            wrong = wrong or (_lost(command, folder, expected) if at_end else old_or_new(command, folder, expected))
            wrong = wrong or gone_on(command, folder, expected)
            rmtree(folder)
        operation = expected.operations[number] if number < len(expected.operations) else None
        when = f"before operation {number}: {operation.name} {operation.path}" if operation else "after its end"
        what = f"{name}, {when}"
        yield Outcome(case, FAILED, f"{what}: {wrong}") if wrong else Outcome(case, HELD)


def _lost(command: Command, folder: Path, expected: Undisturbed) -> str:
    """What a command had reported as done, and is not there."""
    found = alone(lambda: command.state(folder))
    return f"what was done is lost: {found.error}" if found.error else difference(expected.state, found.value)
