"""Laps add up to the time that went by, and profiling changes nothing."""

import time

import pytest
import torch
from support import pictures, tiny_recipe

from ictrl import ICTRL, ConfigError
from ictrl.training.profiler import Profiler, untimed

LAPS = {
    "images and old features",
    "encoder: distillation",
    *(
        f"{player}: {lap}"
        for player in ("encoder", "decoder")
        for lap in ("f(X)", "g(Z)", "f(X_hat)", "objective", "gradient", "update")
    ),
}


def test_every_lap_is_timed_and_learning_goes_on_as_ever(device: str) -> None:
    watched, unwatched = ICTRL(tiny_recipe(), device=device), ICTRL(tiny_recipe(), device=device)
    for labels in ([0, 1], [2, 3]):
        profiler, start = Profiler(watched.device), time.perf_counter()
        watched.learn(*pictures(labels), profiler=profiler)
        passed = time.perf_counter() - start
        unwatched.learn(*pictures(labels))
        assert set(profiler.seconds) == LAPS
        assert all(seconds >= 0 for seconds in profiler.seconds.values())
        assert 0 < sum(profiler.seconds.values()) < passed
    if device == "cpu":
        assert all(torch.equal(a, b) for a, b in zip(watched.encoder.parameters(), unwatched.encoder.parameters()))


def test_laps_of_one_name_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0, 10.0, 13.0])
    monkeypatch.setattr("ictrl.training.profiler.time.perf_counter", lambda: next(clock))
    profiler = Profiler(torch.device("cpu"))
    for _ in range(2):
        with profiler.lap("step"):
            pass
    assert profiler.seconds == {"step": 5.0}
    profiler.read(steps=2)  # only a GPU has something to read
    assert profiler.seconds == {"step": 5.0}
    with untimed("anything"):
        pass


def test_a_pytorch_that_cannot_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def old_event(enable_timing: bool) -> None:
        raise AssertionError("never made")

    monkeypatch.setattr(torch.cuda, "Event", old_event)
    profiler = Profiler(torch.device("cuda"))
    with pytest.raises(ConfigError, match="profile with 2.7 or newer"), profiler.lap("any"):
        pass
