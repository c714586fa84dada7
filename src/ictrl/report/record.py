"""A run as its report needs it: everything its folder has, and for what it has not, the reason."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from torch import Tensor

from ictrl.config import Recipe
from ictrl.errors import InputError
from ictrl.experiment.results import Results
from ictrl.experiment.review_record import read_review
from ictrl.experiment.run_data import IN_MEMORY
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.sheets import read_sheet
from ictrl.memory.store import Memory
from ictrl.methods.base import LEARNERS, Learner
from ictrl.methods.capabilities import Draws, KeepsMoments
from ictrl.report.words import printable
from ictrl.shapes import UInt8

Sheet = dict[int, UInt8[Tensor, "_ shown side side"]]


@dataclass(frozen=True)
class RunRecord:
    """What figures are drawn from: the results of a run, its newest learner, and the pictures put aside."""

    path: Path
    name: str
    """what the page calls the run"""
    recipe: Recipe
    results: Results
    learner: Learner[Any] | None
    """the newest; None if no checkpoint can be read"""
    originals: Sheet
    """a few test images of each class"""
    reconstructed: dict[int, Sheet]
    """the same after each task, counted from 1, as the learner drew them then"""
    review: dict[str, Any] | None
    """what review.json holds; None where nothing was reviewed"""
    notes: list[str] = field(default_factory=list)
    """what the page has to say about missing or odd files"""

    @property
    def method(self) -> str:
        """The method's name."""
        return self.recipe.method.name

    @property
    def keeps_images(self) -> bool:
        """Whether the method keeps training images."""
        return LEARNERS[self.method].keeps_images

    @property
    def keeps_every_image(self) -> bool:
        """Whether it keeps all of them, as no answer to the problem does."""
        return self.keeps_images and self.results.kept_bytes >= self.results.image_bytes

    @property
    def keeps_moments(self) -> bool:
        """Whether the method keeps class moments, be there a learner that can be read or not."""
        return issubclass(LEARNERS[self.method], KeepsMoments)

    @property
    def draws(self) -> bool:
        """Whether the method draws images, be there a learner that can be read or not."""
        return issubclass(LEARNERS[self.method], Draws)

    @property
    def in_memory(self) -> bool:
        """Whether its tasks were given in Python: no command can repeat it."""
        return self.recipe.stream.dataset == IN_MEMORY

    @property
    def memory(self) -> Memory | None:
        """The stored moments of every class; None if the method keeps none, or no learner can be read."""
        return self.learner.class_memory() if isinstance(self.learner, KeepsMoments) else None

    @cached_property
    def table(self) -> dict[str, Any]:
        """The results under the names that results.json has."""
        return self.results.to_table()

    @property
    def done(self) -> int:
        """Tasks learned and measured."""
        return self.results.done

    @property
    def tasks(self) -> list[list[int]]:
        """Labels of each task that was measured."""
        return self.results.tasks[: self.done]

    @property
    def classes(self) -> list[int]:
        """Labels measured so far, in the order of learning."""
        return [label for task in self.tasks for label in task]

    @property
    def classes_learned(self) -> list[int]:
        """How many classes were learned after each task."""
        return list(accumulate(len(task) for task in self.tasks))

    def class_name(self, label: int) -> str:
        """What a class is called."""
        return printable(self.results.class_names.get(label, str(label)))

    def class_names(self, labels: Sequence[int]) -> list[str]:
        """What classes are called."""
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
    """One run, under a name."""
    folder = RunFolder.existing(path)
    recipe, position = folder.recipe(), folder.position("cpu")
    if not folder.results.exists():
        if not position.done:
            folder.learned("cpu")  # says what to do
        raise InputError(f"Expected results.json in {path} but there is none: `ictrl resume {path}` writes it.")
    results = Results.read(folder.results)
    notes = [*position.warnings]
    if position.done and position.done != results.done:
        notes.append(
            f"Accuracies are those after task {results.done}; structure and replayed pictures are those of the newest "
            f"learner that can be read, after task {position.done}."
        )
    originals, reconstructed = {}, {}
    try:
        originals = read_sheet(folder.sheets.originals) if folder.sheets.originals.exists() else {}
        for number in range(1, results.done + 1):
            if folder.sheets.after_task(number).exists():
                reconstructed[number] = read_sheet(folder.sheets.after_task(number))
    except InputError as error:
        notes.append(str(error))
    return RunRecord(
        path,
        printable(name),
        recipe,
        results,
        position.learner if position.done else None,
        originals,
        reconstructed,
        _read_review(path / "review.json"),
        notes,
    )


def _read_review(path: Path) -> dict[str, Any] | None:
    """Cycles of review, if there were any; of an older version too, in which distillation was called anchors."""
    return read_review(path) if path.exists() else None
