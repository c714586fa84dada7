"""The register of attacks, and what a case of one comes to.

A new attack is a new file in this folder:

    @attack("Learners with one byte changed", cases=60_000, small=20)
    def changed_bytes(seed: int, cases: Sequence[int], scratch: Path) -> Iterator[Outcome]:
        for case in cases:
            random = Random(f"changed bytes {seed} {case}")
            ...
            yield Outcome(case, HELD)

Cases are numbered from 0. What a case does follows from the seed and its number alone, so that it can be played again
by itself, in any order and in any process. `scratch` is an empty folder for this call; it is removed afterwards.
"""

import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

HELD, REFUSED, FAILED = "held", "refused", "failed"
MACHINERY = ("registry", "limits", "runner", "report", "gpu", "__main__")


@dataclass(frozen=True)
class Outcome:
    """What one case came to."""

    case: int
    how: str
    """held: as promised; refused: in one line; failed: anything else"""
    what: str = ""
    """of a case that failed: what was done, and what happened"""

    def __post_init__(self) -> None:
        assert self.how in (HELD, REFUSED, FAILED)


Play = Callable[[int, Sequence[int], Path], Iterator[Outcome]]


@dataclass(frozen=True)
class Attack:
    """An attack as the register has it."""

    name: str
    about: str
    """in the table: what is done, in a few words"""
    play: Play
    cases: int | Callable[[Path], int]
    """of the whole attack; a function of an empty folder where they have to be counted first"""
    small: int
    """cases in the test suite: a few seconds"""
    chunk: int
    """cases that one process plays at a time"""


ATTACKS: dict[str, Attack] = {}


def attack(about: str, *, cases: int | Callable[[Path], int], small: int, chunk: int = 50) -> Callable[[Play], Play]:
    """Enter an attack under the name of the function."""

    def enter(play: Play) -> Play:
        name = play.__name__.replace("_", "-")
        assert name not in ATTACKS or ATTACKS[name].play.__module__ == play.__module__, name
        ATTACKS[name] = Attack(name, about, play, cases, small, chunk)
        return play

    return enter


def all_attacks() -> dict[str, Attack]:
    """Every attack by name, once all files of this folder are imported."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name not in MACHINERY and not module.name.startswith("test_"):
            import_module(f"attack.{module.name}")
    return dict(sorted(ATTACKS.items()))


def chosen(total: int, amount: int) -> list[int]:
    """So many of all cases, spread evenly.

    >>> chosen(10, 3)
    [0, 3, 6]
    """
    amount = min(total, amount)
    return [place * total // amount for place in range(amount)]
