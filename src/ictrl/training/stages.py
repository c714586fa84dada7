"""A task that is learned in several stages, one after the other, with its epochs counted through."""

from collections.abc import Sequence
from dataclasses import replace

from ictrl.training.loop import EpochReport, Progress, Resume, TaskHooks


def by_stage(hooks: TaskHooks, epochs: Sequence[int]) -> list[TaskHooks | None]:
    """What each stage is handed, given how many epochs each has; None for one that lies behind a stopped task.

    A task that was stopped after the last epoch of a stage goes on in that stage, which still has to be brought to its
    end: the average of its weights is not yet taken.
    """
    stopped, total = hooks.resume.epoch if hooks.resume is not None else 0, sum(epochs)
    found: list[TaskHooks | None] = []
    for i, own in enumerate(epochs):
        before = sum(epochs[:i])
        if stopped > before + own:
            found.append(None)
            continue
        here = hooks.resume is not None and stopped > before
        resume = Resume(stopped - before, hooks.resume.restore) if here and hooks.resume is not None else None
        progress = None if hooks.progress is None else _counted(hooks.progress, before, total)
        found.append(replace(hooks, progress=progress, resume=resume))
    return found


def _counted(progress: Progress, before: int, total: int) -> Progress:
    """Hears of a stage as of a part of its task."""

    def counted(report: EpochReport) -> None:
        progress(replace(report, epoch=before + report.epoch, epochs=total))

    return counted
