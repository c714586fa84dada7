"""`ictrl run`, of every method: what it prints, and what it leaves in its folder."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_support import Ran
from support import call

import ictrl
from ictrl.experiment.results import Results
from ictrl.recipes.reader import read_resolved

FIGURES = [
    "accuracy", "forgetting", "confusion-memory", "confusion-reencoded", "blocks", "affinity", "energy", "drift-means",
    "drift-subspaces", "kept-bytes",
]  # fmt: skip
QUICK = ["--later.epochs", "1", "--first.epochs", "1", "--device", "cpu"]
TITLES = {
    "memory": "memory: from what the learner kept alone",
    "reencoded": "reencoded: the paper's protocol, refitted from all old training images",
    "untrained": "untrained floor: the same networks before any learning, reencoded",
    "frozen": "frozen floor: never trained again after the first task, reencoded",
}


def lines(text: str) -> list[str]:
    """Without the padding of tables."""
    return [" ".join(line.split()) for line in text.splitlines()]


def accuracies(results: Results, t: int) -> str:
    return ", ".join(f"{protocol} {scores.seen[t]:.3f}" for protocol, scores in results.protocols.items())


def test_run_prints_the_table_and_writes_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", "ictrl-digits", *QUICK, "--out", tmp_path / "run") == 0
    output = capsys.readouterr().out
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    printed = output.splitlines()
    assert printed[0] == f"Learning 10 classes in 5 tasks on cpu; the run is written to {tmp_path / 'run'}."
    assert printed[1].startswith("task 1 of 5, classes 0 1: accuracy so far memory 1.000, reencoded 1.000")
    assert next(line for line in printed if line.startswith("after task")).split() == (
        ["after", "task", "new", "classes", "memory", "reencoded", "untrained", "floor", "frozen", "floor"]
    )
    last = next(line for line in printed if line.startswith("5 ")).split()
    assert last == ["5", "8", "9", *(f"{results[name]['last']:.3f}" for name in TITLES)]
    kept = f"Kept: {results['kept_bytes'] / 1000:,.0f} kB of moments instead of 367 kB of images"
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
        "figures/overview.png",
        "figures/replayed.png",
        *(f"figures/{name}.svg" for name in FIGURES),
    }
    assert printed[-1] == f"Report: {tmp_path / 'run' / 'report.html'}"
    assert (tmp_path / "run" / "figures" / "overview.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_are_kept_where_they_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    options = ["--stream.limit", "12", "--stream.tasks", "2", "--keep-pictures", "2"]
    assert call("run", "ictrl-digits", *QUICK, *options, "--out", out) == 0
    assert sorted(path.name for path in (out / "pictures").iterdir()) == [
        "after-task-001.png",
        "after-task-002.png",
        "originals.png",
    ]
    assert (out / "figures" / "reconstructions.png").exists()
    assert call("resume", out, "--keep-pictures", "0") == 0
    assert not (out / "pictures").exists()
    assert not (out / "figures" / "reconstructions.png").exists()
    assert "--keep-pictures 4" in (out / "report.html").read_text(encoding="utf-8")
    assert call("run", "ictrl-digits", *QUICK, "--keep-pictures", "-1", "--out", tmp_path / "no") == 2
    assert "Expected keep_pictures to be at least 0 but got -1" in capsys.readouterr().err


@pytest.mark.parametrize("recipe", ["ictrl-digits", "frozen-digits", "finetune-digits", "joint-digits"])
def test_every_method_runs_to_its_end_and_says_so(recipe: str, ran: Callable[[str], Ran]) -> None:
    run = ran(recipe)
    assert run.code == 0
    results = Results.read(run.folder / "results.json")
    with_moments = recipe in ("ictrl-digits", "frozen-digits")
    assert list(results.scores) == (list(TITLES) if with_moments else ["memory"])
    printed = lines(run.output)
    said = iter(printed)
    assert next(said) == f"Learning 10 classes in 2 tasks on cpu; the run is written to {run.folder}."
    if recipe == "joint-digits":
        assert next(said) == f"joint keeps every training image: they are in {run.folder}/checkpoint."
    assert [next(said) for _ in range(5)] == [
        f"task 1 of 2, classes 0 1 2 3 4: accuracy so far {accuracies(results, 0)}",
        f"task 2 of 2, classes 5 6 7 8 9: accuracy so far {accuracies(results, 1)}",
        "",
        "Accuracy over all classes seen so far (on 120 test images in the end)",
        "",
    ]
    scores = results.scores.values()
    floors = " untrained floor frozen floor" if with_moments else ""
    assert [next(said) for _ in range(6)] == [
        f"after task new classes {' '.join(results.protocols)}{floors}",
        f"1 0 1 2 3 4 {' '.join(f'{found.seen[0]:.3f}' for found in scores)}",
        f"2 5 6 7 8 9 {' '.join(f'{found.seen[1]:.3f}' for found in scores)}",
        f"average {' '.join(f'{found.average:.3f}' for found in scores)}",
        f"forgetting {' '.join(f'{found.forgetting:.3f}' for found in scores)}",
        "",
    ]
    assert [next(said) for _ in scores] == [TITLES[name] for name in results.scores]
    assert next(said) == ""
    networks = f"and networks with {results.parameters:,} parameters."
    kept = results.kept_bytes / 1000
    expected = {
        "finetune-digits": f"Kept: 0.1 kB where the images had 8 kB (1.0%), {networks}",
        "joint-digits": f"Kept: every training image ({kept:.0f} kB), {networks} Keeping them makes joint an upper "
        "bound to compare with, not a method that does without old images.",
    }
    moments = f"Kept: {kept:,.0f} kB of moments instead of 8 kB of images ({results.kept_bytes / 7680:.0%}), {networks}"
    assert next(said) == expected.get(recipe, moments)
    rest = list(said)
    assert rest[-4:] == [
        f"Learning took {results.seconds['learn']:.0f} s on {results.device}.",
        f"Written to {run.folder}: results.json, figures/, metrics.jsonl, config.toml.",
        f'The learner: ictrl.load_learner("{run.folder}/checkpoint/after-task-002.safetensors")',
        f"Report: {run.folder}/report.html",
    ]
    between = [line.partition(":")[0] for line in rest[:-4]]
    with_moments_alone = ["The moments of a class take the same space however many images it has.", "Replay"]
    assert between[:2] == (with_moments_alone if with_moments else [])
    assert (run.folder / "figures" / "overview.png").exists()
    assert not (run.folder / "pictures").exists()


@pytest.mark.parametrize("recipe", ["ictrl-digits", "frozen-digits", "finetune-digits", "joint-digits"])
def test_the_learner_is_where_the_run_says(recipe: str, ran: Callable[[str], Ran]) -> None:
    (line,) = (line for line in ran(recipe).output.splitlines() if line.startswith("The learner: "))
    learner = eval(line.removeprefix("The learner: "), {"ictrl": ictrl})
    assert learner.classes_.tolist() == list(range(10))
    assert learner.recipe.name == recipe
    assert np.asarray(learner.predict(np.zeros((2, 1, 8, 8), np.uint8))).shape == (2,)


@pytest.mark.parametrize("recipe", ["finetune-digits", "joint-digits"])
def test_a_run_of_any_method_is_evaluated_and_resumed(
    recipe: str, ran: Callable[[str], Ran], capsys: pytest.CaptureFixture[str]
) -> None:
    run = ran(recipe)
    results = Results.read(run.folder / "results.json")
    assert call("evaluate", run.folder) == 0
    assert lines(capsys.readouterr().out) == [
        "Accuracy on the test images of each task after 2 of 2 tasks",
        "",
        "task classes memory",
        f"1 0 1 2 3 4 {results.memory.matrix[1][0]:.3f}",
        f"2 5 6 7 8 9 {results.memory.matrix[1][1]:.3f}",
        f"all {results.memory.last:.3f}",
    ]
    assert call("resume", run.folder) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{run.folder} is finished: all 2 tasks are learned.\n")
    assert said.split("\n\n", 1)[1] == run.output.split("\n\n", 1)[1]


def test_options_override_the_recipe_wherever_it_is_named(tmp_path: Path) -> None:
    for name, arguments in {"first": ["paper-digits", "--seed", "3"], "last": ["--seed", "3", "paper-digits"]}.items():
        out = tmp_path / name
        options = ["--stream.tasks", "2", "--memory.samples", "7"] if name == "first" else []
        end = ["--stream.tasks", "2", "--memory.samples", "7"] if name == "last" else []
        assert call("run", *arguments, *options, *end, *QUICK, "--stream.limit", "20", "--out", out) == 0
        results = json.loads((out / "results.json").read_text())
        recipe = results["recipe"]
        assert recipe["name"] == "paper-digits"
        assert (results["seed"], recipe["stream"]["tasks"], recipe["method"]["memory"]["samples"]) == (3, 2, 7)
        assert recipe["method"]["memory"]["drift_compensation"] is False


def test_a_recipe_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        "[method.network]\nimage_size = 8\nchannels = 1\nwidth = 4\nfeature_dim = 8\n"
        "[method.classifier]\ncomponents = 3\n[method.first]\nepochs = 1\n[method.later]\nepochs = 1\n"
    )
    assert call("run", tmp_path / "mine.toml", "--device", "cpu", "--out", tmp_path / "run") == 0
    assert json.loads((tmp_path / "run" / "results.json").read_text())["recipe"]["name"] == "mine"


def test_a_recipe_of_ones_own_for_another_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text('base = "digits"\n[method]\nname = "finetune"\nfirst.epochs = 1\n')
    options = ["--later.epochs", "1", "--stream.limit", "4", "--device", "cpu", "--name", "bound", "--description", "x"]
    assert call("run", *options, "mine.toml") == 0
    (out,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"bound-\d{8}-\d{6}", out.name)
    recipe = read_resolved(out / "config.toml")
    assert (recipe.name, recipe.description, recipe.method.name) == ("bound", "x", "finetune")
    assert (recipe.method.network.width, recipe.method.first.epochs, recipe.method.later.epochs) == (32, 1, 1)


@pytest.mark.parametrize("name", ["../outside", "/absolute/path", "..", "a b;$(x)", "x" * 300])
def test_the_name_of_a_recipe_chooses_no_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "one" / "two"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    (inside / "mine.toml").write_text(f'base = "finetune-digits"\nname = {json.dumps(name)}\nstream.limit = 4\n')
    assert call("run", "mine.toml", "--first.epochs", "1", "--later.epochs", "1", "--device", "cpu") == 0
    (out,) = (inside / "runs").iterdir()
    assert re.fullmatch(r"[A-Za-z0-9-]{1,120}-\d{8}-\d{6}", out.name)
    assert {path for path in tmp_path.rglob("*") if inside not in path.parents} == {inside.parent, inside}
    assert read_resolved(out / "config.toml").name == name


def test_recipes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("recipes") == 0
    output = capsys.readouterr().out
    for name in ictrl.recipe_names():
        assert f"\n{name} " in output
    assert lines(output)[0] == "recipe method what it shows memory reencoded"
    rows = {line.split()[0]: line.split()[1] for line in output.splitlines()[1:] if line}
    assert (rows["digits"], rows["ictrl-digits"], rows["finetune-digits"]) == ("wide", "ictrl", "finetune")


def test_profile_says_where_the_time_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", "ictrl-digits", *QUICK, "--stream.tasks", "2", "--profile", "--out", tmp_path / "run") == 0
    table = capsys.readouterr().out.split("where the time went")[1]
    profile = json.loads((tmp_path / "run" / "profile.json").read_text())
    seconds = json.loads((tmp_path / "run" / "results.json").read_text())["seconds"]
    assert profile["seconds"] == seconds
    assert len(profile["tasks"]) == 2
    for laps in profile["tasks"]:
        assert set(laps) >= {"encoder: objective", "encoder: gradient", "decoder: f(X_hat)", "decoder: update"}
        assert all(name in table for name in laps)
    assert sum(sum(laps.values()) for laps in profile["tasks"]) <= seconds["learn"]
    shares = [float(line.split()[-1].rstrip("%")) for line in table.splitlines() if line.endswith("%")]
    assert sum(shares) == pytest.approx(100, abs=1)


def test_the_laps_of_cross_entropy_are_in_its_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--stage.epochs", "1", "--stream.limit", "4", "--device", "cpu", "--profile"]
    assert call("run", "joint-digits", *options, "--out", tmp_path / "run") == 0
    table = lines(capsys.readouterr().out.split("where the time went")[1])
    laps = ["gradient", "images", "loss", "update"]
    assert sorted(line.rsplit(" ", 2)[0] for line in table[1:]) == sorted(
        [*laps, "evaluation", "learning, outside of steps", "the floors"]
    )
