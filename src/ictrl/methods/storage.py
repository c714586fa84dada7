"""Learners, and tasks stopped half-way, as safetensors files: numbers and names, nothing that could run when loaded.

A file carries a digest of all it holds. A byte that changed on the disk is found on loading and not in the results.
A run folder stands for the newest good learner in it.
"""

import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor

from ictrl.config import Recipe
from ictrl.errors import InputError, UnreadableError, UserError
from ictrl.files import write_atomically
from ictrl.limits import TEXT_BYTES, open_regular
from ictrl.recipes.legacy import whole_recipe
from ictrl.recipes.tables import recipe_from_table, recipe_to_table
from ictrl.typed_json import WIDEST, parse_json, typed

VERSION = "2"
READABLE = ("1", "2")  # 1 has the settings' names of version 0.1
LEARNER, STOPPED_TASK = "ictrl.learner", "ictrl.stopped-task"
ALL, TO_PREDICT, TO_DRAW = "all", "predict", "predict and draw"  # what a file holds of a learner
CHECKPOINTS = "checkpoint"  # where a run folder has its learners
_AFTER_TASK = re.compile(r"after-task-(\d{3,})\.safetensors", re.ASCII)
DTYPES = {torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool}
DTYPES |= {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
TAUGHT = "taught.safetensors"  # beside them: what a run's learner was taught since


@dataclass(frozen=True)
class Stored:
    """What a file holds: a learner between tasks, or the networks of a task after some of its epochs."""

    recipe: Recipe
    seed: int
    labels: list[int]
    """learned so far, in the order of learning"""
    device: str
    """kind of device that the random state belongs to"""
    tensors: dict[str, Tensor]
    epoch: int = 0
    """epochs of a stopped task"""
    notes: dict[str, str] = field(default_factory=dict)
    """whatever a caller wants to find again"""
    parts: str = ALL
    """of the learner: all of it, or what it needs to predict, or to predict and draw"""


def write_stored(path: Path, kind: str, stored: Stored) -> None:
    tensors = {name: tensor.detach().contiguous().cpu() for name, tensor in stored.tensors.items()}
    metadata = {
        "format": kind,
        "version": VERSION,
        "recipe": json.dumps(recipe_to_table(stored.recipe)),
        "seed": str(stored.seed),
        "labels": json.dumps(stored.labels),
        "device": stored.device,
        "epoch": str(stored.epoch),
        "notes": json.dumps(stored.notes),
        "parts": stored.parts,
    }
    metadata["digest"] = _digest(metadata, tensors)
    write_atomically(path, to_safetensors(tensors, metadata))


def learners_in(folder: Path) -> list[Path]:
    """Learners after a task among the checkpoints of a run, newest first; files of any other name are not ours."""
    return sorted((path for path in files_in(folder) if _AFTER_TASK.fullmatch(path.name)), key=task_of, reverse=True)


def task_of(path: Path) -> int:
    """The number of the task after which a checkpoint was written, counted from 1."""
    found = _AFTER_TASK.fullmatch(path.name)
    assert found, path
    return int(found[1])


def files_in(folder: Path) -> list[Path]:
    """The files of a folder, none of one that is not there; a folder that cannot be read is an error."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [path for name in sorted(names) if (path := folder / name).is_file()]


def read_learner(path: Path) -> Stored:
    """What a file holds, or the newest good one of a run folder, above all what it was taught since its run.

    Damaged files are passed over with a warning; one that cannot be read may be whole, and is not.
    """
    if not path.is_dir():
        return read_stored(path, LEARNER)
    taught = path / TAUGHT
    found = [*([taught] if taught.is_file() else []), *learners_in(path / CHECKPOINTS)]
    if not found:
        raise InputError(
            f"Expected a saved learner or a run folder but {path} is a folder without a learned task: name the file, "
            "or a folder that `ictrl run` made."
        )
    problem = ""
    for file in found:
        try:
            stored = read_stored(file, LEARNER)
        except UnreadableError:
            raise
        except InputError as error:
            problem = problem or str(error)
            continue
        if problem:
            warnings.warn(f"{problem} Going back to {file.name}.", stacklevel=3)
        return stored
    raise InputError(f"Expected a run folder with a good learner but {path} has none. {problem}")


def read_stored(path: Path, kind: str) -> Stored:
    """Read and check what `write_stored` wrote; anything else is refused."""
    what = "a saved learner" if kind == LEARNER else "a stopped task"
    if path.is_dir():
        raise InputError(f"Expected {what} but {path} is a folder.")
    try:
        _check_header(path)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # cloned: a tensor that lies unaligned in the file's buffer can round differently in the last bit
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - no mapping
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnreadableError(f"Expected {what} but could not read {path}: {reason}.") from None
    except (SafetensorError, ValueError, RuntimeError, TypeError, KeyError, AttributeError) as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise InputError(f"Expected {what} but {path} is cut short or of another kind: {reason}.") from None
    if metadata.get("format") != kind:
        raise InputError(f"Expected {what} but {path} is a safetensors file of something else.")
    if metadata.get("version") not in READABLE:
        raise InputError(
            f"Expected {what} in format {VERSION} but {path} is in format {metadata.get('version')}: "
            "load it with the version of ictrl that wrote it."
        )
    if metadata.pop("digest", None) != _digest(metadata, tensors):
        raise InputError(f"Expected {what} but {path} is damaged: its contents are not those that were written.")
    try:
        _check_numbers(tensors)
        return Stored(
            recipe=recipe_from_table(whole_recipe(typed(parse_json(metadata["recipe"]), dict[str, Any]))),
            seed=_number(metadata["seed"]),
            labels=_labels(metadata["labels"]),
            device=metadata["device"],
            tensors=tensors,
            epoch=_number(metadata["epoch"]),
            notes=typed(parse_json(metadata["notes"]), dict[str, str]),
            parts=metadata.get("parts", ALL),
        )
    except (KeyError, TypeError, ValueError, AttributeError, UserError) as error:
        reason = str(error).rstrip(".")
        raise InputError(f"Expected {what} but {path} describes none: {reason}.") from None


def _check_header(path: Path) -> None:
    """Whether this is a regular file, and what is to be read of it before its tensors is within the limits."""
    with open_regular(path) as file:
        if problem := TEXT_BYTES.exceeded(int.from_bytes(file.read(8), "little")):
            raise ValueError(f"a header of {problem}")


def _check_numbers(tensors: Mapping[str, Tensor]) -> None:
    """Whether all are of types that learners have, and finite."""
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES:
            raise ValueError(f"{name[:80]} has numbers of type {str(tensor.dtype).removeprefix('torch.')}")
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ValueError(f"{name[:80]} has numbers that are not finite")


def _number(text: str) -> int:
    """A whole number of at most 64 bits, at least 0."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < WIDEST):
        raise ValueError(f"expected a whole number but got {text[:30]!r}")
    return int(text)


def _labels(text: str) -> list[int]:
    labels: list[int] = typed(parse_json(text), list[int], "labels")
    if len(set(labels)) < len(labels):
        raise ValueError("labels: expected each once")
    return labels


@contextmanager
def fitting(path: str | Path, advice: str = "") -> Iterator[None]:
    """Turns whatever goes wrong while contents are put into place into one line, with advice if there is any."""
    try:
        yield
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(line.strip() for line in str(error).splitlines()[:2]).rstrip(".")  # torch's is in the second
        line = f"Expected a saved learner but the contents of {path} do not fit: {reason}."
        raise InputError(f"{line} {advice}".rstrip()) from None


def _digest(metadata: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    sha = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return sha.hexdigest()
