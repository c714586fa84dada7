"""Options that are not there, but that somebody may well type."""

import re

import pytest
from support import call

from ictrl.cli.unknown_options import check_names
from ictrl.config import METHODS
from ictrl.errors import ConfigError
from ictrl.recipes.legacy import SETTINGS


@pytest.mark.parametrize(
    ("typed", "now"),
    [
        ("--game.epochs", "--later.epochs"),
        ("--game.first-epochs", "--first.epochs"),
        ("--game.first_epochs", "--first.epochs"),
        ("--game.learning-rate=1e-3", "--first.learning-rate and --later.learning-rate"),
        ("--game.averaged", "--first.ema and --later.ema"),
        ("--game.first-turns", "--first.augmentation.rotations"),
        ("--game.no-flips", "--first.augmentation.no-mirror and --later.augmentation.no-mirror"),
        ("--objective.lambda-new", "--later.weights.lambda-new"),
        ("--objective.eps-sq", "--game.eps-sq"),
        ("--anchors.replayed", "--later.weights.distill-replayed"),
        ("--memory.transport", "--memory.drift-compensation"),
        ("--memory.no-transport", "--memory.no-drift-compensation"),
        ("--classifier.mirrored", "--classifier.mirror"),
        ("--data.root", "--stream.root"),
        ("--data.name", "--stream.dataset"),
    ],
)
def test_an_old_option_is_refused_with_the_new_one(typed: str, now: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", typed, "3") == 2
    name = typed.partition("=")[0]
    assert capsys.readouterr().err == f"error: Expected an option of this version but {name} is now {now}.\n"


def test_every_old_option_is_known_today_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", "ictrl-digits", "--help") == 0
    there = set(re.findall(r"--[\w.-]+", capsys.readouterr().out))
    old = {"--" + name.replace("_", "-") for name in SETTINGS}
    assert len(old - there) > 30
    for option in old - there:
        with pytest.raises(ConfigError) as refused:
            check_names([option])
        now = str(refused.value).split(" is now ")[1].rstrip(".").split(" and ")
        assert there.issuperset(now), option
    check_names(sorted(there))


def test_an_old_option_of_another_command_is_refused_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("data", "show", "--data.tasks", "2") == 2
    assert capsys.readouterr().err == (
        "error: Expected an option of this version but --data.tasks is now --stream.tasks.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method.later.epochs", "3"], "Expected --later.epochs but got --method.later.epochs: options leave out"),
        (["--method.memory.no-drift-compensation"], "Expected --memory.no-drift-compensation but got --method.memory"),
        (["--run.seed=3"], "Expected --seed but got --run.seed: options leave out `run.`."),
        (["--method", "joint"], "Expected a recipe that names the method but got --method: `ictrl recipes` lists"),
        (["--method.name=joint"], "Expected a recipe that names the method but got --method.name: `ictrl recipes`"),
        (
            ["finetune-digits", "--game.eps-sq", "1"],
            "Expected an option of finetune, the method of finetune-digits, but --game.eps-sq is one of frozen and "
            "ictrl: `ictrl run finetune-digits --help` lists those that there are.",
        ),
        (
            ["frozen-digits", "--later.epochs", "1"],
            "Expected an option of frozen, the method of frozen-digits, but --later.epochs is one of ictrl and",
        ),
        (
            ["ictrl-digits", "--stage.epochs", "1"],
            "Expected an option of ictrl, the method of ictrl-digits, but --stage.epochs is one of",
        ),
        (
            ["ictrl-digits", "--precision", "float32"],
            "Expected an option of ictrl, the method of ictrl-digits, but --precision is one of",
        ),
        (
            ["joint-digits", "--memory.no-drift-compensation"],
            "Expected an option of joint, the method of joint-digits, but --memory.no-drift-compensation is one of",
        ),
    ],
)
def test_another_name_and_another_method_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("run", *arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_an_option_of_no_method_is_left_to_the_parser(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", "ictrl-digits", "--memory.direction", "3") == 2
    assert "--memory.directions INT" in capsys.readouterr().err  # perhaps that was meant
    assert set(METHODS) >= {"ictrl", "frozen", "finetune", "joint"}
