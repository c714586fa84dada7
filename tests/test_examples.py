"""The examples run, are short, and do what they say."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from ictrl.config import METHODS
from ictrl.data import registry
from ictrl.methods.base import LEARNERS

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
SAID = {
    "own_arrays": r"memory (?P<accuracy>[\d.]+), reencoded [\d.]+, [\d,]+ bytes kept",
    "own_backbone": r"ICTRL\('ictrl-digits', 10 classes, 62177 parameters, \w+\) accuracy from memory "
    r"(?P<accuracy>[\d.]+)",
    "own_dataset": r"accuracy from memory (?P<accuracy>[\d.]+)",
    "own_method": r"memory (?P<accuracy>[\d.]+), [\d,]+ bytes kept, 0 parameters",
    "own_pictures": r"circle square bar accuracy (?P<accuracy>[\d.]+)",
    "own_term": r"accuracy from memory (?P<accuracy>[\d.]+); L1 norm from (?P<before>[\d.]+) to (?P<after>[\d.]+)",
}


def test_there_is_an_example_for_each_thing_to_extend() -> None:
    assert [path.stem for path in EXAMPLES] == sorted(SAID)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.dataset_names()  # imports the readers
    registers = METHODS, LEARNERS, registry.ENTRIES
    before = [dict(known) for known in registers]
    monkeypatch.setattr(sys, "argv", [str(path), str(tmp_path / "run")])
    monkeypatch.chdir(tmp_path)
    try:
        runpy.run_path(str(path), run_name="__main__")
    finally:  # what an example registers is gone after it
        for known, names in zip(registers, before):
            known.clear()
            known.update(names)  # type: ignore[arg-type]
    said = re.fullmatch(SAID[path.stem], capsys.readouterr().out.strip())
    assert said is not None
    assert float(said["accuracy"]) > 0.8
    if path.stem == "own_term":
        assert float(said["after"]) < float(said["before"])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_about_twenty_lines(path: Path) -> None:
    text = path.read_text(encoding="utf-8").split('"""', 2)[2]
    assert len([line for line in text.splitlines() if line.strip()]) <= 32, "without its docstring and blank lines"
