"""A run as its report needs it: everything its folder has, and for what it has not, the reason."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any

from torch import Tensor

from ictrl.config import Recipe
from ictrl.errors import InputError
from ictrl.experiment.class_facts import Facts, read_facts
from ictrl.experiment.findings import of_left_out, of_review, remarks, verdict, what_is_recognised
from ictrl.experiment.results import Results
from ictrl.experiment.review_record import read_review
from ictrl.experiment.run_data import IN_MEMORY
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.sheets import read_sheet
from ictrl.memory.store import Memory
from ictrl.methods.base import LEARNERS, Learner
from ictrl.methods.capabilities import Draws, KeepsMoments
from ictrl.methods.storage import TAUGHT
from ictrl.report.epochs import read_epochs
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
    metrics: list[dict[str, Any]] | None = None
    """what each epoch came to, a line of metrics.jsonl each; None if there is no such file"""
    data: dict[str, Any] = field(default_factory=dict)
    """what was noted of the data and the date; of older runs less, or nothing"""
    facts: Facts = field(default_factory=dict)
    """what is known about each class, where it was noted beside a learner that can be read"""

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
    def recognised(self) -> str:
        """What the share of replay that is recognised is of."""
        return what_is_recognised(self.results)

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
    def verdict(self) -> str:
        """Whether learning paid, with places of results.json in braces."""
        return verdict(self.results)

    @property
    def warnings(self) -> list[str]:
        """What to beware of: as the console says it, and what is odd about files."""
        files = self.data.get("files_left_out")
        left_out = of_left_out(files if type(files) is int else 0)
        reviewed = self.review["cycles"] if self.review else []
        fallen = of_review(reviewed[0]["memory"], reviewed[-1]["memory"]) if reviewed else None
        return [
            *remarks(self.results),
            *([f"{left_out}: `ictrl run` and `ictrl evaluate` name them."] if left_out else []),
            *([fallen] if fallen else []),
            *(note.replace(f"{self.path}/", "") for note in self.notes),  # the page names no place
        ]

    @property
    def begun(self) -> str | None:
        """When the run began, for people; None if it was not noted, or not as it should be."""
        try:
            return f"{datetime.fromisoformat(self.data['begun']):%Y-%m-%d, %H:%M} UTC"
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def data_set(self) -> str:
        """What the data set is called: by its kind, where it is somebody's own."""
        stream = self.recipe.stream
        named = {"folder": "a folder of pictures", "npz": "arrays in an .npz file", IN_MEMORY: "arrays given in Python"}
        if stream.dataset == "hub" and stream.hub_name:
            return f"{stream.hub_name} from the Hugging Face Hub"
        return named.get(stream.dataset, stream.dataset)

    @property
    def training_images(self) -> int:
        """Training images of the tasks learned so far, as many as their bytes say."""
        network, noted = self.recipe.method.network, self.data.get("image_shape")
        shape = noted if isinstance(noted, list) else [network.channels, network.image_size, network.image_size]
        return self.results.image_bytes // max(1, prod(side for side in shape if type(side) is int))

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
    if (path / TAUGHT).exists():
        notes.append(f"Since the run its learner was taught or forgot classes ({TAUGHT}): this is the run as it ended.")
    if position.done and position.done != results.done:
        notes.append(
            f"Accuracies are those after task {results.done}; structure and replayed pictures are those of the newest "
            f"learner that can be read, after task {position.done}."
        )
    metrics, unread = read_epochs(folder.metrics)
    if unread:
        notes.append(f"{unread} of the lines of metrics.jsonl could not be read and are not in the training curves.")
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
        metrics,
        folder.noted_data(),
        read_facts(position.notes, position.learner.labels) if position.done else {},
    )


def _read_review(path: Path) -> dict[str, Any] | None:
    """Cycles of review, if there were any; of an older version too, in which distillation was called anchors."""
    return read_review(path) if path.exists() else None
