"""Reading a run folder for its report: everything there is, and for what there is not, the reason."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxtyping import UInt8
from torch import Tensor

from ictrl.config import Recipe
from ictrl.errors import InputError
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.sheets import read_sheet
from ictrl.methods.ictrl import ICTRL

Sheet = dict[int, UInt8[Tensor, "_ shown side side"]]


@dataclass(frozen=True)
class RunRecord:
    """A run as its folder tells it."""

    path: Path
    name: str
    recipe: Recipe
    results: dict[str, Any]
    learner: ICTRL | None
    """the newest; None if no checkpoint can be read"""
    originals: Sheet
    reconstructed: dict[int, Sheet]
    """by task, counted from 1"""
    review: dict[str, Any] | None
    notes: list[str] = field(default_factory=list)
    """what the page has to say about missing or odd files"""

    @property
    def done(self) -> int:
        """Tasks measured."""
        return len(self.results["memory"]["seen"])

    @property
    def tasks(self) -> list[list[int]]:
        """Those measured."""
        tasks: list[list[int]] = self.results["tasks"][: self.done]
        return tasks

    @property
    def classes(self) -> list[int]:
        """Labels in the order of learning."""
        return [label for task in self.tasks for label in task]

    def class_name(self, label: int) -> str:
        """Names come from folder names: what cannot be printed is replaced."""
        name = self.results["class_names"].get(str(label), str(label))
        return "".join(letter if letter.isprintable() else "\ufffd" for letter in name)

    def class_names(self, labels: Sequence[int]) -> list[str]:
        return [self.class_name(label) for label in labels]


def read_runs(paths: Sequence[Path]) -> list[RunRecord]:
    """The runs, each under the name of its folder or, where two folders have the same, its path."""
    if not paths:
        raise InputError("Expected at least one run but got none: name the folders of runs.")
    places = [path.resolve() for path in paths]
    for i, place in enumerate(places):
        if place in places[:i]:
            raise InputError(f"Expected each run once but {paths[i]} is named twice: leave one out.")
    names = [place.name for place in places]
    return [read_run(path, name if names.count(name) == 1 else str(path)) for path, name in zip(paths, names)]


def read_run(path: Path, name: str) -> RunRecord:
    folder = RunFolder.existing(path)
    recipe, position = folder.recipe(), folder.position("cpu")
    if not folder.results.exists():
        if not position.done:
            folder.learned("cpu")  # says what to do
        raise InputError(f"Expected results.json in {path} but there is none: `ictrl resume {path}` writes it.")
    results = _read_json(folder.results)
    done = len(results["memory"]["seen"])
    notes = [*position.warnings]
    if position.done and position.done != done:
        notes.append(
            f"Accuracies are those after task {done}; structure and replayed pictures are those of the newest learner "
            f"that can be read, after task {position.done}."
        )
    originals, reconstructed = {}, {}
    try:
        originals = read_sheet(folder.sheets.originals) if folder.sheets.originals.exists() else {}
        for number in range(1, done + 1):
            if folder.sheets.after_task(number).exists():
                reconstructed[number] = read_sheet(folder.sheets.after_task(number))
    except InputError as error:
        notes.append(str(error))
    review = path / "review.json"
    return RunRecord(
        path,
        name,
        recipe,
        results,
        position.learner if position.done else None,
        originals,
        reconstructed,
        _read_json(review) if review.exists() else None,
        notes,
    )


def _read_json(path: Path) -> dict[str, Any]:
    expected = {"results.json": "memory", "review.json": "cycles"}[path.name]
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        content[expected]
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__} {error}".splitlines()[0]
        raise InputError(f"Expected what ictrl wrote in {path} but could not read it: {reason}.") from None
    return dict(content)
