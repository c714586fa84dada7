"""The README says what is true: its code runs, its commands exist, its figures come from files."""

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ictrl
from ictrl.cli import main
from ictrl.recipes.reader import load_recipe, reached, recipe_to_table, recipe_with
from ictrl.experiment.study import load_study, read_published

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
    lines = re.findall(r"^    ictrl (.*?)(?: *#.*)?$", README, flags=re.MULTILINE)
    drawing = {"sample", "walk", "reconstruct", "nearest", "interpolate", "fidelity"}
    running = {"run", "evaluate", "resume", "report", "review", "study"}
    assert {line.split()[0] for line in lines} == {"data", "predict", *running, *drawing}
    for line in lines:
        words = [word for word in line.split() if word != "--help"]
        with pytest.raises(SystemExit) as stopped:
            main([*words, "--help"])
        assert stopped.value.code == 0, line


def benchmark(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_results_files() -> None:
    results = benchmark("results")
    assert results.with_tables(README) == README
    assert results.page() == (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert results.experiments() == (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert results.reached() == reached()


def test_the_page_on_speed_is_that_of_the_measured_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))  # where it finds its neighbour
    measured = json.loads((ROOT / "docs" / "speed.json").read_text(encoding="utf-8"))
    assert benchmark("speed").document(measured) == (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")


def test_published_figures_belong_to_the_recipes_as_they_are() -> None:
    measured = benchmark("results").measured_recipe
    published = json.loads((ROOT / "docs" / "results" / "digits.json").read_text())
    memory = [run["memory"]["last"] for run in published["runs"]["digits"]]
    assert published["seeds"] == [0, 1, 2]
    assert sum(memory) / len(memory) >= 0.95
    runs = [run for runs in published["runs"].values() for run in runs]
    for run in runs:
        recipe = measured(run)
        assert recipe == ictrl.load_recipe(recipe.name)
        assert run["complete"]


def test_published_studies_are_the_studies_as_they_are() -> None:
    measured = benchmark("results").measured_recipe
    folders = [path for path in (ROOT / "docs" / "results").iterdir() if path.is_dir() and path.name != "review"]
    assert folders
    for folder in folders:
        lines = {line.label: line for line in load_study(folder.name).lines}
        chosen_by = folder.name.startswith("choosing-")
        for label, runs in read_published(folder).items():
            for run in runs:
                recipe = measured(run)
                expected = replace(lines[label].recipe, device="auto")
                if chosen_by:  # recipes may be called by other names since
                    recipe = replace(recipe, name=expected.name, description=expected.description)
                assert recipe == expected, label
                assert run["complete"]
                assert run.get("measured_on", "test images") == ("validation" if chosen_by else "test") + " images"


def test_a_run_of_another_study_is_not_made_twice() -> None:
    study = load_study("constraint")
    found = benchmark("results").with_shared(study, {"without the constraint": []})
    (run,) = found["with the constraint"]
    assert run["line"] == "CIFAR-10, 5 tasks, the paper's recipe"
    assert run["seed"] == 0
    assert found["without the constraint"] == []  # its own are kept
    assert "for memory, without the constraint" not in benchmark("results").with_shared(load_study("table1"), {})


def test_reviews_are_put_into_a_table(tmp_path: Path) -> None:
    recipe = recipe_to_table(recipe_with(load_recipe("digits"), {"anchors": {"new": 1.5}}))
    for seed, after in ((0, 0.5), (1, 0.7)):
        cycles = [
            {"cycle": 0, "memory": 0.4, "reencoded": 0.6, "recognised": None, "classes": []},
            {
                "cycle": 1,
                "memory": after,
                "reencoded": 0.65,
                "recognised": 0.9,
                "classes": [{"label": 4, "taken_for": 4 + seed}, {"label": 5, "taken_for": 5}],
            },
        ]
        manner = {"with_labels": False, "merge": False, "doubtful": False, "epochs": 30, "anchors": 5.0}
        about = {"seed": seed, "device": "cuda", "versions": {"torch": "2"}, "recipe": recipe}
        found = {"cycles": cycles, "joint": {"memory": 0.8, "reencoded": 0.8}, **manner, **about}
        (tmp_path / f"{seed}.json").write_text(json.dumps(found))
    page = benchmark("results").reviews(tmp_path)
    assert any("`digits` with anchors.new: 10.0 → 1.5 (" in line and "anchors times 5)" in line for line in page)
    assert "| 0 | 0.400 ± 0.000 | 0.600 ± 0.000 |  |" in page
    assert "| 1 | 0.600 ± 0.141 | 0.650 ± 0.000 | 90% |" in page
    assert "| all classes at once | 0.800 | 0.800 | |" in page  # one run, whatever the seeds
    assert "Not recognised: class 4 of seed 1 was taken for 5 in 1 of 1 cycles." in page
    assert benchmark("results").reviews(tmp_path / "none") == []


def test_the_pictures_are_small() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert len(pictures) >= 5
    assert sum((ROOT / picture).stat().st_size for picture in pictures) < 1_000_000


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_command_is_shown_with_its_output() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    using = ("predict", "sample", "walk", "reconstruct", "nearest", "interpolate", "fidelity")
    running = ("run", "resume", "evaluate", "review", "report", "study")
    for command in (*running, *using, "data list", "data show", "recipes"):
        assert f"$ ictrl {command}" in page
    assert "Traceback" not in page


@pytest.mark.parametrize("command", ["recipes", "study"])
def test_the_listings_are_shown_as_they_are(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert main([command]) == 0
    shown = [line.rstrip() for line in page.splitlines()]
    for line in capsys.readouterr().out.splitlines():
        assert line.rstrip() in shown, "run make docs"
