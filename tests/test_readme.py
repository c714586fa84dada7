"""The README says what is true: its code runs, its commands do what they say, its figures come from files."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from support import ROOT, call, script

import ictrl
from ictrl.config import StageConfig
from ictrl.experiment.study import load_study
from ictrl.experiment.study_table import read_published
from ictrl.recipes.reader import load_recipe, reached
from ictrl.recipes.tables import recipe_to_table, recipe_with

README = (ROOT / "README.md").read_text(encoding="utf-8")


def indented_block(containing: str) -> str:
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", README, flags=re.MULTILINE)
    return next(re.sub("^    ", "", block, flags=re.MULTILINE) for block in blocks if containing in block)


def quick(recipe: ictrl.Recipe) -> ictrl.Recipe:
    """The recipe with one epoch per task, on the CPU."""
    stages = {
        name: replace(stage, epochs=1) for name, stage in vars(recipe.method).items() if isinstance(stage, StageConfig)
    }
    return replace(recipe, method=replace(recipe.method, **stages), run=replace(recipe.run, device="cpu"))


def test_it_is_short() -> None:
    assert len(README.split()) <= 900


def test_the_library_in_ten_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The very lines, with one epoch per task."""
    recipe = quick(load_recipe("wide-ictrl-digits"))
    monkeypatch.setattr(ictrl, "load_recipe", lambda name: recipe)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(indented_block("from ictrl import create_learner"), "README.md", "exec"), names)
    score, *probabilities = capsys.readouterr().out.splitlines()
    assert 0.5 < float(score) <= 1
    assert "tensor([[" in probabilities[0]
    assert tuple(names["sheet"].shape) == (16, 1, 16, 16)  # type: ignore[attr-defined]
    assert len(ictrl.load_learner(tmp_path / "digits.safetensors", device="cpu").labels) == 10


def test_the_two_commands_are_targets() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    commands = re.findall(r"^    make ([a-z]+)", README, flags=re.MULTILINE)
    assert commands == ["demo", "test"]
    assert {*commands, "bench", "lint", "format", "site"} <= set(targets)
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def draw_shapes(folder: Path) -> None:
    """What the README calls shapes/, more/ and new/."""
    random = np.random.default_rng(0)

    def drawn(kind: int) -> Image.Image:
        pixels = random.integers(0, 60, (20, 20, 3))
        rows, columns = np.mgrid[-10:10, -10:10]
        inside = [rows**2 + columns**2 < 49, np.maximum(abs(rows), abs(columns)) < 6, abs(columns) < (rows + 8) / 2]
        inside.append(np.minimum(abs(rows), abs(columns)) < 2)
        pixels[inside[kind]] = random.integers(150, 250, 3)
        return Image.fromarray(pixels.astype(np.uint8))

    for kind, name in enumerate(("shapes/circle", "shapes/square", "shapes/triangle", "more/cross")):
        (folder / name).mkdir(parents=True)
        for i in range(25):
            drawn(kind).save(folder / name / f"{i}.png")
    (folder / "new").mkdir()
    drawn(2).save(folder / "new" / "first.png")
    drawn(0).save(folder / "new" / "second.jpg")


def test_every_command_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them, in the order of the README, in one folder; with one epoch per task."""
    lines = re.findall(r"^    ictrl (.*?)(?: +#.*)?$", README, flags=re.MULTILINE)
    assert [line.split()[0] for line in lines] == [
        "run",
        "resume",
        "report",
        "data",
        "run",
        "predict",
        "teach",
        "serve",
        "compare",
    ]
    monkeypatch.setattr("ictrl.cli.parsing.load_recipe", lambda name: quick(load_recipe(name)))
    monkeypatch.setattr("ictrl.experiment.comparison.load_recipe", lambda name: quick(load_recipe(name)))
    monkeypatch.chdir(tmp_path)
    draw_shapes(tmp_path)
    for line in lines:
        if (command := shlex.split(line))[0] == "serve":
            with script("serving").served(Path(*command[1:])) as server:
                assert httpx.get(f"{server.url}/healthz").json()["classes"] == 4
        else:
            assert call(*command) == 0, line
    said = capsys.readouterr().out
    assert "runs/digits is finished: all 5 tasks are learned." in said
    assert "shapes as 32×32 colour: 3 classes in 2 tasks" in said
    assert re.search(r"new/first.png +(circle|square|triangle) ", said)
    assert "The learner knows 4 classes now: runs/shapes/taught.safetensors" in said
    assert re.findall(r"^\| ([a-z-]*pictures) \|", said, flags=re.MULTILINE) == ["pictures", "er-pictures"]
    assert (tmp_path / "runs" / "digits" / "report.html").exists()
    assert (tmp_path / "runs" / "shapes" / "report.html").exists()


def test_the_commands_that_are_named_exist() -> None:
    named = set(re.findall(r"^    ictrl (\w+)", README, flags=re.MULTILINE))
    assert len(named) >= 5
    for name in named:
        assert call(name, "--help") == 0


def test_the_tables_are_those_of_the_results_files() -> None:
    publish = script("publish")
    assert publish.with_tables(README) == README
    assert publish.page() == (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert publish.experiments() == (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert publish.reached() == reached()


def test_the_page_on_wide_memory_is_that_of_the_files() -> None:
    wide = script("publish_wide")
    assert wide.page() == wide.PAGE.read_text(encoding="utf-8")
    assert wide.tried() == wide.TRIED_PAGE.read_text(encoding="utf-8")
    assert wide.curve_figure(wide.read("curve")).startswith(b"<svg")


def test_the_page_on_speed_is_that_of_the_measured_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))  # where it finds its neighbour
    measured = json.loads((ROOT / "docs" / "speed.json").read_text(encoding="utf-8"))
    assert script("speed").document(measured) == (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")


def test_published_figures_belong_to_the_recipes_as_they_are() -> None:
    publish = script("publish")
    published = publish.digits_runs()
    memory = [found.memory.last for found in published["ictrl-digits"]]
    assert [found.seed for found in published["ictrl-digits"]] == [0, 1, 2]
    assert sum(memory) / len(memory) >= 0.95
    for found in (found for runs in published.values() for found in runs):
        recipe = publish.measured_recipe(found)
        assert recipe == publish.stripped(load_recipe(recipe.name))
        assert found.complete


def test_published_studies_are_the_studies_as_they_are() -> None:
    publish = script("publish")
    named = (
        "review",
        "digits.json",
        "curve",
        "seconds",
        "unknown",
        "privacy",
        "onnx",
        "serve",
        "attack",
        "parallel",
        "scale",
        "drawings",
    )  # of no study
    folders = [path for path in (ROOT / "docs" / "results").iterdir() if path.name not in named and path.is_dir()]
    studies = [(load_study(folder.name), folder, "test images") for folder in folders]
    studies += [(study, folder, "validation images") for study, folder in publish.choosing()]
    assert len(studies) > 20
    for study, folder, images in studies:
        lines = {line.label: line for line in study.lines}
        for label, runs in read_published(folder).items():
            for found in runs:
                expected = publish.stripped(lines[label].recipe)
                recipe = publish.measured_recipe(found)
                if images == "validation images":  # recipes may be called by other names since
                    recipe = replace(recipe, name=expected.name)
                assert recipe == expected, label
                assert found.complete
                assert found.measured_on == images


def test_no_published_row_of_wide_is_below_its_floors() -> None:
    publish = script("publish")
    rows = [runs for study in ("best", "other-data") for runs in read_published(publish.RESULTS / study).values()]
    rows += [runs for runs in publish.digits_runs().values() if runs[0].recipe.method.name.startswith("wide")]
    assert len(rows) > 10
    for runs in rows:
        memory, *floors = (sum(found.scores[name].last for found in runs) for name in ("memory", "untrained", "frozen"))
        assert memory / len(runs) >= max(floors) / len(runs) - 0.005, runs[0].line


def test_a_run_of_another_study_is_not_made_twice() -> None:
    publish = script("publish")
    study = load_study("constraint")
    found = publish.with_shared(study, {"without the constraint": []})
    (run,) = found["with the constraint"]
    assert run.line == "CIFAR-10, 5 tasks, the paper's recipe"
    assert run.seed == 0
    assert found["without the constraint"] == []  # its own are kept
    assert "for memory, without the constraint" not in publish.with_shared(load_study("table1"), {})


def test_reviews_are_put_into_a_table(tmp_path: Path) -> None:
    changed = {"method": {"later": {"weights": {"distill_new": 1.5}}}}
    recipe = recipe_to_table(recipe_with(load_recipe("ictrl-digits"), changed))
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
        manner = {"with_labels": False, "merge": False, "doubtful": False, "epochs": 30, "distillation": 5.0}
        about = {"seed": seed, "device": "cuda", "versions": {"torch": "2"}, "recipe": recipe}
        found = {"cycles": cycles, "joint": {"memory": 0.8, "reencoded": 0.8}, **manner, **about}
        (tmp_path / f"{seed}.json").write_text(json.dumps(found))
    publish = script("publish")
    page = publish.reviews(tmp_path)
    changed_line = "`ictrl-digits` with method.later.weights.distill_new: 10.0 → 1.5 ("
    assert any(changed_line in line and "distillation times 5)" in line for line in page)
    assert "| 0 | 0.400 ± 0.000 | 0.600 ± 0.000 |  |" in page
    assert "| 1 | 0.600 ± 0.141 | 0.650 ± 0.000 | 90% |" in page
    assert "| all classes at once | 0.800 | 0.800 | |" in page  # one run, whatever the seeds
    assert "Not recognised: class 4 of seed 1 was taken for 5 in 1 of 1 cycles." in page
    assert publish.reviews(tmp_path / "none") == []


def test_the_pictures_are_small() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert len(pictures) == 2
    assert sum((ROOT / picture).stat().st_size for picture in pictures) < 1_000_000


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_command_is_shown_with_its_output() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    using = (
        "predict",
        "teach",
        "classes",
        "forget",
        "serve",
        "sample",
        "walk",
        "reconstruct",
        "nearest",
        "interpolate",
        "gallery",
        "fidelity",
    )
    running = ("run", "resume", "evaluate", "review", "report", "compare", "study", "migrate")
    for command in (*running, *using, "data list", "data show", "recipes"):
        assert f"$ ictrl {command}" in page
    assert "Traceback" not in page


@pytest.mark.parametrize("command", ["recipes", "study"])
def test_the_listings_are_shown_as_they_are(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert call(command) == 0
    shown = [line.rstrip() for line in page.splitlines()]
    for line in capsys.readouterr().out.splitlines():
        assert line.rstrip() in shown, "run make docs"
