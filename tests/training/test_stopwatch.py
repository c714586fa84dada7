"""Laps add up to the time that went by, and profiling changes nothing."""

import time

import pytest
import torch
from support import pictures, tiny_recipe

from ictrl import ICTRL, ConfigError
from ictrl.training.profiler import Stopwatch

LAPS = {
    "images and old features",
    *(f"{player}: {lap}" for player in ("encoder", "decoder") for lap in ("f(X)", "g(Z)", "f(X_hat)", "rates")),
    *(f"{player}: {lap}" for player in ("encoder", "decoder") for lap in ("anchors", "gradient", "update")),
}


def test_every_lap_is_timed_and_learning_goes_on_as_ever(device: str) -> None:
    watched, unwatched = ICTRL(tiny_recipe(), device=device), ICTRL(tiny_recipe(), device=device)
    for labels in ([0, 1], [2, 3]):
        watch, start = Stopwatch(watched.device), time.perf_counter()
        watched.learn(*pictures(labels), stopwatch=watch)
        passed = time.perf_counter() - start
        unwatched.learn(*pictures(labels))
        assert set(watch.seconds) == LAPS
        assert all(seconds >= 0 for seconds in watch.seconds.values())
        assert 0 < sum(watch.seconds.values()) < passed
    if device == "cpu":
        assert all(torch.equal(a, b) for a, b in zip(watched.encoder.parameters(), unwatched.encoder.parameters()))


def test_a_pytorch_that_cannot_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def old_event(enable_timing: bool) -> None:
        raise AssertionError("never made")

    monkeypatch.setattr(torch.cuda, "Event", old_event)
    watch = Stopwatch(torch.device("cuda"))
    with pytest.raises(ConfigError, match="profile with 2.7 or newer"), watch.lap("any"):
        pass
