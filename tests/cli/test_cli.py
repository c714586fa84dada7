"""The command line by its exit codes and its output."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import ictrl
from ictrl.cli import main
from ictrl.cli.output import open_console
from ictrl.cli.run import print_results

FIGURES = [
    "accuracy", "forgetting", "confusion-memory", "confusion-reencoded", "blocks", "affinity", "energy", "drift-means",
    "drift-subspaces", "memory",
]  # fmt: skip
QUICK = ["--game.epochs", "1", "--game.first-epochs", "1", "--device", "cpu"]


def call(*arguments: str) -> int:
    """The exit code, whether the command returns it or the parser raises it."""
    try:
        return main(list(arguments))
    except SystemExit as error:
        return int(error.code or 0)


def test_run_prints_the_table_and_writes_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", *QUICK, "--out", str(tmp_path / "run")) == 0
    output = capsys.readouterr().out
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    lines = output.splitlines()
    assert lines[0] == f"Learning 10 classes in 5 tasks on cpu; the run is written to {tmp_path / 'run'}."
    assert lines[1].startswith("task 1 of 5, classes 0 1: accuracy so far memory 1.000, reencoded 1.000")
    assert next(line for line in lines if line.startswith("after task")).split() == (
        ["after", "task", "new", "classes", "memory", "reencoded", "untrained", "floor"]
    )
    last = next(line for line in lines if line.startswith("5 ")).split()
    assert last == ["5", "8", "9", *(f"{results[name]['last']:.3f}" for name in ("memory", "reencoded", "floor"))]
    kept = f"Kept: {results['memory_bytes'] / 1000:,.0f} kB of moments instead of 367 kB of images"
    assert kept in output.replace("\n", " ")
    assert str(tmp_path / "run") in output.replace("\n", "")
    written = {str(path.relative_to(tmp_path / "run")) for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert written == {
        "results.json",
        "config.toml",
        "data.json",
        "metrics.jsonl",
        "checkpoint/after-task-004.safetensors",
        "checkpoint/after-task-005.safetensors",
        ".lock",
        "report.html",
        "pictures/originals.png",
        *(f"pictures/after-task-{number:03d}.png" for number in range(1, 6)),
        "figures/overview.png",
        "figures/replayed.png",
        "figures/reconstructions.png",
        *(f"figures/{name}.svg" for name in FIGURES),
    }
    assert lines[-1] == f"Report: {tmp_path / 'run' / 'report.html'}"
    assert (tmp_path / "run" / "figures" / "overview.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("memory", "said"), [(0.70, True), (0.80, False)])
def test_a_run_that_ends_below_the_floor_says_so(memory: float, said: bool, capsys: pytest.CaptureFixture[str]) -> None:
    results = json.loads((Path(__file__).parents[1] / "cifar10-run" / "results.json").read_text())
    results["memory"]["last"], results["floor"]["last"] = memory, 0.81
    print_results(open_console(), results)
    assert ("worse than its networks untrained" in capsys.readouterr().out) == said


def test_options_override_the_recipe_wherever_it_is_named(tmp_path: Path) -> None:
    for name, arguments in {"first": ["digits-paper", "--seed", "3"], "last": ["--seed", "3", "digits-paper"]}.items():
        out = tmp_path / name
        options = ["--data.tasks", "2", "--memory.samples", "7"] if name == "first" else []
        end = ["--data.tasks", "2", "--memory.samples", "7"] if name == "last" else []
        assert call("run", *arguments, *options, *end, *QUICK, "--out", str(out)) == 0
        results = json.loads((out / "results.json").read_text())
        assert results["recipe"]["name"] == "digits-paper"
        assert (results["seed"], results["recipe"]["data"]["tasks"], results["recipe"]["memory"]["samples"]) == (
            3,
            2,
            7,
        )
        assert results["recipe"]["memory"]["transport"] is False


def test_a_recipe_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        "[network]\nimage_size = 8\nchannels = 1\nwidth = 4\nfeature_dim = 8\n"
        "[classifier]\ncomponents = 3\n[game]\nepochs = 1\nfirst_epochs = 1\n"
    )
    assert call("run", str(tmp_path / "mine.toml"), "--device", "cpu", "--out", str(tmp_path / "run")) == 0
    assert json.loads((tmp_path / "run" / "results.json").read_text())["recipe"]["name"] == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "digit"], "error: Expected a recipe but got 'digit' (did you mean 'digits'?). Known recipes: best-"),
        (["run", "none.toml"], "error: Expected a recipe file but could not read none.toml"),
        (["run", "--game.epochs", "0"], "error: Expected game.epochs to be at least 1 but got 0."),
        (["run", "--game.epochs", "many"], "invalid literal for int()"),
        (["run", "--game.epoch", "3"], "--game.epochs"),
        (["run", "--game.replay", "dead"], "live"),
        (
            ["run", "--data.tasks", "3"],
            "error: Expected a number of tasks that divides the 10 classes of digits but got 3.",
        ),
        (["run", "--device", "cuda:99"], "error: Expected a device of this machine (auto, cpu"),
        (["run", "--network.channels", "2"], "error: Expected network.channels to be 1 or 3, or the 1 of the images"),
        (["run", "--classifier.energy", "0.9"], "error: Expected exactly one of classifier.components and"),
        (["frobnicate"], "frobnicate"),
        ([], "run"),
    ],
)
def test_a_users_mistake_exits_with_2_and_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []  # nothing was begun
    if captured.err.startswith("error:"):
        assert captured.err.count("\n") == 1


def test_a_used_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert call("run", *QUICK, "--out", str(tmp_path)) == 2
    assert "Expected a new or empty folder for the run" in capsys.readouterr().err


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ictrl.ConfigError):
        main(["run", "digit", "--debug"])


def test_a_failure_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diverging = ["--game.learning-rate", "1e30", "--game.first-epochs", "20"]
    assert call("run", *diverging, "--device", "cpu", "--out", str(tmp_path / "run")) == 1
    assert capsys.readouterr().err.startswith("error: Expected finite")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--help"], ["run", "recipes", "--version"]),
        (
            ["run", "--help"],
            ["Examples:", "ictrl run digits-paper --seed 1", "--game.epochs INT", "--anchors.replayed"],
        ),
        (["recipes", "--help"], ["Example:", "ictrl recipes"]),
    ],
)
def test_help_teaches(arguments: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*arguments) == 0
    output = capsys.readouterr().out
    for part in parts:
        assert part in output


def test_help_shows_the_values_of_the_recipe_that_was_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", "digits-paper", "--help") == 0
    assert "(default: 10.0)" in capsys.readouterr().out.split("--objective.lambda-new")[1][:250]


def test_recipes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("recipes") == 0
    output = capsys.readouterr().out
    for name in ictrl.recipe_names():
        assert f"\n{name} " in output


def test_version_by_every_door() -> None:
    expected = f"ictrl {ictrl.__version__}\n"
    for command in ([sys.executable, "-m", "ictrl"], [str(Path(sys.executable).with_name("ictrl"))]):
        assert subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout == expected


def interrupted(out: Path, number: int) -> tuple[int, str]:
    """Exit code and errors of a run that gets a signal in its second task, which takes very long."""
    command = [sys.executable, "-m", "ictrl", "run", "--game.epochs", "100000", "--game.first-epochs", "1"]
    process = subprocess.Popen(
        [*command, "--device", "cpu", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    deadline = time.monotonic() + 120
    while '"task": 2' not in ((out / "metrics.jsonl").read_text() if (out / "metrics.jsonl").exists() else ""):
        assert process.poll() is None
        assert time.monotonic() < deadline
        select.select([], [], [], 0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_writes_a_checkpoint_and_says_how_to_go_on(number: int, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, errors = interrupted(out, number)
    assert code == 130
    assert errors.splitlines() == [
        "Stopping after this epoch; Ctrl-C again stops at once.",
        f"Stopped. Go on with: ictrl resume {out}",
    ]
    files = sorted(path.name for path in (out / "checkpoint").iterdir())
    assert files[0] == "after-task-001.safetensors"
    assert files[1].startswith("task-002-epoch-")


def test_profile_says_where_the_time_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", *QUICK, "--data.tasks", "2", "--profile", "--out", str(tmp_path / "run")) == 0
    table = capsys.readouterr().out.split("where the time went")[1]
    profile = json.loads((tmp_path / "run" / "profile.json").read_text())
    seconds = json.loads((tmp_path / "run" / "results.json").read_text())["seconds"]
    assert profile["seconds"] == seconds
    assert len(profile["tasks"]) == 2
    for laps in profile["tasks"]:
        assert set(laps) >= {"encoder: rates", "encoder: gradient", "decoder: f(X_hat)", "decoder: update"}
        assert all(name in table for name in laps)
    assert sum(sum(laps.values()) for laps in profile["tasks"]) <= seconds["learn"]
    shares = [float(line.split()[-1].rstrip("%")) for line in table.splitlines() if line.endswith("%")]
    assert sum(shares) == pytest.approx(100, abs=1)


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
    assert call("run", *QUICK, "--data.tasks", "1", "--tensorboard", "--out", str(tmp_path / "run")) == 0
    assert {"task-1/encoder.reduction 1", "task-1/decoder.distance_new 1", "accuracy/memory 1"} <= set(written)
    assert written[-1] == "closed"


def test_tensorboard_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert call("run", *QUICK, "--tensorboard", "--out", str(tmp_path / "run")) == 2
    assert "pip install tensorboard" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
