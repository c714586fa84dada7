"""The command line as a whole: help, exit codes, mistakes in one line."""

import io
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import call

import ictrl
import ictrl.cli
from ictrl.cli import main, parse
from ictrl.cli.run import RunCommand

COMMANDS = [
    "run", "resume", "evaluate", "review", "compare", "study",
    "search", "predict", "teach", "classes", "forget", "serve",
    "sample", "walk", "reconstruct", "nearest", "interpolate", "gallery", "fidelity", "export", "report", "data",
    "recipes", "methods", "migrate",
]  # fmt: skip
QUICK = ["--later.epochs", "1", "--first.epochs", "1", "--device", "cpu"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "digit"], "error: Expected a recipe but got 'digit' (did you mean 'digits'?). Known recipes: auth"),
        (["run", "--seed", "1", "digit"], "error: Expected a recipe but got 'digit' (did you mean 'digits'?)."),
        (["run", "digits-paper"], "error: Expected a recipe but got 'digits-paper' (did you mean 'paper-digits'?)."),
        (["run", "none.toml"], "error: Expected a recipe file but could not read none.toml"),
        (["run", "--seed", "1", "none.toml"], "error: Expected a recipe file but could not read none.toml"),
        (["run", "ictrl-digits", "--later.epochs", "0"], "but got 0: the method frozen is the one that learns nothing"),
        (["run", "ictrl-digits", "--later.epochs", "many"], "invalid literal for int()"),
        (["run", "ictrl-digits", "--later.epoch", "3"], "--later.epochs"),
        (["run", "ictrl-digits", "--game.replay", "dead"], "live"),
        (["run", "ictrl-digits", "--first.batch", "rule"], "error: Expected first.batch to be a number but got"),
        (
            ["run", "ictrl-digits", "--later.weights.lambda-new", "-1"],
            "weights.lambda_new to be at least 0 but got -1.0.",
        ),
        (["run", "finetune-digits", "--first.augmentation.rotations"], "first.augmentation.rotations to be false"),
        (["run", "joint-digits", "--stage.batch", "rule"], "error: Expected stage.batch to be a number but got"),
        (["run", "joint-digits", "--stage.epochs", "0"], "epochs to be at least 1 but got 0."),
        (
            ["run", "ictrl-digits", "--stream.tasks", "3"],
            "error: Expected a number of tasks that divides the 10 classes of digits but got 3.",
        ),
        (["run", "--stream.dataset", "mnits"], "(did you mean 'mnist'?)"),
        (["run", "pictures"], "error: Expected stream.root to be a folder of pictures for stream.dataset folder but"),
        (["run", "--device", "cuda:99"], "error: Expected a device of this machine (auto, cpu"),
        (
            ["run", "ictrl-digits", "--network.channels", "2"],
            "error: Expected network.channels to be 1 or 3, or the 1 of the images",
        ),
        (
            ["run", "ictrl-digits", "--classifier.energy", "0.9"],
            "error: Expected exactly one of classifier.components and",
        ),
        (["run", "digits", "finetune-digits"], "finetune-digits"),
        (["resume", "none"], "error: Expected a run folder but none is not there: `ictrl run` makes one."),
        (["evaluate", "none"], "error: Expected a run folder but none is not there: `ictrl run` makes one."),
        (["review", "none"], "error: Expected a run folder but none is not there: `ictrl run` makes one."),
        (["report", "none"], "error: Expected a run folder but none is not there: `ictrl run` makes one."),
        (["study", "nothing"], "error: Expected a study but got 'nothing'. Known studies: "),
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
    assert call("run", "ictrl-digits", *QUICK, "--out", tmp_path) == 2
    assert "Expected a new or empty folder for the run" in capsys.readouterr().err


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(ictrl.ConfigError):
        main(["run", "digit", "--debug"])


def test_a_failure_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diverging = ["--first.learning-rate", "1e30", "--first.epochs", "20"]
    assert call("run", "ictrl-digits", *diverging, "--device", "cpu", "--out", tmp_path / "run") == 1
    assert capsys.readouterr().err.startswith("error: Expected finite")


def test_what_nobody_foresaw_is_one_line_and_with_debug_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> list[str]:
        raise RuntimeError("out of\n  luck")

    monkeypatch.setattr("ictrl.cli.recipes.recipe_names", fail)
    assert call("recipes") == 1
    assert capsys.readouterr().err == (
        "error: Expected the command to succeed but got RuntimeError: out of luck (the same command with --debug shows "
        "where)\n"
    )
    with pytest.raises(RuntimeError, match="luck"):
        main(["recipes", "--debug"])


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    output = capsys.readouterr().out
    assert f"{{{','.join(COMMANDS)}}}" in output
    assert re.findall(r"• (\w+)", output) == COMMANDS
    assert "--version" in output
    assert "--debug" in output


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_by_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(command, "--help") == 0
    output = capsys.readouterr().out
    assert f"usage: ictrl {command} " in output
    assert "\nExample" in output
    assert f"\n  ictrl {command}" in output


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--help"], ["run", "recipes", "--version"]),
        (
            ["run", "ictrl-digits", "--help"],
            [
                "Examples:",
                "ictrl run paper-digits --seed 1",
                "--later.epochs INT",
                "--later.weights.distill-replayed",
                "feature distillation",
                "--memory.drift-compensation",
                "--first.ema FLOAT",
                "exponential moving average",
                "--first.augmentation.rotations",
            ],
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
    assert call("run", "paper-digits", "--help") == 0
    assert "(default: 10.0)" in capsys.readouterr().out.split("--later.weights.lambda-new")[1][:250]


@pytest.mark.parametrize(
    ("recipe", "sections"),
    [
        (
            "ictrl-digits",
            {"network", "game", "first", "first.weights", "memory", "classifier", "later", "later.weights"},
        ),
        (
            "digits",
            {"network", "trunk", "trunk.self-supervision", "reading", "calibration"}
            | {"learning-on", "learning-on.self-supervision"},
        ),
        ("frozen-digits", {"network", "game", "first", "first.weights", "memory", "classifier"}),
        ("finetune-digits", {"network", "optimiser", "first", "later"}),
        ("joint-digits", {"network", "optimiser", "stage"}),
    ],
)
def test_the_options_of_a_run_are_those_of_its_method(
    recipe: str, sections: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("run", recipe, "--help") == 0
    output = capsys.readouterr().out
    headers = set(re.findall(r"^\W*([\w.-]+) options\W*$", output, re.MULTILINE))
    stages = {section for section in sections if section in ("first", "later", "stage", "trunk", "learning-on")}
    assert headers == sections | {f"{stage}.augmentation" for stage in stages} | {"stream", "checkpoint"}
    assert (" --precision " in output) == (recipe in ("digits", "finetune-digits", "joint-digits"))
    for option in ("--out PATH", "--name STR", "--description STR", "--seed INT", "--device STR", "--network.width"):
        assert f" {option} " in output
    assert "--method" not in output  # the recipe names it


@pytest.mark.parametrize(
    "arguments",
    [
        ["joint-digits", "--stage.epochs", "3", "--seed", "4"],
        ["--stage.epochs", "3", "joint-digits", "--seed", "4"],
        ["--seed", "4", "--profile", "--stage.epochs", "3", "joint-digits"],
        ["--name", "digits", "--out", "mine.toml", "--seed", "4", "joint-digits", "--stage.epochs", "3"],
    ],
)
def test_the_method_is_that_of_the_recipe_wherever_it_is_named(arguments: list[str]) -> None:
    command = parse(["run", *arguments])
    assert isinstance(command, RunCommand)
    assert (command.recipe, command.method.name, command.settings.seed) == ("joint-digits", "joint", 4)
    assert command.method.stage.epochs == 3


def test_version_by_every_door() -> None:
    expected = f"ictrl {ictrl.__version__}\n"
    for command in ([sys.executable, "-m", "ictrl"], [str(Path(sys.executable).with_name("ictrl"))]):
        assert subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout == expected


def test_help_waits_for_nothing_that_it_does_not_need() -> None:
    heavy = {"matplotlib", "sklearn", "scipy", "PIL", "jinja2", "pooch", "tensorboard", "datasets", "ictrl.report"}
    script = (
        "import sys\nfrom ictrl.cli import main\n"
        "for arguments in (['--help'], ['run', '--help']):\n"
        "    try:\n        main(arguments)\n    except SystemExit:\n        pass\n"
        f"print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_whoever_reads_the_output_may_have_seen_enough() -> None:
    script = f"{sys.executable} -m ictrl recipes | head -1"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == ["recipe", "method"]
    assert done.stderr == ""


class Interrupting:
    """A command in which Ctrl-C comes at a given place."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.execute = act


class Destroyed:
    """Ctrl-C comes while it is destroyed, where nothing can be raised."""

    def __del__(self) -> None:
        raise KeyboardInterrupt


def test_ctrl_c_in_a_destructor_stops_the_command_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def act() -> None:
        Destroyed()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            pass

    monkeypatch.setattr(ictrl.cli, "parse", lambda arguments: Interrupting(act))
    assert main(["methods"]) == 130
    assert capsys.readouterr().err == "Stopped.\n"


def test_a_second_ctrl_c_while_the_first_is_answered_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(io.StringIO):
        def write(self, text: str) -> int:
            raise KeyboardInterrupt

    def act() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ictrl.cli, "parse", lambda arguments: Interrupting(act))
    monkeypatch.setattr(sys, "stderr", Interrupted())
    assert main(["methods"]) == 130
