"""What a run's table says below it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ictrl import load_recipe
from ictrl.cli.output import class_list, open_console, print_kept, print_results
from ictrl.experiment.results import Results

STORED = Path(__file__).parents[1] / "cifar10-run" / "results.json"


@pytest.mark.parametrize(("memory", "said"), [(0.70, True), (0.80, False)])
def test_a_run_that_ends_below_the_floor_says_so(memory: float, said: bool, capsys: pytest.CaptureFixture[str]) -> None:
    results = Results.read(STORED)
    assert results.untrained is not None
    results = replace(
        results, memory=replace(results.memory, last=memory), untrained=replace(results.untrained, last=0.81)
    )
    print_results(open_console(), results)
    assert ("worse than its networks untrained" in capsys.readouterr().out) == said


def test_a_method_without_moments_has_no_floor_to_be_below(capsys: pytest.CaptureFixture[str]) -> None:
    results = replace(Results.read(STORED), reencoded=None, untrained=None, frozen=None, replay=None)
    print_results(open_console(), results)
    output = capsys.readouterr().out
    assert "untrained floor" not in output
    assert "reencoded" not in output
    assert "ictrl has no floors" in output
    assert "Replay" not in output


@pytest.mark.parametrize(
    ("reencoded", "keeps_images", "expected"),
    [
        (
            True,
            False,
            "Kept: 50 kB of moments instead of 200 kB of images (25%), and networks with 1,234 parameters.\n"
            "The moments of a class take the same space however many images it has.\n",
        ),
        (False, False, "Kept: 50.0 kB where the images had 200 kB (25.0%), and networks with 1,234 parameters.\n"),
        (
            False,
            True,
            "Kept: 50 kB, training images among it, of 200 kB of images (25.0%), and networks with 1,234 parameters.\n",
        ),
        (
            False,
            "every",
            "Kept: every training image (200 kB), and networks with 1,234 parameters. Keeping them makes ictrl an "
            "upper bound to compare with, not a method that does without old images.\n",
        ),
    ],
)
def test_what_is_kept(
    reencoded: bool, keeps_images: bool | str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = 200_000 if keeps_images == "every" else 50_000
    results = replace(Results.read(STORED), kept_bytes=kept, image_bytes=200_000, parameters=1234)
    print_kept(open_console(), results if reencoded else replace(results, reencoded=None), bool(keeps_images))
    assert capsys.readouterr().out == expected


def test_replay_that_is_poor_comes_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    for share, advice in ((0.79, True), (0.8, False)):
        print_results(open_console(), replace(Results.read(STORED), replay=[share]))
        output = capsys.readouterr().out
        assert f"Replay: {share:.0%} of the features drawn from memory are still recognised" in output
        assert ("Other epochs or another learning rate may help" in output) == advice


def test_images_that_are_drawn_are_said_to_be_images(capsys: pytest.CaptureFixture[str]) -> None:
    results = Results.read(STORED)
    drawn = replace(results, replay=[0.9], recipe=load_recipe("mergan-digits"))
    print_results(open_console(), drawn)
    assert "Replay: 90% of the images drawn of all classes are recognised.\n" in capsys.readouterr().out


def test_many_classes_are_cut_short() -> None:
    names = {0: "cat", 1: "dog"}
    assert class_list([0, 1, 2], names) == "cat dog 2"
    assert class_list(list(range(12)), {}) == "0 1 2 3 4 5 6 7 8 … (12)"


def test_results_of_version_0_1_are_printed_as_todays(capsys: pytest.CaptureFixture[str]) -> None:
    old = json.loads(STORED.read_text())
    print_results(open_console(), Results.read(STORED))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    last = next(line for line in lines if line[:1] == [str(len(old["tasks"]))])
    assert last[-len(Results.read(STORED).scores) :][0] == f"{old['memory']['last']:.3f}"
