"""Kills `ictrl serve` again and again while it teaches, and looks at what is left: the old learner or the new one.

    python experiments/kill_serving.py                    twenty times, at random moments of the teaching
    python experiments/kill_serving.py --times 100 --out docs/results/serve/killed.json

Every other kill waits until the new learner or its kept version is being written, which takes a moment only. Each time
the server is started again on what was left: it must answer as that learner does, and know its versions.
"""

import argparse
import collections
import json
import random
import socket
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from hostile import FORM, form, request
from kill_teaching import BROKEN, NEW, OLD, prepare, state
from serving import Server, machine, start, write


def lesson(new: Path) -> bytes:
    """A request to teach the digit 3."""
    parts = [(b"3", file.read_bytes()) for file in sorted((new / "3").iterdir())]
    return request(target=b"/teach?held_out=0", body=form(*parts), kind=FORM)


def teach(server: Server, sent: bytes) -> bool:
    """Teach; whether the server said that it is done."""
    told = b""
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(sent)
            while b"event: done" not in told and (more := connection.recv(65536)):
                told += more
    except OSError:  # killed
        pass
    return b"event: done" in told


def asked(server: Server, path: str) -> dict[str, object]:
    with urllib.request.urlopen(f"{server.url}{path}", timeout=60) as answer:
        return dict(json.loads(answer.read()))


def kill(server: Server, folder: Path, seconds: float | None) -> None:
    """SIGKILL after so many seconds or, with None, as soon as something is being written, or else is done."""
    begun = time.monotonic()
    while time.monotonic() - begun < (10.0 if seconds is None else seconds):
        if seconds is None and list(folder.rglob(".*.unfinished")):
            break
        time.sleep(0 if seconds is None else 0.0005)
    server.kill()


def attempt(learner: Path, before: bytes, sent: bytes, seconds: float | None) -> tuple[str, bool, int]:
    """Teach and kill; what is left, whether the client had been told that all was done, and unfinished files."""
    for old in learner.with_suffix(".versions").glob("*"):
        old.unlink()
    learner.write_bytes(before)
    server, told = start(learner), list[bool]()
    teaching = threading.Thread(target=lambda: told.append(teach(server, sent)))
    teaching.start()
    kill(server, learner.parent, seconds)
    teaching.join()
    unfinished = len(list(learner.parent.rglob(".*.unfinished")))
    left = state(learner)
    again = start(learner)
    labels = [one["label"] for one in asked(again, "/classes")["classes"]]  # type: ignore[attr-defined]
    versions = asked(again, "/versions")
    again.stop()
    current = [one["version"] for one in versions["versions"] if one["current"]]  # type: ignore[attr-defined]
    if labels != {OLD: [0, 1, 2], NEW: [0, 1, 2, 3]}.get(left) or current != [versions["version"]]:
        left = BROKEN
    if told == [True] and left != NEW:  # what a client has been told must have been written
        left = BROKEN
    return left, told == [True], unfinished


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    options, found = parser.parse_args(), collections.Counter[str]()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        learner, new = prepare(Path(name))
        before, sent = learner.read_bytes(), lesson(new)
        server = start(learner)
        begun = time.monotonic()
        assert teach(server, sent), "teaching failed"
        takes = time.monotonic() - begun
        server.stop()
        assert state(learner) == NEW
        print(f"Teaching takes {takes:.2f} s.", flush=True)
        for number in range(options.times):
            seconds = None if number % 2 else chance.uniform(0, 4 * takes)
            left, told, unfinished = attempt(learner, before, sent, seconds)
            found[left] += 1
            when = "while it was written" if seconds is None else f"after {seconds:.3f} s"
            print(f"killed {when}: {left}, told {told}, {unfinished} unfinished files", flush=True)
    counts = {kind: found[kind] for kind in (OLD, NEW, BROKEN)}
    write(options.out, {"times": options.times, "seed": options.seed, "teaching_seconds": takes, **counts, **machine()})
    if found[BROKEN]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
