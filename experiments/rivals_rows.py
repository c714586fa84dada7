"""The rows of docs/rivals.md: every method on every stream, with its published runs."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ictrl import Results
from ictrl.experiment.study import Line, load_study
from ictrl.experiment.study_table import read_published

STUDIES = ("best", "table1", "cifar100", "rivals")
STREAMS = {
    "cifar10-5": "CIFAR-10, 5 tasks",
    "cifar10-10": "CIFAR-10, 10 tasks",
    "mnist-5": "MNIST, 5 tasks",
    "mnist-10": "MNIST, 10 tasks",
    "cifar100-10": "CIFAR-100, 10 tasks",
}
DRAWN = "cifar10-5"
OURS = (
    "{title}, wide",
    "{title}, wide, large",
    "{stream}, small",
    "{title}, for memory",
    "{title}, the paper's recipe",
)
GROUPS = {
    "no old image": ("slda", "fecam", "analytic", "adagauss", "lwf", "ewc", "si", "finetune"),
    "some images": ("er", "derpp", "agem", "cls_er", "icarl", "eeil", "gdumb", "rainbow"),
    "every image": ("joint",),
}
BUFFERS = (200, 500, 2000)

Found = Mapping[str, list[Results]]


@dataclass(frozen=True)
class Row:
    """One method on one stream, with its runs."""

    group: str
    line: Line
    runs: list[Results]

    @property
    def method(self) -> str:
        return self.line.recipe.method.name

    @property
    def ours(self) -> bool:
        return self.method in ("wide", "ictrl")

    @property
    def images(self) -> int | None:
        """How many the buffer holds; None of methods without one."""
        buffer = getattr(self.line.recipe.method, "buffer", None)
        return None if buffer is None else buffer.images

    def mean(self, value: str) -> float:
        return float(statistics.mean(getattr(results, value) for results in self.runs))


def labels(stream: str) -> dict[str, str]:
    """The lines that a stream's table may have, each with its group, in order."""
    found = {label.format(title=STREAMS[stream], stream=stream): "no old image" for label in OURS}
    for group, methods in GROUPS.items():
        buffers = [f", {images} images" for images in BUFFERS] if group == "some images" else [""]
        found |= {f"{stream}, {method}{buffer}": group for method in methods for buffer in buffers}
    return found


def read(results: Path) -> dict[str, list[Results]]:
    """The published runs of all studies that the tables are made of."""
    return {label: runs for name in STUDIES for label, runs in read_published(results / name).items()}


def rows_of(stream: str, found: Found) -> tuple[list[Row], list[str]]:
    """The rows that have results, and the labels of lines that have none."""
    lines = {line.label: line for name in STUDIES for line in load_study(name).lines}
    known = {label: group for label, group in labels(stream).items() if label in lines}
    rows = [Row(group, lines[label], found[label]) for label, group in known.items() if label in found]
    return rows, [label for label in known if label not in found]
