"""What is measured while a run goes on, as its checkpoints keep it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from ictrl.errors import InputError
from ictrl.recipes.legacy import sparse_confusion
from ictrl.typed_json import typed


@dataclass
class Measured:
    """Accuracies, row by row of each matrix, and the time that went into them."""

    test_images: list[int]
    memory: list[list[float]] = field(default_factory=list)
    reencoded: list[list[float]] = field(default_factory=list)
    untrained: list[list[float]] = field(default_factory=list)
    frozen: list[list[float]] = field(default_factory=list)
    replay: list[float] = field(default_factory=list)
    confusion: dict[str, list[dict[int, int]]] = field(default_factory=dict)
    """under each protocol after the newest task: of each class, how often it was taken for which"""
    drift_mean: list[list[float]] = field(default_factory=list)
    drift_affinity: list[list[float]] = field(default_factory=list)
    """of each class seen so far, in the order of learning; nothing for tasks that were measured before drift was"""
    calibration: dict[str, Any] | None = None
    seconds: dict[str, float] = field(default_factory=lambda: {"learn": 0.0, "evaluate": 0.0, "floors": 0.0})

    @classmethod
    def from_notes(cls, notes: dict[str, Any], done: int | None = None) -> "Measured":
        """As a checkpoint after so many tasks holds it, of this version or an earlier one."""
        found = {"untrained" if key == "floor" else key: value for key, value in notes.items()}
        if isinstance(spent := found.get("seconds"), dict):
            found["seconds"] = {"floors" if key == "floor" else key: value for key, value in spent.items()}
        try:
            if isinstance(confused := found.get("confusion"), dict):
                found["confusion"] = {name: sparse_confusion(counts) for name, counts in confused.items()}
            measured: Measured = typed(found, cls, "measured")
            measured._check(len(measured.memory) if done is None else done)
        except ValueError as error:
            raise InputError(f"Expected notes of a checkpoint that ictrl wrote but {error}.") from None
        for rows in (measured.drift_mean, measured.drift_affinity):
            rows += [[] for _ in range(len(measured.memory) - len(rows))]
        return measured

    def _check(self, done: int) -> None:
        """Whether there is a row of t accuracies after task t, for as many tasks as the checkpoint has."""
        shape = [t + 1 for t in range(done)]
        if [len(row) for row in self.memory] != shape or len(self.test_images) < done or min(self.test_images) < 1:
            raise ValueError(f"measured.memory: expected {done} rows of 1, 2, … accuracies and as many tasks")
        for name in ("reencoded", "untrained", "frozen"):
            rows: list[list[float]] = getattr(self, name)
            if [len(row) for row in rows] != [t + 1 for t in range(len(rows))]:
                raise ValueError(f"measured.{name}: expected rows of 1, 2, … accuracies")
        if not {"learn", "evaluate", "floors"} <= set(self.seconds):
            raise ValueError("measured.seconds: expected those of learn, evaluate and floors")

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the seconds that this takes to a phase."""
        start = time.perf_counter()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # the device may still be at work
        self.seconds[phase] += time.perf_counter() - start
