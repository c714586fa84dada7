"""A stream of tasks through a learner, measured after every task, in a folder that can be stopped and resumed.

After every task the learner is measured under two protocols, which are never mixed:

- **memory**: the learner as its user has it; subspaces come from the moments it kept;
- **reencoded**: the paper's protocol; subspaces are refitted from the training images of every class seen so far,
  old ones included, under the current encoder. It needs the data that the method says it does not keep.

Beside them stand two floors, reencoded: the same networks untrained, and as they were after the first task. What lies
below the one was not learned; what lies below the other would have been better left alone after the first task.
"""

import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import ictrl
from ictrl.classifier import Classifier, Moments, classifier_of
from ictrl.config import CheckpointConfig, Recipe
from ictrl.data import Dataset, Task, load_dataset, split_tasks
from ictrl.drift import measure_drift
from ictrl.errors import InputError
from ictrl.files import write_atomically
from ictrl.game import EpochReport
from ictrl.learner import ICTRL
from ictrl.metrics import confusion, summarise
from ictrl.recipefiles import recipe_to_table
from ictrl.runs import Position, RunFolder
from ictrl.stopwatch import Stopwatch
from ictrl.storage import LEARNER, read_stored

REPLAYED = 20  # features drawn from each direction to see whether memory survives the loop
REPLAY_WELL = 0.8  # share of them that should be recognised
PROTOCOLS = ("memory", "reencoded")


class Listener:
    """What someone watching a run is told. Each method does nothing until it is overridden."""

    def on_begin(self, position: Position, dataset: Dataset, tasks: list[Task]) -> None:
        """The run begins, or goes on from a position."""

    def on_task(self, index: int, total: int, task: Task) -> None:
        """A task, counted from 0, is about to be learned."""

    def on_epoch(self, index: int, report: EpochReport) -> None:
        """An epoch of that task has passed."""

    def on_measured(self, results: dict[str, Any]) -> None:
        """A task was learned and measured: what `results.json` holds now."""


class Stopped(KeyboardInterrupt):
    """A run stopped on request; everything needed to go on is in its folder."""


@dataclass
class Measured:
    """Accuracies, row by row of each matrix, and the time that went into them."""

    test_images: list[int]
    floor: list[list[float]] = field(default_factory=list)
    frozen: list[list[float]] = field(default_factory=list)
    memory: list[list[float]] = field(default_factory=list)
    reencoded: list[list[float]] = field(default_factory=list)
    replay: list[float] = field(default_factory=list)
    confusion: dict[str, list[list[int]]] = field(default_factory=dict)
    """under each protocol after the newest task; rows: true class, columns: predicted"""
    drift_mean: list[list[float]] = field(default_factory=list)
    drift_affinity: list[list[float]] = field(default_factory=list)
    """of each class seen so far, in the order of learning; nothing for tasks that were measured before drift was"""
    seconds: dict[str, float] = field(default_factory=lambda: {"learn": 0.0, "evaluate": 0.0, "floor": 0.0})

    def __post_init__(self) -> None:
        for rows in (self.drift_mean, self.drift_affinity):
            rows += [[] for _ in range(len(self.memory) - len(rows))]

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # the device may still be at work
        self.seconds[phase] += time.perf_counter() - start


def run(
    recipe: Recipe,
    out: Path,
    listener: Listener | None = None,
    stop: Callable[[], bool] = lambda: False,
    profile: bool = False,
    first_task: Path | None = None,
) -> tuple[dict[str, Any], ICTRL]:
    """Learn the recipe's stream in a new run folder; returns what `results.json` holds, and the learner.

    Where `stop` gives True after an epoch, the run is written down and `Stopped` raised. With `profile`, the folder
    also gets `profile.json`: where the time of each task went. `first_task` is the checkpoint that another run wrote
    after its first task; where `begin_alike` holds for the two recipes, going on from there changes nothing.
    """
    if recipe.data.root is not None:  # so that the run can be resumed from anywhere
        recipe = replace(recipe, data=replace(recipe.data, root=str(Path(recipe.data.root).resolve())))
    dataset, tasks = _stream(recipe)  # a mistake in the data shows before a folder is made
    position = Position(ICTRL(recipe), done=0)
    if first_task is not None:
        stored = read_stored(first_task, LEARNER)
        if not begin_alike(stored.recipe, recipe) or len(stored.labels) != len(tasks[0].classes):
            raise InputError(f"Expected the first task of a run that begins alike but {first_task} begins differently.")
        position = Position(ICTRL.load(first_task, recipe.device, recipe), 1, stored.notes)
    with RunFolder.create(out, recipe) as folder:
        if first_task is not None:
            folder.save_learner(position.learner, position.done, position.notes)
            if (metrics := first_task.with_name("metrics.jsonl")).exists():
                write_atomically(folder.metrics, metrics.read_bytes())
        return _go_on(folder, recipe, position, dataset, tasks, listener or Listener(), stop, profile)


# what a first task does not depend on
LATER = {
    "name", "description", "checkpoint", "anchors", "objective.lambda_new", "objective.gamma_old", "memory.samples",
    "memory.transport", "memory.transport_ridge", "game.epochs", "game.batch", "game.replay", "game.resample",
    "data.root",
}  # fmt: skip


def begin_alike(one: Recipe, other: Recipe) -> bool:
    """Whether two runs do the same until the end of their first task."""
    return beginning(one) == beginning(other)


def beginning(recipe: Recipe) -> str:
    """A text that is the same for all recipes whose runs do the same until the end of their first task."""
    flat = {
        f"{key}.{inner}" if isinstance(value, dict) else key: item
        for key, value in recipe_to_table(recipe).items()
        for inner, item in (value.items() if isinstance(value, dict) else [("", value)])
    }
    kept = {key: value for key, value in flat.items() if key not in LATER and key.split(".")[0] not in LATER}
    return json.dumps(kept, sort_keys=True)


def resume(
    out: Path,
    listener: Listener | None = None,
    stop: Callable[[], bool] = lambda: False,
    device: str | None = None,
) -> tuple[dict[str, Any], ICTRL]:
    """Go on where a run was stopped or killed; on the same kind of device, exactly as if it had not been."""
    with RunFolder.reopen(out) as folder:
        recipe = folder.recipe()
        position = folder.position(device)
        dataset, tasks = _stream(recipe)
        return _go_on(folder, recipe, position, dataset, tasks, listener or Listener(), stop)


def evaluate(out: Path, device: str | None = None, listener: Listener | None = None) -> dict[str, Any]:
    """Measure the newest learner of a run again, under both protocols; what `results.json` holds of the rest stays."""
    folder = RunFolder.existing(out)
    recipe, position = folder.recipe(), folder.learned(device)
    dataset, tasks = run_data(folder)
    (listener or Listener()).on_begin(position, dataset, tasks)
    measured = Measured(**json.loads(position.notes["measured"]))
    _measure(position.learner, tasks[: position.done], measured)
    results = describe(recipe, position.learner, measured, dataset, tasks)
    if not folder.results.exists():
        with folder.locked():
            folder.write_results(results)
    return results


def run_data(folder: RunFolder, root: Path | None = None) -> tuple[Dataset, list[Task]]:
    """The data that a run was begun with, from where it was or from `root`; other data is refused."""
    recipe = folder.recipe()
    if root is not None:
        recipe = replace(recipe, data=replace(recipe.data, root=str(root)))
    dataset, tasks = _stream(recipe)
    folder.check_data(fingerprint(tasks))
    return dataset, tasks


def fingerprint(tasks: list[Task]) -> dict[str, Any]:
    """What tells whether data is the same: its numbers and a digest of every image and label, in order."""
    sha = hashlib.sha256()
    for task in tasks:
        for part in (task.images, task.labels, task.test_images, task.test_labels):
            sha.update(part.numpy().tobytes())
    return {
        "training_images": sum(len(task.rows) for task in tasks),
        "test_images": sum(len(task.test_rows) for task in tasks),
        "sha256": sha.hexdigest(),
    }


def _stream(recipe: Recipe) -> tuple[Dataset, list[Task]]:
    dataset = load_dataset(recipe.data, recipe.network.image_size, recipe.network.channels)
    return dataset, split_tasks(dataset, recipe.data)


def _go_on(
    folder: RunFolder,
    recipe: Recipe,
    position: Position,
    dataset: Dataset,
    tasks: list[Task],
    listener: Listener,
    stop: Callable[[], bool],
    profile: bool = False,
) -> tuple[dict[str, Any], ICTRL]:
    folder.check_data(fingerprint(tasks))
    learner, resumed = position.learner, position.stopped
    listener.on_begin(position, dataset, tasks)
    folder.keep_metrics(position.done, position.epoch)
    folder.sheets.write_originals(tasks)
    results: dict[str, Any] = {}
    if position.done:
        if not folder.sheets.after_task(position.done).exists():  # begun by another run, or by an older version
            folder.sheets.write_reconstructions(learner, tasks[: position.done])
        measured = Measured(**json.loads(position.notes["measured"]))
        results = describe(recipe, learner, measured, dataset, tasks)
        folder.write_results(results)  # it may be older than the checkpoint, or missing
    else:
        measured = Measured([len(task.test_rows) for task in tasks])
        with measured.timed("floor"):
            measured.floor = _never_learning(learner, tasks)
    laps: list[dict[str, float]] = []

    for t in range(position.done, len(tasks)):
        listener.on_task(t, len(tasks), tasks[t])
        with folder.metrics.open("a", encoding="utf-8") as log, measured.timed("learn"):
            due = _Due(recipe.checkpoint)

            def after_epoch(report: EpochReport, t: int = t, log: Any = log, due: "_Due" = due) -> None:
                log.write(json.dumps({"task": t + 1, "epoch": report.epoch, **report.terms}) + "\n")
                log.flush()
                listener.on_epoch(t, report)
                stopping = stop()
                if stopping or due.after(report.epoch):
                    folder.save_task(learner, t, report)
                if stopping:
                    raise Stopped

            watch = Stopwatch(learner.device) if profile else None
            learner.learn(tasks[t].images, tasks[t].labels, after_epoch, resumed, watch)
        resumed = None
        with measured.timed("evaluate"):
            _measure(learner, tasks[: t + 1], measured)
            measured.replay.append(replay_recognised(learner))
            folder.sheets.write_reconstructions(learner, tasks[: t + 1])
        if t == 0:
            with measured.timed("floor"):
                measured.frozen = _never_learning(learner, tasks)
        notes = {"measured": json.dumps(asdict(measured)), "class_names": json.dumps(dataset.class_names)}
        folder.save_learner(learner, t + 1, notes)
        results = describe(recipe, learner, measured, dataset, tasks)
        folder.write_results(results)
        if watch is not None:
            laps.append(watch.seconds)
            folder.write_profile({"seconds": results["seconds"], "tasks": laps})
        listener.on_measured(results)
        if stop() and t + 1 < len(tasks):
            raise Stopped
    return results, learner


class _Due:
    """Whether a checkpoint is due."""

    def __init__(self, schedule: CheckpointConfig) -> None:
        self.schedule = schedule
        self.last = time.monotonic()

    def after(self, epoch: int) -> bool:
        epochs, minutes = self.schedule.every_epochs, self.schedule.every_minutes
        due = bool(epochs and epoch % epochs == 0) or bool(minutes and time.monotonic() - self.last >= 60 * minutes)
        if due:
            self.last = time.monotonic()
        return due


Predictions = list[tuple[Tensor, Tensor]]
"""of each task: labels of its test images, and the labels predicted for them"""


Features = list[tuple[Tensor, Tensor, Tensor, Tensor]]
"""of each task: features and labels of its training images, and views and labels of its test images"""


def features_of(learner: ICTRL, tasks: list[Task]) -> Features:
    return [
        (learner.features(task.images), task.labels, learner.views(task.test_images), task.test_labels)
        for task in tasks
    ]


def reencoded(features: Features) -> Moments:
    """The moments of the training images of all tasks, as the *reencoded* protocol has them."""
    Z, y = (torch.cat(parts) for parts in list(zip(*features))[:2])
    return Moments.of_features(Z, y.to(Z.device))


def predictions(features: Features, classifier: Classifier) -> Predictions:
    return [(labels, classifier.decide(views).cpu()) for _, _, views, labels in features]


def both_protocols(learner: ICTRL, features: Features, moments: Moments) -> dict[str, Predictions]:
    """Predictions from memory alone, and with all that is classified by refitted from re-encoded training images."""
    refitted = classifier_of(moments, learner.recipe.classifier)
    return {"memory": predictions(features, learner.classifier), "reencoded": predictions(features, refitted)}


def _never_learning(learner: ICTRL, tasks: list[Task]) -> list[list[float]]:
    """The accuracy matrix if the encoder stayed as it is; with nothing moving, memory and reencoded are the same."""
    features = features_of(learner, tasks)
    moments, learned, rows = reencoded(features), set[int](), []
    for t, task in enumerate(tasks, start=1):
        learned.update(task.classes)
        classifier = classifier_of(moments.among(learned), learner.recipe.classifier)
        rows.append(_accuracies(predictions(features[:t], classifier)))
    return rows


def _measure(learner: ICTRL, tasks: list[Task], measured: Measured) -> None:
    """The row after these tasks of each protocol's matrix and of the drift; the confusion matrices are replaced."""
    features = features_of(learner, tasks)
    moments = reencoded(features)
    found = both_protocols(learner, features, moments)
    for protocol, decided in found.items():
        true, predicted = (torch.cat(parts).tolist() for parts in zip(*decided))
        measured.confusion[protocol] = confusion(true, predicted, learner.classes_.tolist())
    distances, affinities = measure_drift(learner.memory, moments)
    rows = {
        "memory": _accuracies(found["memory"]),
        "reencoded": _accuracies(found["reencoded"]),
        "drift_mean": distances,
        "drift_affinity": affinities,
    }
    for name, row in rows.items():
        getattr(measured, name)[len(tasks) - 1 :] = [row]


def _accuracies(decided: Predictions) -> list[float]:
    return [float((true == predicted).double().mean()) for true, predicted in decided]


def replay_recognised(learner: ICTRL) -> float:
    """Share of features drawn from memory that the classifier still assigns to their class after f(g(z)).

    Where it is low, the decoder has not learned to replay, and memory will not hold: train longer.
    """
    generator = torch.Generator(learner.device).manual_seed(0)
    Z, y = learner.memory.gaussians().sample(REPLAYED, generator)
    with torch.no_grad():
        Z_hat = torch.cat([learner.encoder(learner.decoder(part)) for part in Z.split(2048)])
    labels = torch.tensor(list(learner.memory), device=Z.device)[y]
    return float((learner.classifier.predict(Z_hat) == labels).double().mean())


def describe(recipe: Recipe, learner: ICTRL, measured: Measured, dataset: Dataset, tasks: list[Task]) -> dict[str, Any]:
    """The contents of `results.json`."""
    done = len(measured.memory)
    protocols: dict[str, Any] = {}
    for protocol in PROTOCOLS:
        scores = asdict(summarise(getattr(measured, protocol), measured.test_images))
        protocols[protocol] = {**_rounded(scores), "confusion": measured.confusion[protocol]}
    return {
        "complete": done == len(tasks),
        **protocols,
        "floor": _rounded(asdict(summarise(measured.floor[:done], measured.test_images))),
        **(
            {"frozen": _rounded(asdict(summarise(measured.frozen[:done], measured.test_images)))}
            if measured.frozen
            else {}
        ),
        "drift": _rounded(_drift(learner, measured)),
        "measured_on": "validation images" if recipe.data.validation else "test images",
        "replay": _rounded(measured.replay),
        "tasks": [list(task.classes) for task in tasks],
        "class_names": {str(label): name for label, name in dataset.class_names.items()},
        "test_images": measured.test_images,
        "memory_bytes": learner.memory.nbytes,
        "image_bytes": sum(len(task.rows) for task in tasks[:done]) * dataset.images[0].numel(),
        "parameters": learner.parameters,
        "seconds": {phase: round(seconds, 3) for phase, seconds in measured.seconds.items()},
        "seed": learner.seed,
        "device": device_name(learner.device),
        "versions": versions(),
        "recipe": recipe_to_table(recipe),
    }


def _drift(learner: ICTRL, measured: Measured) -> dict[str, Any]:
    """A row a task, a column a class in the order of learning, None where it was still to come or not measured."""
    classes = list(learner.memory)
    rows = {"mean": measured.drift_mean, "affinity": measured.drift_affinity}
    padded = {name: [[*row, *[None] * (len(classes) - len(row))] for row in part] for name, part in rows.items()}
    return {"classes": classes, **padded}


def versions() -> dict[str, str]:
    """Of what results depend on."""
    return {
        "ictrl": ictrl.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{device}, {torch.cuda.get_device_name(device)}"
    return f"{device}, {platform.machine()}, {torch.get_num_threads()} threads"


def _rounded(value: Any) -> Any:
    """Six digits are more than a test set can tell apart."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value
