"""Watching a run and stopping it: signals, TensorBoard, what was passed over."""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import call

from ictrl.cli.watch import _note

QUICK = ["--later.epochs", "1", "--first.epochs", "1", "--stream.limit", "20", "--device", "cpu"]


def interrupted(out: Path, number: int, *arguments: str) -> tuple[int, str]:
    """Exit code and errors of a run that gets a signal in its second task, which takes very long."""
    command = [sys.executable, "-m", "ictrl", *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    metrics = out / "metrics.jsonl"
    before = metrics.read_text().count('"task": 2') if metrics.exists() else 0
    deadline = time.monotonic() + 120
    while (metrics.read_text().count('"task": 2') if metrics.exists() else 0) <= before:
        assert process.poll() is None
        assert time.monotonic() < deadline
        select.select([], [], [], 0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


@pytest.mark.parametrize(("number", "recipe"), [(signal.SIGINT, "ictrl-digits"), (signal.SIGTERM, "finetune-digits")])
def test_ctrl_c_writes_a_checkpoint_and_says_how_to_go_on(number: int, recipe: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ["--later.epochs", "100000", "--first.epochs", "1", "--device", "cpu", "--out", str(out)]
    code, errors = interrupted(out, number, "run", recipe, *options)
    assert code == 130
    said = ["Stopping after this epoch; Ctrl-C again stops at once.", f"Stopped. Go on with: ictrl resume {out}"]
    assert errors.splitlines() == said
    files = sorted(path.name for path in (out / "checkpoint").iterdir())
    assert files[0] == "after-task-001.safetensors"
    assert files[1].startswith("task-002-epoch-")
    epochs = int(files[1].removeprefix("task-002-epoch-").removesuffix(".safetensors"))
    if recipe == "ictrl-digits":
        return
    code, errors = interrupted(out, number, "resume", str(out))
    assert (code, errors.splitlines()) == (130, said)
    newest = max(path.name for path in (out / "checkpoint").glob("task-002-*"))
    assert newest > f"task-002-epoch-{epochs:05d}.safetensors"


def test_tensorboard_gets_every_term_and_accuracy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    class Writer:
        def __init__(self, folder: str) -> None:
            assert folder == str(tmp_path / "run" / "tensorboard")

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append(f"{name} {step}")

        def close(self) -> None:
            written.append("closed")

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    assert call("run", "ictrl-digits", *QUICK, "--stream.tasks", "1", "--tensorboard", "--out", tmp_path / "run") == 0
    assert {"task-1/encoder.reduction 1", "task-1/decoder.distance_new 1", "accuracy/memory 1"} <= set(written)
    assert written[-1] == "closed"


def test_tensorboard_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert call("run", "ictrl-digits", *QUICK, "--tensorboard", "--out", tmp_path / "run") == 2
    assert "pip install tensorboard" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_bar_shows_the_terms_of_any_method() -> None:
    game = {"encoder.reduction": 2.0, "decoder.distance_new": 0.5, "decoder.distance_old": 0.25}
    assert _note(0, game) == "ΔR(Z) 2.0  distance of new classes 0.50"
    assert _note(1, game) == "ΔR(Z) 2.0  distance of new classes 0.50, of old 0.25"
    assert _note(1, {"cross_entropy": 1.5}) == "cross_entropy 1.500"
