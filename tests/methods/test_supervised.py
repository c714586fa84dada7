"""What methods by cross-entropy share, with BatchNorm in the encoder: the tiny one of other tests has none."""

from pathlib import Path

import pytest
from method_support import TASKS, ema_of, everything, learner_of, same, stop_after

from ictrl import load_learner


@pytest.mark.parametrize("ema", [0.0, 1.5])
@pytest.mark.parametrize("method", ["er", "agem", "cls_er", "gdumb", "rainbow"])
def test_a_task_stopped_after_any_epoch_goes_on_exactly(method: str, ema: float, tmp_path: Path) -> None:
    settings = {"network": {"kind": "resnet"}, **ema_of(method, ema)}
    learner = learner_of(method, 1, **settings)
    learner.save(tmp_path / "before")
    expected = everything(learner_of(method, 2, **settings))
    for epoch in (2, 3):
        stop_after(learner, TASKS[1], epoch, tmp_path / "stopped")
        again = load_learner(tmp_path / "before").learn(*TASKS[1], resume=tmp_path / "stopped")
        assert same(everything(again), expected)
