"""A stream of tasks through a learner, measured after every task, in a folder that can be stopped and resumed."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ictrl.config import CheckpointConfig, Recipe
from ictrl.data import Dataset, Task, load_dataset, near, split_tasks
from ictrl.errors import InputError
from ictrl.files import write_atomically
from ictrl.training.game import EpochReport
from ictrl.methods.ictrl import ICTRL
from ictrl.experiment.evaluation import Measured, describe, measure, never_learning, replay_recognised
from ictrl.recipes.reader import recipe_to_table
from ictrl.experiment.folder import Position, RunFolder
from ictrl.training.profiler import Stopwatch
from ictrl.methods.storage import LEARNER, read_stored


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
    "memory.transport", "memory.transport_replayed", "memory.transport_ridge", "game.epochs", "game.batch",
    "game.replay", "game.resample", "game.warmup", "data.root",
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
    root: Path | None = None,
) -> tuple[dict[str, Any], ICTRL]:
    """Go on where a run was stopped or killed; on the same kind of device, exactly as if it had not been. Data that has
    moved is read from `root`."""
    with RunFolder.reopen(out) as folder:
        recipe = _moved(folder.recipe(), root)
        position = folder.position(device)
        dataset, tasks = _stream(recipe)
        return _go_on(folder, recipe, position, dataset, tasks, listener or Listener(), stop)


def evaluate(
    out: Path, device: str | None = None, listener: Listener | None = None, root: Path | None = None
) -> dict[str, Any]:
    """Measure the newest learner of a run again, under both protocols; what `results.json` holds of the rest stays."""
    folder = RunFolder.existing(out)
    recipe, position = folder.recipe(), folder.learned(device)
    dataset, tasks = run_data(folder, root)
    (listener or Listener()).on_begin(position, dataset, tasks)
    measured = Measured(**json.loads(position.notes["measured"]))
    measure(position.learner, tasks[: position.done], measured)
    results = describe(recipe, position.learner, measured, dataset, tasks)
    if not folder.results.exists():
        with folder.locked():
            folder.write_results(results)
    return results


def run_data(folder: RunFolder, root: Path | None = None) -> tuple[Dataset, list[Task]]:
    """The data that a run was begun with, from where it was or from `root`; other data is refused."""
    dataset, tasks = _stream(_moved(folder.recipe(), root))
    folder.check_data(fingerprint(tasks))
    return dataset, tasks


def _moved(recipe: Recipe, root: Path | None) -> Recipe:
    return recipe if root is None else replace(recipe, data=replace(recipe.data, root=str(root.resolve())))


def fingerprint(tasks: list[Task]) -> dict[str, Any]:
    """What tells whether data is the same: its numbers and a digest of every image and label, in order."""
    sha = hashlib.sha256()
    for task in tasks:
        for part in (task.images, task.labels, task.test_images, task.test_labels):
            sha.update(part.flatten().numpy().data)
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
    tasks = near(tasks, learner.device)
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
            measured.floor = never_learning(learner, tasks)
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
            measure(learner, tasks[: t + 1], measured)
            measured.replay.append(replay_recognised(learner))
            folder.sheets.write_reconstructions(learner, tasks[: t + 1])
        if t == 0:
            with measured.timed("floor"):
                measured.frozen = never_learning(learner, tasks)
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
