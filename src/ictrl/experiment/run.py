"""A stream of tasks through a learner, measured after every task, in a folder that can be stopped and resumed."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ictrl.config import CheckpointConfig, Recipe
from ictrl.data import Dataset, Task
from ictrl.errors import InputError
from ictrl.experiment.checkpoints import Due, Position, adopt
from ictrl.experiment.class_facts import after_task, now, read_facts, written
from ictrl.experiment.evaluation import ReadBefore, describe, measure, measure_floor, measure_frozen, near
from ictrl.experiment.measured import Measured
from ictrl.experiment.reliability import measure_calibration
from ictrl.experiment.results import Results
from ictrl.experiment.run_data import IN_MEMORY, Stream, about, check_images, fingerprint, moved, run_data, stream_of
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.together import agreed, check_together, opened, same_position
from ictrl.files import absolute, write_atomically
from ictrl.methods.base import Learner, create_learner, load_learner
from ictrl.methods.storage import LEARNER, read_stored
from ictrl.parallel.agreement import any_of, as_first, wait_for_all
from ictrl.parallel.sharing import alone, is_first, sharing
from ictrl.recipes.tables import beginning
from ictrl.training.loop import EpochReport
from ictrl.training.profiler import Profiler
from ictrl.typed_json import noted


class Listener:
    """What someone watching a run is told. Each method does nothing until it is overridden."""

    def on_begin(self, position: Position, dataset: Dataset, tasks: list[Task]) -> None:
        """The run begins, or goes on from a position."""

    def on_task(self, index: int, total: int, task: Task) -> None:
        """A task, counted from 0, is about to be learned."""

    def on_epoch(self, index: int, report: EpochReport) -> None:
        """An epoch of that task has passed."""

    def on_measured(self, results: Results) -> None:
        """A task was learned and measured: what `results.json` holds now."""


class Stopped(KeyboardInterrupt):
    """A run stopped on request; everything needed to go on is in its folder."""


@dataclass(frozen=True)
class Finished:
    """What a run came to."""

    results: Results
    learner: Learner[Any]


def run(
    recipe: Recipe,
    out: Path | str,
    *,
    stream: Stream | None = None,
    learner: Learner[Any] | None = None,
    listener: Listener | None = None,
    stop: Callable[[], bool] = lambda: False,
    profile: bool = False,
    first_task: Path | None = None,
) -> Finished:
    """Learn a stream of tasks in a new run folder: the recipe's, or one given in memory (`data.tasks_from_arrays`).

    A `learner` of the same recipe may be given, with networks of your own. Where `stop` gives True after an epoch, the
    run is written down and `Stopped` raised. With `profile`, the folder also gets `profile.json`: where the time of
    each task went. `first_task` is the checkpoint that another run wrote after its first task; where `begin_alike`
    holds for the two recipes, going on from there changes nothing.
    """
    out = Path(out)
    if stream is not None:
        recipe = replace(recipe, stream=replace(recipe.stream, dataset=IN_MEMORY, root=None))
    if recipe.stream.root is not None:  # so that the run can be resumed from anywhere
        recipe = replace(recipe, stream=replace(recipe.stream, root=str(absolute(recipe.stream.root))))
    dataset, tasks = stream or stream_of(recipe, stop=stop)  # a mistake in the data shows before a folder is made
    if learner is not None:
        adopt(learner, recipe)
    position = Position(learner or create_learner(recipe), done=0)
    if first_task is not None:
        stored = read_stored(first_task, LEARNER)
        if not begin_alike(stored.recipe, recipe) or len(stored.labels) != len(tasks[0].classes):
            raise InputError(f"Expected the first task of a run that begins alike but {first_task} begins differently.")
        position = Position(load_learner(first_task, recipe.run.device, recipe), 1, stored.notes)
    check_images(position.learner, tasks[position.done :])
    check_together(position.learner, tasks[position.done :])
    with opened(RunFolder.create(out, recipe), out) as folder:
        if first_task is not None and is_first():
            # the log first: with the learner alone, a run that is killed in between would never have these lines
            if (metrics := first_task.with_name("metrics.jsonl")).exists():
                write_atomically(folder.metrics, metrics.read_bytes())
            folder.save_learner(position.learner, position.done, position.notes)
        return _go_on(folder, recipe, position, dataset, tasks, listener or Listener(), stop, profile)


def begin_alike(one: Recipe, other: Recipe) -> bool:
    """Whether two runs do the same until the end of their first task."""
    return beginning(one) == beginning(other)


def resume(
    out: Path | str,
    *,
    stream: Stream | None = None,
    learner: Learner[Any] | None = None,
    listener: Listener | None = None,
    stop: Callable[[], bool] = lambda: False,
    device: str | None = None,
    root: Path | None = None,
    keep_pictures: int | None = None,
) -> Finished:
    """Go on where a run was stopped or killed; on the same kind of device, exactly as if it had not been.

    Data that has moved is read from `root`. Tasks that were given in memory, and a learner with networks of your own,
    must be given again. `keep_pictures` takes the place of the recipe's from now on; what was kept before goes.
    """
    with opened(RunFolder.reopen(Path(out)), Path(out)) as folder:
        if keep_pictures is not None:
            folder.keep_pictures(keep_pictures)
        recipe = moved(folder.recipe(), root)
        position = same_position(folder.position(device, learner), folder.path)
        dataset, tasks = stream or stream_of(recipe, folder.path, stop)
        check_images(position.learner, tasks[position.done :])
        check_together(position.learner, tasks[position.done :])
        return _go_on(folder, recipe, position, dataset, tasks, listener or Listener(), stop)


def evaluate(
    out: Path | str, device: str | None = None, listener: Listener | None = None, root: Path | None = None
) -> Results:
    """Measure the newest learner of a run again; what `results.json` holds of the rest stays."""
    folder = RunFolder.existing(Path(out))
    recipe, position = folder.recipe(), folder.learned(device)
    dataset, tasks = run_data(folder, root)
    (listener or Listener()).on_begin(position, dataset, tasks)
    measured = _measured(position)
    measure(position.learner, tasks[: position.done], measured)
    if position.done == len(tasks):
        measure_calibration(position.learner, tasks, measured)
    results = describe(recipe, position.learner, measured, dataset, tasks)
    if not folder.results.exists():
        with folder.locked():
            folder.write_results(results)
    return results


def _measured(position: Position) -> Measured:
    return Measured.from_notes(noted(position.notes, "measured", dict[str, Any], {}), position.done)


@sharing()
def _go_on(
    folder: RunFolder,
    recipe: Recipe,
    position: Position,
    dataset: Dataset,
    tasks: list[Task],
    listener: Listener,
    stop: Callable[[], bool],
    profile: bool = False,
) -> Finished:
    begun = {} if position.done or position.epoch else {"begun": now()}
    folder.check_data(agreed(fingerprint(tasks)), {**begun, **about(dataset)})
    folder.go_on(position)
    learner, resumed = position.learner, position.stopped
    tasks = near(tasks, learner.device)
    with alone():
        listener.on_begin(position, dataset, tasks)
        sheets = folder.sheets
        sheets.begin(learner, tasks, position.done)
    if position.done:
        measured = _measured(position)
        results = describe(recipe, learner, measured, dataset, tasks)
        folder.write_results(results)  # it may be older than the checkpoint, or missing
    else:
        measured = Measured([len(task.test_rows) for task in tasks])
        measure_floor(learner, tasks, measured, "untrained")
    laps, before = list[dict[str, float]](), ReadBefore()
    facts = read_facts(position.notes, learner.labels)
    for t in range(position.done, len(tasks)):
        with alone():
            listener.on_task(t, len(tasks), tasks[t])
        profiler = Profiler(learner.device) if profile else None
        with measured.timed("learn"):
            _learn(folder, learner, tasks[t], t, recipe.run.checkpoint, listener, stop, resumed, profiler)
        resumed = None
        with measured.timed("evaluate"):
            measure(learner, tasks[: t + 1], measured, before)
            if t + 1 == len(tasks):
                measure_calibration(learner, tasks, measured)
            with alone():
                sheets.write_reconstructions(learner, tasks[: t + 1])
        measure_frozen(learner, tasks, measured, t + 1)
        results = describe(recipe, learner, measured, dataset, tasks)
        facts = after_task(facts, tasks[t], t + 1, measured.confusion["memory"], results.measured_on)
        names = json.dumps(dataset.class_names)
        notes = {"measured": json.dumps(asdict(measured)), "class_names": names, "classes": written(facts)}
        folder.save_learner(learner, t + 1, notes)
        folder.write_results(results)
        if profiler is not None:
            laps.append(profiler.seconds)
            folder.write_profile({"seconds": results.seconds, "tasks": laps})
        with alone():
            listener.on_measured(results)
        if any_of(stop()) and t + 1 < len(tasks):
            raise Stopped
    return Finished(results, learner)


def _learn(
    folder: RunFolder,
    learner: Learner[Any],
    task: Task,
    t: int,
    checkpoint: CheckpointConfig,
    listener: Listener,
    stop: Callable[[], bool],
    resumed: Path | None,
    profiler: Profiler | None,
) -> None:
    """One task, with a line in the log and now and then a checkpoint after an epoch."""
    due = Due(checkpoint)
    with folder.log() as log:

        def after_epoch(report: EpochReport) -> None:
            log.add(json.dumps({"task": t + 1, "epoch": report.epoch, **report.terms}))
            with alone():
                listener.on_epoch(t, report)
            stopping = any_of(stop())
            if stopping or due.after(report.epoch):
                log.flush()
                folder.save_task(learner, t, report)
            if stopping:
                wait_for_all()  # until it is written
                raise Stopped

        learner.learn(task.images, task.labels, after_epoch, resume=resumed, profiler=profiler)
        as_first(kept for kept in learner.kept_tensors().values() if kept.dtype != torch.uint8)
