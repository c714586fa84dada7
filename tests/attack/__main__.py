"""`python -m attack`: plays attacks and writes what they came to."""

import argparse
import json
import signal
import sys
from dataclasses import asdict
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from attack import report
from attack.registry import Attack, all_attacks, chosen
from attack.runner import Count, play_all, share_of


def main() -> int:
    """0 if no case failed, 1 if one did, 2 for a mistake in the options, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m attack", description="Attacks on what the library promises.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these attacks")
    parser.add_argument("--share", type=float, default=1.0, help="of each attack's cases; below 1 nothing is written")
    parser.add_argument("--small", action="store_true", help="the few cases of the test suite")
    parser.add_argument("--case", type=int, nargs="+", help="these cases of the one attack named by --only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--resume", action="store_true", help="go on with what was cut off; its notes are in build/attack"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    parser.add_argument("--list", action="store_true", help="list the attacks")
    given = parser.parse_args()
    known = all_attacks()
    if unknown := [name for name in given.only or () if name not in known]:
        parser.error(f"expected --only to name attacks but got {', '.join(unknown)}; there are {', '.join(known)}")
    if given.case and len(given.only or ()) != 1:
        parser.error("expected --only with one name beside --case")
    whole = given.share == 1.0 and not given.small and not given.case  # of what is not, nothing is written
    if given.resume and not whole:
        parser.error("expected --resume without --share, --small and --case: only whole attacks are noted")
    attacks = [attack for name, attack in known.items() if name in (given.only or known)]
    if given.list:
        for attack in attacks:
            print(f"{attack.name}: {attack.about}")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is left behind
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks = {attack.name: bars.add_task(attack.name, total=None) for attack in attacks}

        def told(attack: Attack, count: Count, cases: int) -> None:
            failed = f" [red]{count.failed} failed" if count.failed else ""
            bars.update(tasks[attack.name], completed=count.cases, total=cases, description=attack.name + failed)
            so_far[attack.name] = (attack, count, cases)
            if whole and count.cases == cases:  # hours of others may follow
                report.write(attack, count, given.seed, cases)
                report.write_section()

        so_far: dict[str, tuple[Attack, Count, int]] = {}
        notes = report.NOTES / str(given.seed) if whole else None
        try:
            counts = play_all(
                attacks,
                partial(_amount, given),
                seed=given.seed,
                jobs=given.jobs,
                told=told,
                notes=notes,
                resume=given.resume,
            )
        except KeyboardInterrupt:
            return _stopped(so_far, given.seed, whole)
    if given.json:
        print(json.dumps({name: asdict(count) for name, count in counts.items()}, indent=1))
    else:
        _print(counts)
    return 1 if any(count.failed for count in counts.values()) else 0


def _stopped(so_far: dict[str, tuple[Attack, Count, int]], seed: int, whole: bool) -> int:
    """What was played of each attack is written too, and said to be a part."""
    if whole:
        for attack, count, cases in so_far.values():
            if 0 < count.cases < cases:
                report.write(attack, count, seed, cases)
        report.write_section()
        print("Stopped. What was played is written; go on with --resume.", file=sys.stderr)
    else:
        print("Stopped.", file=sys.stderr)
    return 130


def _amount(given: argparse.Namespace, attack: Attack, total: int) -> list[int]:
    if given.case:
        return list(given.case)
    return chosen(total, attack.small) if given.small else share_of(total, given.share)


def _print(counts: dict[str, Count]) -> None:
    for name, count in counts.items():
        numbers = f"{count.held} held, {count.refused} refused, {count.failed} failed"
        print(f"{name}: {count.cases} cases, {numbers}, {count.seconds:.0f} s")
        for failure in count.failures:
            print(f"  {failure}")


if __name__ == "__main__":
    sys.exit(main())
