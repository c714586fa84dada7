"""Plays attacks in several processes and counts what they came to."""

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
NOTES = "played.jsonl"  # of a chunk


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

    def add(self, outcomes: Iterable[Outcome], seconds: float) -> None:
        """Count these too."""
        self.seconds += seconds
        for outcome in outcomes:
            self.cases += 1
            self.held += outcome.how == HELD
            self.refused += outcome.how == REFUSED
            self.failed += outcome.how == FAILED
            if outcome.how == FAILED and len(self.failures) < SHOWN:
                self.failures.append(f"case {outcome.case}: {outcome.what}")


Chunk = tuple[Attack, list[int]]
Done = Callable[[Attack, list[Outcome], float], None]


def play_all(
    attacks: Sequence[Attack],
    amount: Callable[[Attack, int], Iterable[int]],
    *,
    seed: int = 0,
    jobs: int = 2,
    told: Callable[[Attack, Count, int], None] = lambda attack, count, cases: None,
) -> dict[str, Count]:
    """Play the cases that `amount` gives of each attack, of so many in all, `jobs` processes at once.

    When a process dies, what it had played counts, the case that it was at is played once more by itself, and the rest
    goes on.
    """
    counts = {attack.name: Count() for attack in attacks}
    scratch = Path(tempfile.mkdtemp(prefix="attack-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))

    def done(attack: Attack, found: list[Outcome], seconds: float) -> None:
        counts[attack.name].add(found, seconds)
        told(attack, counts[attack.name], len(cases[attack.name]))

    pool = _pool(jobs)
    try:
        totals = {attack.name: _total(attack, pool, scratch) for attack in attacks}
        cases = {attack.name: list(amount(attack, totals[attack.name])) for attack in attacks}
        waiting = [
            (attack, cases[attack.name][start : start + attack.chunk])
            for attack in attacks
            for start in range(0, len(cases[attack.name]), attack.chunk)
        ]
        while waiting:
            suspects, waiting = _until_one_dies(waiting, seed, jobs, scratch, done, pool)
            for suspect in suspects:
                _until_one_dies([suspect], seed, 1, scratch, done, _pool(1))
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
    chunks: list[Chunk], seed: int, jobs: int, scratch: Path, done: Done, pool: ProcessPoolExecutor
) -> tuple[list[Chunk], list[Chunk]]:
    """Play chunks. When a process dies: the cases that were being played, and the chunks that are still to be played.

    A chunk of one case that is played by itself is to blame for its death, and counts as failed.
    """
    waiting, going = list(chunks), dict[Future[float], tuple[Attack, list[int], Path]]()
    try:
        while waiting or going:
            while waiting and len(going) < jobs:
                attack, cases = waiting.pop(0)
                own = Path(tempfile.mkdtemp(prefix=f"{attack.name}-", dir=scratch))
                going[pool.submit(play, attack.name, seed, cases, own)] = (attack, cases, own)
            for future in wait(going, return_when=FIRST_COMPLETED).done:
                try:
                    seconds = future.result()
                except BrokenProcessPool:
                    return _blame(list(going.values()), jobs == 1, done, waiting)
                attack, _, own = going.pop(future)
                done(attack, _noted(own), seconds)
        return [], []
    finally:
        _end(pool)


def _end(pool: ProcessPoolExecutor) -> None:
    """Nobody is left behind, after Ctrl-C either; what a process of a pool has forked dies with it."""
    workers = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in workers:
        process.terminate()
    for process in workers:
        process.join()


def _blame(
    going: list[tuple[Attack, list[int], Path]], alone: bool, done: Done, waiting: list[Chunk]
) -> tuple[list[Chunk], list[Chunk]]:
    """Count what chunks had played when a process died; the cases that were being played, and what is left."""
    suspects, left = list[Chunk](), list[Chunk]()
    for attack, cases, own in going:
        done(attack, found := _noted(own), 0.0)
        suspect, rest = cases[len(found) : len(found) + 1], cases[len(found) + 1 :]
        if alone and suspect and len(cases) == 1:
            done(attack, [Outcome(suspect[0], FAILED, f"the process died, or hung for {SECONDS:.0f} s")], 0.0)
        elif suspect:
            suspects.append((attack, suspect))
        if rest:
            left.append((attack, rest))
    return suspects, [*left, *waiting]


def _prepare() -> None:
    """Ctrl-C is the business of the process above."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    all_attacks()


def play(name: str, seed: int, cases: list[int], scratch: Path) -> float:
    """Some cases of an attack, in this process, each noted as soon as it is played; the seconds that they took."""
    begun, attack, played = time.perf_counter(), all_attacks()[name], 0
    folder = scratch / "cases"
    folder.mkdir()
    with (scratch / NOTES).open("a", encoding="utf-8", buffering=1) as notes:
        try:
            for outcome in attack.play(seed, cases, folder):
                assert outcome.case == cases[played], f"played {outcome.case} where {cases[played]} was to be played"
                notes.write(json.dumps(asdict(outcome)) + "\n")
                played += 1
            assert played == len(cases), f"played {played} of {len(cases)} cases"
        except Exception as error:  # of the attack itself
            for case in cases[played:]:
                what = f"the attack broke: {type(error).__name__}: {error}"
                notes.write(json.dumps(asdict(Outcome(case, FAILED, what))) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    return time.perf_counter() - begun


def _noted(scratch: Path) -> list[Outcome]:
    """What was noted of a chunk so far."""
    notes = scratch / NOTES
    lines = notes.read_text("utf-8").splitlines() if notes.exists() else []
    return [Outcome(**json.loads(line)) for line in lines]


def share_of(total: int, share: float) -> list[int]:
    """That share of an attack's cases, at least one."""
    return chosen(total, max(1, round(share * total)))
