"""Learners, checkpoints, stopped tasks and reviews of strangers: mutated, and changed with a digest that is right."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from attack import samples
from attack.mutations import VALUES, mutated, mutated_table
from attack.registry import Outcome, attack
from attack.sealed import played
from ictrl.errors import InputError
from ictrl.experiment.class_facts import read_facts
from ictrl.experiment.measured import Measured
from ictrl.experiment.review import Manner, _position
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.taught import LearnerPlace
from ictrl.experiment.teaching import known_names
from ictrl.methods.capabilities import Draws
from ictrl.methods.storage import _digest
from ictrl.typed_json import noted

Outcomes = Iterator[Outcome]
JSON = ("recipe", "labels", "notes")
DTYPES = (torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64, torch.float8_e5m2)
PICTURE = torch.zeros(2, 1, samples.SIDE, samples.SIDE, dtype=torch.uint8)


@attack("Learners of eleven methods, mutated byte by byte", cases=8_000, small=22, chunk=1000)
def learners(seed: int, cases: Sequence[int], scratch: Path) -> Outcomes:
    warm(scratch)

    def case_of(case: int) -> Callable[[], object]:
        random = Random(f"learners {seed} {case}")
        content = samples.learner(samples.METHODS[case % len(samples.METHODS)])
        header = 8 + int.from_bytes(content[:8], "little")
        end = random.choice((8, header, header, len(content)))
        path = scratch / "learner.safetensors"
        path.write_bytes(mutated(content[:end], random) + content[end:])
        return lambda: used(path)

    return played(case_of, cases, scratch)


@attack("Learners of eleven methods, changed with a digest that is right", cases=6_000, small=33, chunk=500)
def sealed_learners(seed: int, cases: Sequence[int], scratch: Path) -> Outcomes:
    warm(scratch)

    def case_of(case: int) -> Callable[[], object]:
        random = Random(f"sealed learners {seed} {case}")
        method = samples.METHODS[case % len(samples.METHODS)]
        path = scratch / "learner.safetensors"
        path.write_bytes(changed(samples.learner(method), random, method))
        return lambda: used(path)

    return played(case_of, cases, scratch, batch=100)


@attack("Stopped tasks, changed with a digest that is right", cases=2_000, small=8, chunk=500)
def stopped_tasks(seed: int, cases: Sequence[int], scratch: Path) -> Outcomes:
    methods = ("ictrl", "finetune", "wide", "er")
    for method in methods:
        path = scratch / "warm.safetensors"
        path.write_bytes(changed(samples.stopped(method), Random(0), f"stopped {method}"))
        with suppress(InputError):
            samples.restored(method, path)

    def case_of(case: int) -> Callable[[], object]:
        random = Random(f"stopped tasks {seed} {case}")
        method = methods[case % len(methods)]
        path = scratch / "task.safetensors"
        path.write_bytes(changed(samples.stopped(method), random, f"stopped {method}"))
        return lambda: samples.restored(method, path)

    return played(case_of, cases, scratch, batch=100)


@attack(
    "Checkpoints and reviews in a run folder, changed with a digest that is right",
    cases=3_000,
    small=12,
    chunk=500,
)
def checkpoints(seed: int, cases: Sequence[int], scratch: Path) -> Outcomes:
    names = ("checkpoint/after-task-005.safetensors", "review/learner.safetensors")
    opened(samples.laid(samples.run_folder(), scratch / "warm"))

    def case_of(case: int) -> Callable[[], object]:
        random = Random(f"checkpoints {seed} {case}")
        files = samples.run_folder()
        name = names[case % 2]
        content = changed(files[name], random, name, notes=random.random() < 0.7)
        needed = {key: value for key, value in files.items() if key.startswith(("config", "checkpoint", "review"))}
        run = samples.laid({**needed, name: content}, scratch / "run")
        return (lambda: opened(run)) if case % 2 == 0 else (lambda: _position(RunFolder(run), Manner(epochs=1), "cpu"))

    return played(case_of, cases, scratch, batch=100)


def warm(scratch: Path) -> None:
    """Make and use every learner once, before processes are forked that would all do it again."""
    for method in samples.METHODS:
        path = scratch / "warm.safetensors"
        path.write_bytes(samples.learner(method))
        used(path)
        changed(samples.learner(method), Random(0), method)


def used(path: Path) -> None:
    """Load a learner and do with it what the command line does."""
    position = LearnerPlace(path).open("cpu")
    learner, names = position.learner, known_names(position)
    read_facts(position.notes, names)
    assert len(learner.predict(PICTURE)) == 2
    json.dumps(learner.scores(PICTURE).tolist(), allow_nan=False)
    if isinstance(learner, Draws):
        learner.sample(learner.labels[0], 3)


def opened(run: Path) -> None:
    """The newest learner of a run, and what its notes say."""
    position = RunFolder(run).position("cpu")
    known_names(position)
    read_facts(position.notes, position.learner.labels)
    if position.done:
        Measured.from_notes(noted(position.notes, "measured", dict[str, Any], {}), position.done)
        position.learner.predict(PICTURE)


@cache
def _parts(key: str, content: bytes, folder: str = "/dev/shm") -> tuple[dict[str, str], dict[str, Tensor]]:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        with safe_open(file.name, framework="pt") as read:
            return dict(read.metadata()), {name: read.get_tensor(name) for name in read.keys()}  # noqa: SIM118


def changed(content: bytes, random: Random, key: str, notes: bool = False) -> bytes:
    """The file with a few things changed, and with the digest of what it holds now."""
    metadata, tensors = (dict(part) for part in _parts(key, content))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if notes or random.random() < 0.5:
            _change_metadata(metadata, random, "notes" if notes else random.choice((*JSON, *metadata)))
        else:
            _change_tensor(tensors, random)
    metadata.pop("digest", None)
    metadata["digest"] = _digest(metadata, tensors)
    return save(tensors, metadata)


def _change_metadata(metadata: dict[str, str], random: Random, key: str) -> None:
    if key not in metadata:  # taken away before
        return
    if key == "notes":
        table = json.loads(metadata["notes"])
        name = random.choice(list(table)) if isinstance(table, dict) and table else None
        if name is not None and isinstance(table[name], str) and random.random() < 0.8:
            try:
                table[name] = json.dumps(mutated_table(json.loads(table[name]), random))
            except (ValueError, RecursionError):
                table[name] = str(random.choice(VALUES))
        else:
            table = mutated_table(table, random)
        metadata["notes"] = json.dumps(table)
    elif key in JSON and random.random() < 0.8:
        try:
            metadata[key] = json.dumps(mutated_table(json.loads(metadata[key]), random))
        except (ValueError, RecursionError):
            metadata[key] = ""
    elif random.random() < 0.3:
        metadata.pop(key, None)
    else:
        metadata[key] = random.choice(("", "-1", "9" * 30, "nan", "all", "predict", "[" * 3000, "\0", "x" * 1000, "1"))


def _change_tensor(tensors: dict[str, Tensor], random: Random) -> None:
    if not tensors:
        return
    name = random.choice(list(tensors))
    tensor, kind = tensors[name], random.randrange(9)
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[random.choice((name + "x", "memory.9.mean", "generator", "", name.upper()))] = tensor.clone()
    elif kind == 2:
        tensors[name] = tensor.to(random.choice(DTYPES))
    elif kind == 3:
        tensors[name] = tensor[None]
    elif kind == 4:
        tensors[name] = tensor.flatten()[: tensor.numel() // 2]
    elif kind == 5:
        tensors[name] = torch.zeros(random.choice(((), (0,), (1,), (3, 0, 2), (1,) * 9)), dtype=tensor.dtype)
    elif kind == 6 and tensor.is_floating_point():
        values = torch.tensor(random.choice((float("nan"), float("inf"), -float("inf"), 1e38, -1e38, 1e-40, 0.0)))
        tensors[name] = tensor.clone()
        tensors[name].view(-1)[: random.choice((1, tensor.numel()))] = values.to(tensor.dtype)
    elif kind == 7:
        tensors[name] = torch.cat([tensor.flatten()] * 3)
    else:
        tensors[name] = tensor.clone()
        if tensor.numel():
            raw = tensors[name].view(-1).view(torch.uint8)
            raw[random.randrange(len(raw))] ^= 1 << random.randrange(8)
