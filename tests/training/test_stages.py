"""Stages of a task: epochs counted through, and where a stopped task goes on."""

import torch

from ictrl.training.loop import EpochReport, Resume, TaskHooks
from ictrl.training.stages import by_stage
from ictrl.training.state import TrainingState

STATE = TrainingState({}, {}, torch.Generator())


def restore(state: TrainingState) -> None:
    """Does nothing."""


def test_epochs_are_counted_through() -> None:
    heard: list[EpochReport] = []
    stages = by_stage(TaskHooks(heard.append), (2, 3))
    for stage, epoch in ((0, 1), (0, 2), (1, 1), (1, 3)):
        hooks = stages[stage]
        assert hooks is not None
        assert hooks.resume is None
        assert hooks.progress is not None
        hooks.progress(EpochReport(epoch, 99, {"loss": 1.0}, STATE))
    assert [(report.epoch, report.epochs) for report in heard] == [(1, 5), (2, 5), (3, 5), (5, 5)]
    assert heard[0].terms == {"loss": 1.0}


def test_a_stopped_task_goes_on_in_the_stage_where_it_was_stopped() -> None:
    """After epochs 1 to 5 of 2 and 3; a stage stopped after its last epoch still has to be brought to its end."""
    expected = {1: (1, None), 2: (2, None), 3: ("over", 1), 4: ("over", 2), 5: ("over", 3)}
    for epoch, where in expected.items():
        stages = by_stage(TaskHooks(resume=Resume(epoch, restore)), (2, 3))
        found = tuple("over" if hooks is None else hooks.resume and hooks.resume.epoch for hooks in stages)
        assert found == where
        assert all(hooks is None or hooks.resume is None or hooks.resume.restore is restore for hooks in stages)


def test_without_anybody_who_listens_nothing_is_called() -> None:
    assert [hooks and hooks.progress for hooks in by_stage(TaskHooks(), (1, 1))] == [None, None]
