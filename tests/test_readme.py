"""The README says what is true: its code runs, its commands exist, its figures come from files."""

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import ictrl
from ictrl.cli import main
from ictrl.recipefiles import recipe_from_table

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def indented_block(containing: str) -> str:
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", README, flags=re.MULTILINE)
    return next(re.sub("^    ", "", block, flags=re.MULTILINE) for block in blocks if containing in block)


def test_the_library_in_ten_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The very lines, with one epoch a task."""
    recipe = ictrl.load_recipe("digits")
    quick = replace(recipe, device="cpu", game=replace(recipe.game, epochs=1, first_epochs=1))
    monkeypatch.setattr(ictrl, "load_recipe", lambda name: quick)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(indented_block("from ictrl import ICTRL"), "README.md", "exec"), names)
    score, memory = capsys.readouterr().out.splitlines()
    assert 0.5 < float(score) <= 1
    assert memory.startswith("Memory(10 classes, ")
    assert tuple(names["sheet"].shape) == (16, 1, 16, 16)  # type: ignore[attr-defined]
    assert len(ictrl.ICTRL.load(tmp_path / "digits.safetensors", device="cpu").memory) == 10


def test_the_two_commands_are_targets() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    commands = re.findall(r"^    make ([a-z]+)", README, flags=re.MULTILINE)
    assert commands == ["demo", "test"]
    assert {*commands, "bench", "lint", "format"} <= set(targets)
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_the_commands_parse(capsys: pytest.CaptureFixture[str]) -> None:
    for line in re.findall(r"^    ictrl (.*?)(?: *#.*)?$", README, flags=re.MULTILINE):
        words = [word for word in line.split() if word not in ("my-recipe.toml", "--help")]
        with pytest.raises(SystemExit) as stopped:
            main([*words, "--help"])
        assert stopped.value.code == 0, line


def test_the_table_is_the_one_in_the_results_file() -> None:
    path = ROOT / "benchmarks" / "digits.py"
    spec = importlib.util.spec_from_file_location("benchmarks_digits", path)
    assert spec is not None
    assert spec.loader is not None
    digits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(digits)
    published = json.loads((ROOT / "docs" / "results" / "digits.json").read_text())
    assert digits.with_table(README, published) == README
    memory = [run["memory"]["last"] for run in published["runs"]["digits"]]
    assert published["seeds"] == [0, 1, 2]
    assert sum(memory) / len(memory) >= 0.95
    for name, runs in published["runs"].items():
        for run in runs:  # published figures belong to the recipe as it is now
            assert replace(recipe_from_table(run["recipe"]), seed=0) == ictrl.load_recipe(name)


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
