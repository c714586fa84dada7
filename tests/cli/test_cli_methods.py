"""`ictrl methods`: every method in a line."""

import pytest
from support import call

from ictrl.cli.methods import best_recipes, summary
from ictrl.methods.base import LEARNERS
from ictrl.recipes.reader import reached


def test_every_method_is_listed_with_what_it_does_and_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("methods") == 0
    table, said = capsys.readouterr().out.strip().split("\n\n")
    assert "whoever has the file of one that keeps images has these images" in " ".join(said.split())
    lines = table.splitlines()
    assert [line.split()[0] for line in lines[1:]] == sorted(LEARNERS)
    for line in lines[1:]:
        name = line.split()[0]
        assert summary(name) in line
        assert len(summary(name)) > 20
        assert LEARNERS[name].keeps in line
        assert LEARNERS[name].keeps_images == ("image" in LEARNERS[name].keeps)


def test_what_a_method_reached_is_its_best_published_figure() -> None:
    found = best_recipes()
    wide = reached()["best-cifar10-5"]["memory"]["last"]
    assert found["wide"] == f"{wide:.3f} (best-cifar10-5)"
    assert found["ictrl"].endswith("(ictrl-cifar10-5)")


def test_a_recipe_without_a_file_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = {"er-cifar10-5": {"memory": {"last": 0.5}}, "er-mnist-5": {"memory": {"last": 0.9}}}
    monkeypatch.setattr("ictrl.cli.methods.reached", lambda: measured)
    assert best_recipes() == {"er": "0.500 (er-cifar10-5)"}


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("methods", "--help") == 0
    assert "ictrl run er-digits" in capsys.readouterr().out
