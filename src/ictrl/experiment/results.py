"""What a run measured: one typed record, written as `results.json` and read by command line, report, studies and docs.

Accuracies under two protocols, which are never mixed:

- **memory**: the learner as its user has it; all that is classified by comes from what it kept;
- **reencoded**: the paper's protocol; the same is refitted from the training images of every class seen so far, old
  ones included, under the current encoder. It needs the data that the method says it does not keep.

Beside them stand two floors, reencoded: the networks *untrained*, and *frozen* as they were after the first task. What
lies below the one was not learned; what lies below the other would have been better left alone after the first task.
A method without class moments has neither the second protocol nor the floors: they are None.
"""

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from ictrl.config import Recipe
from ictrl.errors import UserError
from ictrl.recipes.legacy import results_table
from ictrl.recipes.tables import recipe_from_table, recipe_to_table
from ictrl.theory.metrics import Scores
from ictrl.typed_json import parse_json, read_json, refuse, typed

PROTOCOLS = ("memory", "reencoded")
FLOORS = ("untrained", "frozen")


@dataclass(frozen=True)
class Drift:
    """How far what is stored of each class lies from its images, a row per task and a column per class.

    None where a class was still to come, or was not measured."""

    classes: list[int]
    """in the order of learning"""
    mean: list[list[float | None]]
    """distance between the stored mean and that of the images"""
    affinity: list[list[float | None]]
    """of the stored subspace and that of the images: 1 if it has not moved"""


@dataclass(frozen=True)
class CalibrationScores:
    """How true the probabilities of all classes are, after the last task, under the memory protocol."""

    ece: float
    """expected calibration error"""
    temperature: float
    """what scores were divided by"""
    reliability: list[list[float]]
    """images, mean confidence and accuracy of each bin of confidence"""


@dataclass(frozen=True)
class Results:
    """Everything that a run measured, and under which conditions."""

    complete: bool
    """whether every task is learned"""
    memory: Scores
    reencoded: Scores | None
    untrained: Scores | None
    frozen: Scores | None
    drift: Drift | None
    """None where it was not measured, or the method keeps no class moments"""
    replay: list[float] | None
    """after each task, the share of features drawn from memory that are recognised after the loop; None where the
    method draws nothing"""
    tasks: list[list[int]]
    """labels of each task, those still to come included"""
    class_names: dict[int, str]
    test_images: list[int]
    """of each task"""
    kept_bytes: int
    """everything that is kept besides the networks' weights, images included"""
    image_bytes: int
    """of the training images seen so far"""
    parameters: int
    """numbers in the networks"""
    seconds: dict[str, float]
    """by phase"""
    seed: int
    device: str
    versions: dict[str, str]
    recipe: Recipe
    measured_on: str = "test images"
    line: str | None = None
    """of the study that published it"""
    calibration: CalibrationScores | None = None
    """None before the last task, or where the method gives no probabilities"""

    @property
    def done(self) -> int:
        """Tasks learned and measured."""
        return len(self.memory.seen)

    @property
    def scores(self) -> dict[str, Scores]:
        """Protocols and floors that were measured, by name."""
        found = {name: getattr(self, name) for name in (*PROTOCOLS, *FLOORS)}
        return {name: scores for name, scores in found.items() if scores is not None}

    @property
    def protocols(self) -> dict[str, Scores]:
        """Protocols that were measured, by name."""
        return {name: scores for name, scores in self.scores.items() if name in PROTOCOLS}

    def anywhere(self) -> "Results":
        """Without the place where the data lay: to be published."""
        stream = replace(self.recipe.stream, root=None)
        return replace(self, recipe=replace(self.recipe, stream=stream))

    def to_table(self) -> dict[str, Any]:
        """As JSON has it: numbers, texts, lists and tables."""
        table = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in (*PROTOCOLS, *FLOORS, "drift", "calibration"):
            table[name] = None if table[name] is None else dict(vars(table[name]))
            if table[name] is not None and table[name].get("confusion") is not None:
                counts = table[name]["confusion"]
                table[name]["confusion"] = [{str(place): count for place, count in row.items()} for row in counts]
        table["class_names"] = {str(label): name for label, name in self.class_names.items()}
        table["recipe"] = recipe_to_table(self.recipe)
        return table

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> "Results":
        """The inverse; tables of older versions are read too. What is no such table raises KeyError, TypeError,
        ValueError or ConfigError."""
        table = {**dict.fromkeys((*PROTOCOLS, *FLOORS, "drift", "replay")), **results_table(table)}
        recipe = recipe_from_table(typed(table.pop("recipe"), dict[str, Any], "recipe"))
        hints = get_type_hints(cls)
        if unknown := sorted(table.keys() - hints.keys()):
            raise ValueError(f"{unknown[0][:60]}: expected no such entry")
        found = cls(**{name: typed(value, hints[name], name) for name, value in table.items()}, recipe=recipe)
        found._check()
        return found

    def _check(self) -> None:
        """Whether the parts belong together; ValueError says which do not."""
        labels, done = [label for task in self.tasks for label in task], self.done
        if not all(self.tasks) or len(set(labels)) < len(labels):
            raise ValueError("tasks: expected each class once")
        if not 1 <= done <= len(self.tasks) or len(self.test_images) != len(self.tasks) or min(self.test_images) < 0:
            raise ValueError("memory.seen: expected an entry per task that was learned, and test_images per task")
        for name, scores in self.scores.items():
            rows = [[value is not None for value in row] for row in scores.matrix]
            n = len(rows)
            if rows != [[column <= row for column in range(n)] for row in range(n)] or len(scores.seen) != n:
                raise ValueError(f"{name}.matrix: expected accuracies of the tasks learned by then, and no others")
            if not n or (name in PROTOCOLS and n != done):
                raise ValueError(f"{name}.matrix: expected a row per task that was learned")
            every = [
                *scores.seen,
                scores.last,
                scores.average,
                *(v for row in scores.matrix for v in row if v is not None),
            ]
            if not all(0 <= value <= 1 for value in every) or not -1 <= scores.forgetting <= 1:
                raise ValueError(f"{name}: expected shares from 0 to 1")
            k = sum(map(len, self.tasks[:done]))
            if scores.confusion is not None and len(scores.confusion) != k:
                raise ValueError(f"{name}.confusion: expected a row per class that was learned")
            if any(not 0 <= place < k or count < 0 for row in scores.confusion or () for place, count in row.items()):
                raise ValueError(f"{name}.confusion: expected counts of classes that have a row")
        if "learn" not in self.seconds or min(self.kept_bytes, self.image_bytes, self.parameters, self.seed) < 0:
            raise ValueError("seconds, kept_bytes, image_bytes, parameters, seed: expected numbers of at least 0")
        if self.drift is not None:
            columns = {len(row) for row in [*self.drift.mean, *self.drift.affinity]}
            if columns - {len(self.drift.classes)} or len(self.drift.mean) != len(self.drift.affinity):
                raise ValueError("drift: expected a column per class")
        if self.calibration is not None and any(len(row) != 3 for row in self.calibration.reliability):
            raise ValueError("calibration.reliability: expected three numbers per bin")

    def to_json(self) -> str:
        """With every row of a matrix on a line of its own."""
        return to_lines(self.to_table()) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Results":
        return cls.from_table(parse_json(text))

    @classmethod
    def read(cls, path: Path) -> "Results":
        """From a file; what is none of ours is refused in a line."""
        try:
            return cls.from_table(typed(read_json(path), dict[str, Any]))
        except (KeyError, TypeError, AttributeError) as error:
            refuse(path, f"{type(error).__name__} {error}".splitlines()[0])
        except (ValueError, UserError) as error:
            if str(path) in str(error):
                raise
            refuse(path, str(error).rstrip("."))


def to_lines(value: Any, indent: int = 0) -> str:
    """JSON with a line per entry; lists of plain numbers and texts, and tables of numbers in a list, on one line.

    >>> print(to_lines({"matrix": [[1, None], [0.5, 1]], "confusion": [{0: 4, 1: 2}, {1: 5}]}))
    {
      "matrix": [
        [1, null],
        [0.5, 1]
      ],
      "confusion": [
        {"0": 4, "1": 2},
        {"1": 5}
      ]
    }
    """
    inner, outer = " " * (indent + 2), " " * indent
    if isinstance(value, dict) and value:
        items = (f"{inner}{json.dumps(str(key))}: {to_lines(item, indent + 2)}" for key, item in value.items())
        return "{\n" + ",\n".join(items) + f"\n{outer}}}"
    if isinstance(value, list) and any(isinstance(item, list | dict) for item in value):
        return "[\n" + ",\n".join(inner + _in_list(item, indent + 2) for item in value) + f"\n{outer}]"
    return json.dumps(value)


def _in_list(value: Any, indent: int) -> str:
    counts = isinstance(value, dict) and all(type(item) is int for item in value.values())
    return json.dumps(value) if counts else to_lines(value, indent)
