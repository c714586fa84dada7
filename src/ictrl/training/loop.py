"""The loop over a task's epochs, whatever is being learned.

A method brings a *step*: a function of the rows of a batch that changes networks in place and returns named numbers.
The loop shuffles, feeds, records the step as a CUDA graph where it can, sets the learning rate, keeps the EMA, adds up
the numbers, reports, and goes on from where a task was stopped.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import accumulate

import torch
from torch import Tensor

from ictrl.config import StageConfig
from ictrl.errors import InputError, NonFiniteError, ProcessesError
from ictrl.nets.layers import exact_float32
from ictrl.parallel.agreement import alike
from ictrl.parallel.sharing import shared
from ictrl.training.ema import EMA
from ictrl.training.graphs import Captured, side_stream
from ictrl.training.loader import Batches, ImageSource
from ictrl.training.profiler import Profiler
from ictrl.training.schedule import learning_rate, set_learning_rate
from ictrl.training.state import TrainingState


@dataclass(frozen=True)
class EpochReport:
    """What a progress callback hears after every epoch."""

    epoch: int
    """the epoch that has passed, counted from 1"""
    epochs: int
    """how many the task has"""
    terms: dict[str, float]
    """named numbers of the steps, such as `encoder.reduction`, means over the epoch"""
    state: TrainingState = field(repr=False, compare=False)
    """what the task has come to, for `save_task`"""


Progress = Callable[[EpochReport], None]
Step = Callable[..., Mapping[str, Tensor]]
"""step(rows, *sent): rows of the batch and, where images had to be sent to the device, these"""


@dataclass(frozen=True)
class Resume:
    """Where a task was stopped: after which epoch, and the state it had then."""

    epoch: int
    restore: Callable[[TrainingState], None]


@dataclass(frozen=True)
class TaskHooks:
    """What someone who watches or resumes a task hands in."""

    progress: Progress | None = None
    resume: Resume | None = None
    profiler: Profiler | None = None

    def in_turn(self, *epochs: int) -> list["TaskHooks | None"]:
        """Hooks for each of several stages of so many epochs that one task goes through, one after the other.

        Epochs are counted through, so that who watches sees one task, and a stopped one goes on in the stage that its
        epoch belongs to. Stages that it has left behind are None: what they made is in its state.
        """
        done = self.resume.epoch if self.resume is not None else 0
        ends = list(accumulate(epochs))
        return [
            self._counted(end - own, ends[-1], stopped=done > end - own) if done <= end else None
            for own, end in zip(epochs, ends)
        ]

    def _counted(self, before: int, epochs: int, stopped: bool) -> "TaskHooks":
        """For a stage with so many epochs before it, of so many in all, which was stopped or is yet to begin."""
        progress, resume = self.progress, self.resume if stopped else None

        def counted(report: EpochReport) -> None:
            assert progress is not None
            progress(replace(report, epoch=before + report.epoch, epochs=epochs))

        return TaskHooks(
            counted if progress is not None else None,
            replace(resume, epoch=resume.epoch - before) if resume is not None else None,
            self.profiler,
        )


def run_epochs(
    step: Step, source: ImageSource, batches: Batches, stage: StageConfig, state: TrainingState, hooks: TaskHooks
) -> None:
    """Learn a task that has been set up, from its beginning or from where it was stopped.

    Whatever was set up follows from the state at the task's beginning: a stopped task is set up again in the same way,
    and only then put where it stopped.
    """
    check_share(len(batches.rows[0]))
    device, steps, tally = source.device, len(batches), Tally()
    state.ema = EMA(tuple(state.networks.values()), stage.ema * steps) if stage.ema else None
    if hooks.resume is not None:
        hooks.resume.restore(state)

    def counted_step(*given: Tensor) -> None:
        values = step(*given)
        if state.ema is not None:
            state.ema.add()
        tally.add(values)

    with (
        side_stream(device),
        exact_float32(),
        Captured(batches.shuffle, batches.generator, device) as shuffle,
        Captured(counted_step, batches.generator, device) as captured,
    ):
        for epoch in range(1 + (hooks.resume.epoch if hooks.resume else 0), stage.epochs + 1):
            rate = learning_rate(stage.learning_rate, epoch, stage.epochs, stage.schedule, stage.warmup)
            for optimiser in state.optimisers.values():
                set_learning_rate(optimiser, rate)
            shuffle()
            with closing(source.batches(batches.rows)) as fed:
                for given in fed:
                    captured(*given)
            means = tally.means(steps)
            if hooks.profiler is not None:
                hooks.profiler.read(steps)
            check_finite(means, epoch)
            check_alike(state)
            if hooks.progress is not None:
                hooks.progress(EpochReport(epoch, stage.epochs, means, state))
    if state.ema is not None:
        state.ema.take()
        state.ema = None


class Tally:
    """Means of named numbers over the steps of an epoch, kept on the device until they are asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.sums = torch.zeros(0)

    def add(self, values: Mapping[str, Tensor]) -> None:
        stacked = torch.stack([value.detach() for value in values.values()])
        if not self.names:
            self.names, self.sums = list(values), torch.zeros_like(stacked)
        self.sums += stacked

    def means(self, steps: int) -> dict[str, float]:
        """And begin anew. One read for all: reading a device's number waits for the device."""
        means = {name: value / steps for name, value in zip(self.names, self.sums.tolist())}
        self.sums.zero_()
        return means


def check_finite(means: Mapping[str, float], epoch: int) -> None:
    for name, value in means.items():
        if not math.isfinite(value):
            raise NonFiniteError(
                f"Expected finite objective terms but {name} became {value} in epoch {epoch}: lower learning_rate."
            )


def check_share(batch: int) -> None:
    """Whether every process has something to do."""
    if (found := shared()) is not None and batch < found.size:
        raise InputError(
            f"Expected at most {batch} processes, since a batch has {batch} image{'s' * (batch > 1)}, but got "
            f"{found.size}: begin fewer, or raise batch."
        )


def check_alike(state: TrainingState) -> None:
    """Whether all processes still hold the same weights: they move by the same numbers, and so must stay alike."""
    if not alike(parameter for network in state.networks.values() for parameter in network.parameters()):
        raise ProcessesError(
            "Expected processes that learn together to stay alike but their weights differ: use devices of one kind, "
            "and the same versions everywhere."
        )
