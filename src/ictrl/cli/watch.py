"""Watching a run: bars on a terminal, a line per task everywhere, TensorBoard on request; and stopping it gently."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ictrl.cli.output import counted, last_accuracies
from ictrl.cli.terminal import shown, tell
from ictrl.data import Dataset, Task
from ictrl.data.patience import reading
from ictrl.errors import InputError
from ictrl.experiment.checkpoints import Position
from ictrl.experiment.findings import of_left_out
from ictrl.experiment.results import Results
from ictrl.experiment.run import Listener
from ictrl.parallel.joining import falling_apart
from ictrl.parallel.sharing import is_first
from ictrl.training.loop import EpochReport


def bars_on(console: Console) -> Progress:
    """Progress bars with a note each, removed when they end; none where the output is no terminal."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


class Warnings(Listener):
    """Names what was passed over: damaged checkpoints, unreadable pictures."""

    def on_begin(self, position: Position, dataset: Dataset, tasks: list[Task]) -> None:
        for warning in position.warnings:
            tell(f"warning: {warning}")
        if left_out := of_left_out(len(dataset.skipped)):
            tell(f"warning: {left_out}:")
            for line in dataset.skipped:
                tell(f"  {line}")


class Watch(Warnings):
    """Shows how a run proceeds."""

    def __init__(self, console: Console, out: Path, tensorboard: bool = False) -> None:
        self.console = console
        self.out = out
        self.new_writer = _tensorboard() if tensorboard else None
        self.writer: Any = None
        self.bars = bars_on(console)
        self.tasks = self.bars.add_task("tasks", total=None, note="")
        self.epochs = self.bars.add_task("epochs", total=None, note="")

    def __enter__(self) -> "Watch":
        self.bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bars.stop()
        if self.writer is not None:
            self.writer.close()

    def on_begin(self, position: Position, dataset: Dataset, tasks: list[Task]) -> None:
        if self.new_writer is not None:
            self.writer = self.new_writer(str(self.out / "tensorboard"))
        super().on_begin(position, dataset, tasks)
        if position.done == len(tasks):
            self.console.print(f"{self.out} is finished: all {len(tasks)} tasks are learned.", soft_wrap=True)
        elif position.done or position.epoch:
            where = (
                f"after {counted(position.epoch, 'epoch', 'epochs')} of task {position.done + 1}"
                if position.epoch
                else "at its beginning"
            )
            self.console.print(f"Going on with task {position.done + 1} of {len(tasks)}, {where}.", soft_wrap=True)
        else:
            classes = counted(len(dataset.class_names), "class", "classes")
            numbers = f"{classes} in {counted(len(tasks), 'task', 'tasks')} on {position.learner.device}"
            self.console.print(f"Learning {numbers}; the run is written to {self.out}.", soft_wrap=True)
            if position.learner.keeps_images:
                self.console.print(
                    f"{position.learner.recipe.method.name} keeps {position.learner.keeps}: they are in "
                    f"{self.out}/checkpoint.",
                    soft_wrap=True,
                )

    def on_task(self, index: int, total: int, task: Task) -> None:
        self.bars.update(
            self.tasks,
            total=total,
            completed=index,
            note=f"now {_classes([task.dataset.class_names[label] for label in task.classes])}",
        )
        self.bars.reset(self.epochs, note="")

    def on_epoch(self, index: int, report: EpochReport) -> None:
        self.bars.update(self.epochs, total=report.epochs, completed=report.epoch, note=_note(index, report.terms))
        if self.writer is not None:
            for name, value in report.terms.items():
                self.writer.add_scalar(f"task-{index + 1}/{name}", value, report.epoch)

    def on_measured(self, results: Results) -> None:
        done, tasks = results.done, results.tasks
        self.bars.update(self.tasks, completed=done)
        names = [results.class_names[label] for label in tasks[done - 1]]
        line = f"task {done} of {len(tasks)}, {_classes(names)}: accuracy so far {last_accuracies(results)}"
        self.console.print(line, soft_wrap=True)
        if self.writer is not None:
            for protocol, found in results.protocols.items():
                self.writer.add_scalar(f"accuracy/{protocol}", found.last, done)


def watching(console: Console, out: Path, tensorboard: bool) -> AbstractContextManager[Listener]:
    """Who watches a run: of several processes only the first one shows anything."""
    return Watch(console, out, tensorboard) if is_first() else nullcontext(Listener())


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Ctrl-C (or SIGTERM) asks the run to stop after the current epoch; a second Ctrl-C stops it at once."""
    asked = False

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        if not is_first() or falling_apart():  # torchrun asks all others too when one of them has failed
            return
        with suppress(RuntimeError):  # within another print, which does not like it
            tell("Stopping." if reading() else "Stopping after this epoch; Ctrl-C again stops at once.")

    if threading.current_thread() is not threading.main_thread():  # only the main thread hears signals
        yield lambda: False
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tensorboard() -> Any:
    """The class that writes for TensorBoard, if it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        missing = "Expected TensorBoard for --tensorboard but it is not installed: pip install tensorboard."
        raise InputError(missing) from None
    return SummaryWriter


def _classes(names: list[str]) -> str:
    listed = " ".join(map(shown, names[:10])) + (" …" if len(names) > 10 else "")
    return ("class " if len(names) == 1 else "classes ") + listed


def _note(index: int, terms: dict[str, float]) -> str:
    """What the bar says of an epoch: the game's terms, or the first few of whatever a method reports."""
    if "encoder.reduction" not in terms:
        return "  ".join(f"{name} {value:.3f}" for name, value in list(terms.items())[:3])
    note = f"ΔR(Z) {terms['encoder.reduction']:.1f}  distance of new classes {terms['decoder.distance_new']:.2f}"
    return note + (f", of old {terms['decoder.distance_old']:.2f}" if index else "")
