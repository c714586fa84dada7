"""Predictions a second, latencies and memory of a served learner, alone and while it teaches; each answer is checked.

    python experiments/serve_load.py --out docs/results/serve/load.json
    python experiments/serve_load.py --seconds 2 --requests 2000 --clients 1 8      a quick look

1, 8 and 64 clients send one picture of a digit after the other, for some seconds each: while nothing else happens, and
while the learner is taught a class, forgets it, and is taught it again. Afterwards every answer is compared with what
the learner of the version that it names predicts itself: the same class, and distances within 1e-3. Then 100,000
requests, and the server's memory all along. Clients share the machine with the server.
"""

import argparse
import asyncio
import io
import json
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent))

from hostile import FORM, form, request
from serving import Server, learned, machine, served, write

from ictrl import load_learner

NEW = 9  # the class that is taught meanwhile
TOLERANCE = 1e-3
Answer = tuple[int, dict[str, Any]]
"""number of the picture, and what came back"""


@dataclass
class Measured:
    """What some clients saw."""

    latencies: list[float] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    refused: int = 0

    def said(self, seconds: float) -> dict[str, Any]:
        ordered = np.array(sorted(self.latencies))
        p50, p99 = np.quantile(ordered, (0.5, 0.99))
        rate = round(len(ordered) / seconds, 1)
        milliseconds = {"p50_ms": round(1000 * p50, 2), "p99_ms": round(1000 * p99, 2)}
        return {"predictions": len(ordered), "per_second": rate, **milliseconds, "refused": self.refused}


def png(image: Tensor) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image[0].numpy()).save(buffer, format="PNG")
    return buffer.getvalue()


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes) -> tuple[int, bytes]:
    """One request and its answer on a connection that stays open."""
    writer.write(sent)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return int(head[9:12]), await reader.readexactly(length)


async def client(server: Server, bodies: list[bytes], chance: random.Random, found: Measured, more: Any) -> None:
    """Sends picture after picture as long as `more` says so."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    while more():
        number = chance.randrange(len(bodies))
        begun = time.perf_counter()
        status, body = await exchange(reader, writer, bodies[number])
        found.latencies.append(time.perf_counter() - begun)
        if status == 200:
            found.answers.append((number, json.loads(body)))
        else:
            found.refused += 1
    writer.close()


async def teaching(server: Server, lesson: bytes, more: Any) -> int:
    """Teach a class and forget it, again and again; how often it was taught."""
    taught = 0
    while more():
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(lesson)
        told = b""
        while b"event: done" not in told:
            if not (part := await reader.read(65536)) or b"event: error" in told:
                raise SystemExit(f"teaching failed: {told[-500:]!r}")
            told += part
        writer.close()
        taught += 1
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        status, body = await exchange(reader, writer, request(b"DELETE", b"/classes/%d" % NEW, kind=None))
        assert status == 200, body
        writer.close()
    return taught


async def phase(
    server: Server, bodies: list[bytes], clients: int, seconds: float, lesson: bytes | None
) -> tuple[Any, Any]:
    """So many clients for so many seconds; meanwhile, perhaps, lessons."""
    found, until = Measured(), time.monotonic() + seconds

    def more() -> bool:
        return time.monotonic() < until

    lessons = asyncio.create_task(teaching(server, lesson, more)) if lesson is not None else None
    begun = time.monotonic()
    await asyncio.gather(*[client(server, bodies, random.Random(i), found, more) for i in range(clients)])
    took = time.monotonic() - begun
    taught = await lessons if lessons is not None else 0
    said = {"clients": clients, "taught": taught, **found.said(took)}
    print(json.dumps(said), flush=True)
    return said, found


async def long(server: Server, bodies: list[bytes], requests: int, clients: int) -> dict[str, Any]:
    """Very many requests, and the memory of the server."""
    found, left, memory = Measured(), requests, [server.megabytes]

    def more() -> bool:
        nonlocal left
        left -= 1
        if left % max(1, requests // 20) == 0:
            memory.append(server.megabytes)
            found.answers.clear()
        return left >= 0

    await asyncio.gather(*[client(server, bodies, random.Random(i), found, more) for i in range(clients)])
    tenth = memory[2] if len(memory) > 2 else memory[0]
    return {"requests": requests, "clients": clients, "refused": found.refused, "megabytes": memory,
            "growth_after_a_tenth": round(memory[-1] - tenth, 1)}  # fmt: skip


def check(answers: list[Answer], versions: Path, images: Tensor) -> tuple[int, list[int]]:
    """How many answers are not those of the learner of the version that they name; and these versions."""
    wrong, known = 0, dict[int, tuple[list[int], Tensor]]()
    for number, answer in answers:
        version, prediction = answer["version"], answer["predictions"][0]
        if version not in known:
            learner = load_learner(versions / f"version-{version:06d}.safetensors", "cpu")
            known[version] = sorted(learner.labels), -learner.scores(images)
        labels, distances = known[version]
        said = {one["label"]: one["distance"] for one in prediction["classes"]}
        own = distances[number]
        same = sorted(said) == labels and prediction["label"] in labels
        near = same and all(abs(said[label] - float(own[i])) < TOLERANCE for i, label in enumerate(labels))
        wrong += not (near and float(own[labels.index(prediction["label"])] - own.min()) < TOLERANCE)
    return wrong, sorted(known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", default="wide-ictrl-digits")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each phase")
    parser.add_argument("--requests", type=int, default=100_000, help="to watch memory over")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch in the server")
    parser.add_argument("--epochs", type=int, default=None, help="of learning, to try this script with")
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        learner, data = learned(asked.recipe, Path(name), NEW, asked.epochs)
        known = (data.labels < NEW).nonzero()[:, 0][:500]
        images = data.images[known]
        bodies = [request(body=png(image)) for image in images]
        parts = [(b"%d" % NEW, png(image)) for image in data.images[data.labels == NEW]]
        lesson = request(target=b"/teach", body=form(*parts), kind=FORM)
        rows, answers = [], list[Answer]()
        with served(learner, "--versions", "100000", threads=asked.threads) as server:
            asyncio.run(phase(server, bodies, 4, min(2.0, asked.seconds), None))  # to warm up
            for meanwhile in (None, lesson):
                for clients in asked.clients:
                    said, found = asyncio.run(phase(server, bodies, clients, asked.seconds, meanwhile))
                    rows.append(said)
                    answers += found.answers
            memory = asyncio.run(long(server, bodies, asked.requests, 8))
        wrong, versions = check(answers, learner.with_suffix(".versions"), images)
    found = {
        "recipe": asked.recipe,
        "seconds_per_phase": asked.seconds,
        "threads": asked.threads,
        "phases": rows,
        "answers_checked": len(answers),
        "answers_wrong": wrong,
        "versions_that_answered": len(versions),
        "memory": memory,
        **machine(),
    }
    write(asked.out, found)
    if wrong or any(row["refused"] for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
