"""Sends hostile requests to a served learner: each is refused in one line, and the server answers others as before.

    python experiments/serve_hostile.py                       10,000 of them, over raw sockets, in some minutes
    python experiments/serve_hostile.py --requests 500 --out docs/results/serve/hostile.json

Fails on any answer but a 4xx in one line, on a wait of more than ten seconds, on a line in the server's log, if memory
grows by more than --megabytes after the first tenth, and if predictions or the learner's file are not as they were.
"""

import argparse
import collections
import json
import random
import socket
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from hostile import Hostile, hostile, picture, request
from kill_teaching import prepare
from serving import Server, machine, served, write

HANG = 10.0  # seconds
OPTIONS = ["--body-timeout", "2", "--max-body", "2", "--max-pictures", "16", "--max-pixels", "4"]


def send(port: int, what: Hostile) -> tuple[str, float]:
    """What came back, in a word: a status, "closed", or what was wrong with the answer; and after how many seconds."""
    begun = time.monotonic()
    try:
        answer = _answer(port, what)
    except TimeoutError:
        return "hang", time.monotonic() - begun
    took = time.monotonic() - begun
    if what.leave:
        return "left", took
    if not answer:
        return ("closed" if what.may_close else "closed without an answer"), took
    head, _, body = answer.partition(b"\r\n\r\n")
    body = body[: _length(head)]
    status = head.split(b" ", 2)[1].decode("latin-1") if head.startswith(b"HTTP/1.1 ") else "no HTTP"
    try:
        line = json.loads(body)["error"]
        good = status.startswith("4") and isinstance(line, str) and 0 < len(line) < 1000 and "\n" not in line
    except (ValueError, KeyError, TypeError):
        good = False
    return (status if good else f"wrong: {answer[:300]!r}"), took


def _answer(port: int, what: Hostile) -> bytes:
    """All that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=HANG) as connection:
        received = b""
        try:
            for piece in what.pieces:
                connection.sendall(piece)
                if what.pause:
                    connection.settimeout(what.pause)
                    try:
                        received += connection.recv(65536)
                    except TimeoutError:
                        continue
                    break
        except OSError:  # refused and closed while it was still being sent
            pass
        connection.settimeout(HANG)
        if what.leave:
            return b""
        try:
            while not _whole(received) and (more := connection.recv(65536)):
                received += more
        except ConnectionError:
            pass
        return received


def _whole(received: bytes) -> bool:
    """Whether an answer is all there, by its length."""
    head, found, body = received.partition(b"\r\n\r\n")
    length = _length(head)
    return bool(found) and length is not None and len(body) >= length


def _length(head: bytes) -> int | None:
    """What an answer's head says of its body."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return None


def ask(server: Server, content: bytes) -> object:
    """What the server makes of a good picture."""
    asked = urllib.request.Request(f"{server.url}/predict", content, {"Content-Type": "image/png"})
    with urllib.request.urlopen(asked, timeout=HANG) as answer:
        return json.loads(answer.read())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--megabytes", type=float, default=100.0)
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    answers, kinds, wrong = collections.Counter[str](), collections.Counter[str](), []
    longest = 0.0
    with tempfile.TemporaryDirectory() as name:
        learner, _ = prepare(Path(name))
        before = learner.read_bytes()
        with served(learner, *OPTIONS) as server:
            good = [picture(random.Random(i)) for i in range(20)]
            said, begun = [ask(server, content) for content in good], time.monotonic()
            log, early = server.log.read_text(encoding="utf-8"), 0.0

            def one(number: int) -> tuple[Hostile, str, float]:
                what = hostile(random.Random(f"{asked.seed} {number}"))
                return what, *send(server.port, what)

            with ThreadPoolExecutor(asked.clients) as pool:
                for number, (what, answer, took) in enumerate(pool.map(one, range(asked.requests))):
                    longest = max(longest, took)
                    answers[answer.partition(":")[0]] += 1
                    kinds[what.kind] += 1
                    if answer not in ("closed", "left") and not (len(answer) == 3 and answer.startswith("4")):
                        wrong.append(f"{number} {what.kind}: {answer} for {[piece[:80] for piece in what.pieces[:2]]}")
                    if number == asked.requests // 10:
                        early = server.megabytes
            late = server.megabytes
            assert server.process.poll() is None, "the server has died"
            assert send(server.port, Hostile("", [request(b"GET", b"/nope", kind=None)]))[0] == "404"
            assert [ask(server, content) for content in good] == said, "predictions have changed"
            seconds = round(time.monotonic() - begun, 1)
            logged = server.log.read_text(encoding="utf-8").removeprefix(log)
        assert learner.read_bytes() == before, "the learner has changed"
    found = {
        "requests": asked.requests,
        "seed": asked.seed,
        "clients": asked.clients,
        "seconds": seconds,
        "longest_seconds": round(longest, 2),
        "answers": dict(sorted(answers.items())),
        "kinds": dict(sorted(kinds.items())),
        "wrong": len(wrong),
        "megabytes_after_a_tenth": early,
        "megabytes_at_the_end": late,
        "lines_logged": len(logged.splitlines()),
        **machine(),
    }
    write(asked.out, found)
    for line in wrong[:20]:
        print(line, file=sys.stderr)
    print(logged[:2000], end="", file=sys.stderr)
    if wrong or logged or longest > HANG or late - early > asked.megabytes:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
