"""Plays attacks in several processes and counts what they came to.

Each case is noted in a file as soon as it is played. Notes of a whole attack stay until it has ended, so that one that
was cut off, by whatever, goes on where it was.
"""

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path

from attack.limits import SECONDS
from attack.registry import FAILED, HELD, REFUSED, Attack, Outcome, all_attacks, chosen

SHOWN = 20  # failures that are described
MEMORY = "/dev/shm"  # where nothing waits for a disk


Played = tuple[Outcome, float]
"""what a case came to, and the seconds that it took"""


@dataclass
class Count:
    """What the cases of an attack came to so far."""

    cases: int = 0
    held: int = 0
    refused: int = 0
    failed: int = 0
    seconds: float = 0.0
    """of all processes together"""
    failures: list[str] = field(default_factory=list)

    def add(self, played: Iterable[Played]) -> None:
        """Count these too."""
        for outcome, seconds in played:
            self.seconds += seconds
            self.cases += 1
            self.held += outcome.how == HELD
            self.refused += outcome.how == REFUSED
            self.failed += outcome.how == FAILED
            if outcome.how == FAILED and len(self.failures) < SHOWN:
                self.failures.append(f"case {outcome.case}: {outcome.what}")


Chunk = tuple[Attack, list[int]]
Done = Callable[[Attack, list[Played]], None]


def play_all(
    attacks: Sequence[Attack],
    amount: Callable[[Attack, int], Iterable[int]],
    *,
    seed: int = 0,
    jobs: int = 2,
    told: Callable[[Attack, Count, int], None] = lambda attack, count, cases: None,
    notes: Path | None = None,
    resume: bool = False,
) -> dict[str, Count]:
    """Play the cases that `amount` gives of each attack, of so many in all, `jobs` processes at once.

    When a process dies, what it had played counts, the case that it was at is played once more by itself, and the rest
    goes on. `notes` is a folder for what was played; with `resume` that is not played again.
    """
    counts = {attack.name: Count() for attack in attacks}
    scratch = Path(tempfile.mkdtemp(prefix="attack-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    book = Notes(notes or scratch / "notes")

    def done(attack: Attack, found: list[Played]) -> None:
        counts[attack.name].add(found)
        told(attack, counts[attack.name], len(cases[attack.name]))

    pool = _pool(jobs)
    try:
        totals = {attack.name: _total(attack, pool, scratch) for attack in attacks}
        cases = {attack.name: list(amount(attack, totals[attack.name])) for attack in attacks}
        waiting = list[Chunk]()
        for attack in attacks:
            before = book.of(attack.name, resume)
            known = [before[case] for case in cases[attack.name] if case in before]
            left = [case for case in cases[attack.name] if case not in before]
            waiting += [(attack, left[start : start + attack.chunk]) for start in range(0, len(left), attack.chunk)]
            if known:
                done(attack, known)
        while waiting:
            suspects, waiting = _until_one_dies(waiting, seed, jobs, scratch, book, done, pool)
            for suspect in suspects:
                _until_one_dies([suspect], seed, 1, scratch, book, done, _pool(1))
            pool = _pool(jobs)
    finally:
        _end(pool)
        shutil.rmtree(scratch, ignore_errors=True)
    return counts


def _pool(jobs: int) -> ProcessPoolExecutor:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a process that forks must have one thread
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_prepare)


def _total(attack: Attack, pool: ProcessPoolExecutor, scratch: Path) -> int:
    """The cases of a whole attack; where they have to be counted, by a process that may fork."""
    return attack.cases if isinstance(attack.cases, int) else pool.submit(counted, attack.name, scratch).result()


def counted(name: str, scratch: Path) -> int:
    """The cases of an attack, in this process."""
    cases = all_attacks()[name].cases
    return cases(scratch) if callable(cases) else cases


def _until_one_dies(
    chunks: list[Chunk], seed: int, jobs: int, scratch: Path, book: "Notes", done: Done, pool: ProcessPoolExecutor
) -> tuple[list[Chunk], list[Chunk]]:
    """Play chunks. When a process dies: the cases that were being played, and the chunks that are still to be played.

    A chunk of one case that is played by itself is to blame for its death, and counts as failed.
    """
    waiting, going = list(chunks), dict[Future[None], tuple[Attack, list[int], Path]]()
    try:
        while waiting or going:
            while waiting and len(going) < jobs:
                attack, cases = waiting.pop(0)
                own, notes = Path(tempfile.mkdtemp(prefix=f"{attack.name}-", dir=scratch)), book.next(attack.name)
                going[pool.submit(play, attack.name, seed, cases, own, notes)] = (attack, cases, notes)
            for future in wait(going, return_when=FIRST_COMPLETED).done:
                try:
                    future.result()
                except BrokenProcessPool:
                    return _blame(list(going.values()), jobs == 1, done, waiting)
                attack, _, notes = going.pop(future)
                done(attack, noted(notes))
        return [], []
    except KeyboardInterrupt:
        _end(pool)
        for attack, _, notes in going.values():  # of what was being played, what was noted
            done(attack, noted(notes))
        raise
    finally:
        _end(pool)


def _end(pool: ProcessPoolExecutor) -> None:
    """Nobody is left behind, after Ctrl-C either; what a process of a pool has forked dies with it."""
    workers, manager = list((pool._processes or {}).values()), pool._executor_manager_thread
    pool.shutdown(wait=False, cancel_futures=True)
    for process in workers:
        process.terminate()
    if manager is not None:
        manager.join()  # else it may close its pipe while Python, as it ends, writes into it, and says so
    for process in workers:
        process.join()


def _blame(
    going: list[tuple[Attack, list[int], Path]], alone: bool, done: Done, waiting: list[Chunk]
) -> tuple[list[Chunk], list[Chunk]]:
    """Count what chunks had played when a process died; the cases that were being played, and what is left."""
    suspects, left = list[Chunk](), list[Chunk]()
    for attack, cases, notes in going:
        suspect, rest = cases[len(noted(notes)) :][:1], cases[len(noted(notes)) + 1 :]
        if alone and suspect and len(cases) == 1:
            note(notes, Outcome(suspect[0], FAILED, f"the process died, or hung for {SECONDS:.0f} s"), 0.0)
        elif suspect:
            suspects.append((attack, suspect))
        if rest:
            left.append((attack, rest))
        done(attack, noted(notes))
    return suspects, [*left, *waiting]


def _prepare() -> None:
    """Ctrl-C is the business of the process above."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    all_attacks()


def play(name: str, seed: int, cases: list[int], scratch: Path, notes: Path) -> None:
    """Some cases of an attack, in this process, each noted as soon as it is played."""
    begun, attack, played = time.perf_counter(), all_attacks()[name], 0
    folder = scratch / "cases"
    folder.mkdir()
    try:
        for outcome in attack.play(seed, cases, folder):
            assert outcome.case == cases[played], f"played {outcome.case} where {cases[played]} was to be played"
            now = time.perf_counter()
            note(notes, outcome, now - begun)
            begun, played = now, played + 1
        assert played == len(cases), f"played {played} of {len(cases)} cases"
    except Exception as error:  # of the attack itself
        for case in cases[played:]:
            note(notes, Outcome(case, FAILED, f"the attack broke: {type(error).__name__}: {error}"), 0.0)
    shutil.rmtree(folder, ignore_errors=True)


class Notes:
    """Files with what was played: a folder per attack, and in it a file per chunk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, name: str, resume: bool) -> dict[int, Played]:
        """What was played of an attack before, by case; nothing if it begins anew. What failed is played again."""
        if not resume:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        found = [entry for path in sorted((self.folder / name).glob("*.jsonl")) for entry in noted(path)]
        return {outcome.case: (outcome, seconds) for outcome, seconds in found if outcome.how != FAILED}

    def next(self, name: str) -> Path:
        """A file for another chunk."""
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(suffix=".jsonl", dir=self.folder / name)
        os.close(handle)
        return Path(path)


def note(notes: Path, outcome: Outcome, seconds: float) -> None:
    """One more line, at once."""
    with notes.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**asdict(outcome), "seconds": round(seconds, 4)}) + "\n")


def noted(notes: Path) -> list[Played]:
    """What was noted so far; a line that was being written when its process was killed is none."""
    found = list[Played]()
    for line in notes.read_text("utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            entry = json.loads(line)
            found.append((Outcome(entry["case"], entry["how"], entry["what"]), entry["seconds"]))
    return found


def share_of(total: int, share: float) -> list[int]:
    """That share of an attack's cases, at least one."""
    return chosen(total, max(1, round(share * total)))
