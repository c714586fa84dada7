"""A study is a set of runs, named and planned, and the one table that they answer."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_support import quick
from study_support import write_study

from ictrl import ConfigError, InputError, Recipe, Results, load_recipe
from ictrl.cli import main
from ictrl.experiment.study import Line, Planned, Study, chosen, load_study, plan, study_names
from ictrl.experiment.study_table import COLUMNS, mean_scores, publish, read_published, results_of, table
from ictrl.experiment.study_workers import carry_out
from ictrl.recipes.tables import recipe_with


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return write_study(tmp_path)


@pytest.fixture(scope="module")
def carried_out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, list[Planned], Path]:
    """The study with all its runs done; to look at, not to change."""
    folder = tmp_path_factory.mktemp("study")
    study = write_study(folder)
    planned = plan(study, folder / "out")
    carry_out(study, planned, folder / "out")
    return study, planned, folder / "out"


# planning


def test_a_study_is_planned_line_by_line_and_seed_by_seed(study: Study, tmp_path: Path) -> None:
    planned = plan(study, tmp_path / "out", root="here", device="cpu")
    methods: list[Any] = [item.recipe.method for item in planned]
    assert [item.folder.name for item in planned] == ["lambda-3-seed0", "lambda-3-seed1", "lambda-10-seed0"]
    assert [method.later.weights.lambda_new for method in methods] == [3.0, 3.0, 10.0]
    assert [item.recipe.run.seed for item in planned] == [0, 1, 0]
    without = replace(methods[0].later.weights, lambda_new=10.0, distill_replayed=0.0)
    assert methods[2].later.weights == without
    assert [item.recipe.stream.root for item in planned] == [str(Path("here").resolve())] * 3
    home = plan(study, tmp_path / "out", root="~/here", device="cpu")
    assert [item.recipe.stream.root for item in home] == [str(Path("~/here").expanduser().resolve())] * 3
    for name in ("digits", "letters"):  # which come with the package
        embedded = replace(study, lines=(replace(study.lines[0], recipe=load_recipe(name)),))
        assert plan(embedded, tmp_path, root="here")[0].recipe.stream.root is None
    assert [method.later.epochs for method in methods] == [1, 1, 1]
    assert [item.seed for item in plan(study, tmp_path, seeds=[7])] == [7, 7]


@pytest.mark.parametrize(
    ("recipe", "epochs"),
    [
        (quick(), 4 + 2 * 4),
        (quick(method={"later": {"epochs": 1}}), 4 + 2),
        (quick(stream={"tasks": 5}), 5 * 4),
        (quick("frozen"), 4),  # which learns nothing in its later tasks
        (quick("finetune"), 3 * 4),
        (quick("joint"), 3 * 4),
    ],
    ids=["ictrl", "later", "five tasks", "frozen", "finetune", "joint"],
)
def test_how_many_epochs_a_run_will_have(recipe: Recipe, epochs: int, tmp_path: Path) -> None:
    item = Planned(Line("a line", recipe, (0,), {}), 0, tmp_path, recipe)
    assert item.epochs == (0, epochs)
    (tmp_path / "metrics.jsonl").write_text("{}\n" * 3)
    assert item.epochs == (3, epochs)


def test_a_finished_run_has_played_all_its_epochs(carried_out: tuple[Study, list[Planned], Path]) -> None:
    _, planned, _ = carried_out
    assert [item.epochs for item in planned] == [(4, 4)] * 3


@pytest.mark.parametrize("name", study_names())
def test_every_study_can_be_planned(name: str, tmp_path: Path) -> None:
    study = load_study(name)
    planned = plan(study, tmp_path)
    assert study.description
    assert len({item.folder for item in planned}) == len(planned)
    if name not in (
        "precision",
        "methods-digits",
        "best",
        "other-data",
        "rivals",
        "references",
        "generative",
        "generative-digits",
    ):  # questions of our own
        theirs = ("paper-", "authors-")
        papers = [line.recipe for line in study.lines if line.paper and line.recipe.name.startswith(theirs)]
        assert papers, "what the paper reports stands beside the paper's recipe or the authors'"
        assert all(item.recipe.stream.validation == 0 for item in planned)


CHOOSING = sorted((Path(__file__).parents[2] / "experiments").glob("choosing-*.toml"))


@pytest.mark.parametrize("path", CHOOSING, ids=lambda path: path.stem)
def test_settings_are_never_chosen_by_what_is_reported(path: Path, tmp_path: Path) -> None:
    """Not by the test images, nor with the seeds or orders of classes that are reported."""
    study = load_study(path)
    planned = plan(study, tmp_path)
    assert study.description
    assert len({item.folder for item in planned}) == len(planned)
    for item in planned:
        assert item.recipe.stream.validation > 0
        assert item.recipe.stream.class_order_seed is not None
        assert item.seed > 10


def test_there_are_studies_that_chose_settings() -> None:
    assert len(CHOOSING) >= 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lines = 3", "at least one"),
        ("seeds = [0]", "at least one"),
        ("[[lines]]\nrecipe = 'digits'", "label"),
        ("[[lines]]\nlabel = 'a'\nrecipe = 'digist'", "did you mean 'digits'"),
        ("[[lines]]\nlabel = 'a'\nrecipe = 'digits'\nseeds = 0", "list of whole numbers"),
        (
            "[[lines]]\nlabel = 'a'\nrecipe = 'ictrl-digits'\nsettings.method.later.epoch = 3",
            "method.later.epoch.*did you mean 'epochs'",
        ),
        (
            "[[lines]]\nlabel = 'a'\nrecipe = 'digits'\nsettings.anchors.new = 3",
            "today's names of settings but anchors.new is now method.later.weights.distill_new: `ictrl migrate",
        ),
        ("[[lines]]\nlabel = 'a'\nrecipe = 'digits'\npapers = 3", "got 'papers'"),
        ("[[lines]]\nlabel = 'a'\nrecipe = 'digits'\npaper = { best = 1 }", "got 'best'"),
        ("[[lines]]\nlabel = 'a b'\nrecipe = 'digits'\n[[lines]]\nlabel = 'A-b'\nrecipe = 'digits'", "a-b comes twice"),
        (
            "recipe = 'ictrl-digits'\n[[lines]]\nlabel = 'a'\n[[lines]]\nlabel = 'b'\n"
            "settings.method.later.weights.lambda_new = 3.0",
            "'a' and 'b' are the same",
        ),
        ("settings = 3\n[[lines]]\nlabel = 'a'\nrecipe = 'digits'", "settings to be a table"),
        ("[[lines]]\nlabel = '{a}'\nrecipe = 'digits'\neach = 3", "each to name lists of values"),
        ("[[lines]]\nlabel = '{a}'\nrecipe = 'digits'\neach = { a = [] }", "each to name lists of values"),
        ("[[lines]]\nlabel = 'one'\nrecipe = 'digits'\neach = { a = [1, 2] }", "one comes twice"),
        ("[[lines", "Expected TOML"),
    ],
)
def test_a_wrong_study_is_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_study(path)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("label = 'b'\nrecipe = 'ictrl-digits'\nsettings.method.later.epochs = -3", "in line 'b'"),
        ("label = '{n} epochs'\neach = {n = [3, -3]}\nsettings.method.later.epochs = '{n}'", "in line '-3 epochs'"),
        ("recipe = 'digits'", "in line 2"),
    ],
)
def test_the_line_with_an_impossible_setting_is_named(text: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(f"recipe = 'ictrl-digits'\n[[lines]]\nlabel = 'a'\n[[lines]]\n{text}")
    with pytest.raises(ConfigError, match=named) as error:
        load_study(path)
    assert str(path) in str(error.value)


def test_one_entry_stands_for_many_lines(tmp_path: Path) -> None:
    path = tmp_path / "many.toml"
    path.write_text(
        "[[lines]]\nlabel = '{method} with {images} images'\nrecipe = '{method}-digits'\n"
        "settings.method.buffer.images = '{images}'\neach = { method = ['er', 'icarl'], images = [20, 50] }\n"
    )
    lines = load_study(path).lines
    assert [line.label for line in lines] == [f"{m} with {n} images" for m in ("er", "icarl") for n in (20, 50)]
    assert [line.recipe.method.name for line in lines] == ["er", "er", "icarl", "icarl"]
    recipes: list[Any] = [line.recipe for line in lines]
    assert [recipe.method.buffer.images for recipe in recipes] == [20, 50, 20, 50]  # numbers, not texts


def test_an_unknown_study_names_those_there_are() -> None:
    with pytest.raises(ConfigError, match="Known studies: .*cifar100, constraint, "):
        load_study("tabel1")


def test_only_some_lines(study: Study) -> None:
    assert [line.label for line in chosen(study, ["= 10"]).lines] == ["λ = 10"]
    assert chosen(study, []) is study
    with pytest.raises(InputError, match="none has seven"):
        chosen(study, ["seven"])


# tables


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().removeprefix("|").removesuffix("|").split("|")]


def test_the_table_has_every_figure(carried_out: tuple[Study, list[Planned], Path], tmp_path: Path) -> None:
    study, planned, out = carried_out
    publish(study, planned, tmp_path / "published")
    published = read_published(tmp_path / "published")
    assert {label: [r.seed for r in runs] for label, runs in published.items()} == {"λ = 3": [0, 1], "λ = 10": [0]}
    assert all(r.recipe.stream.root is None for runs in published.values() for r in runs)
    assert all(r.line == label for label, runs in published.items() for r in runs)
    text = table(study, published)
    assert text + "\n" == (out / "table.md").read_text() == table(study, results_of(planned)) + "\n"
    head, rule, first, second = text.splitlines()
    assert cells(head) == list(COLUMNS)
    assert cells(head)[1:5] == ["paper, reencoded", "reencoded", "memory", "untrained"]
    assert rule == "|" + " --- |" * len(COLUMNS)
    runs = published["λ = 3"]
    mean = sum(r.memory.last for r in runs) / 2
    spread = abs(runs[0].memory.last - runs[1].memory.last) / 2**0.5
    average = sum(r.memory.average for r in runs) / 2
    found = dict(zip(COLUMNS, cells(first)))
    assert cells(first)[:2] == ["λ = 3", "0.900 / 0.950"]
    assert found["memory"] == f"{mean:.3f} ± {spread:.3f} / {average:.3f}" == mean_scores([r.memory for r in runs])
    assert found["seeds"] == "0, 1"
    frozen = published["λ = 10"][0].frozen
    assert frozen is not None
    assert dict(zip(COLUMNS, cells(second)))["frozen after task 1"] == f"{frozen.last:.3f} / {frozen.average:.3f}"
    assert dict(zip(COLUMNS, cells(second)))["paper, reencoded"] == ""


def test_a_table_of_some_columns(carried_out: tuple[Study, list[Planned], Path]) -> None:
    study, planned, _ = carried_out
    head, _, first, _ = table(study, results_of(planned), ["", "seeds"]).splitlines()
    assert (cells(head), cells(first)) == (["", "seeds"], ["λ = 3", "0, 1"])


def test_lines_without_results_are_left_out(carried_out: tuple[Study, list[Planned], Path], tmp_path: Path) -> None:
    study, planned, _ = carried_out
    assert len(table(study, results_of(planned[2:])).splitlines()) == 3
    assert len(table(study, {}).splitlines()) == 2
    elsewhere = [replace(item, folder=tmp_path / item.folder.name) for item in planned]
    assert results_of(elsewhere) == {}
    assert mean_scores([]) == ""


METHODS = """
recipe = "ictrl.toml"
seeds = [0]
[[lines]]
label = "ictrl"
[[lines]]
label = "frozen"
settings.method.name = "frozen"
[[lines]]
label = "finetune"
settings.method.name = "finetune"
[[lines]]
label = "joint"
settings.method.name = "joint"
settings.method.stage = { epochs = 1, batch = 12 }
"""


def test_a_study_compares_methods_and_leaves_blank_what_they_do_not_have(tmp_path: Path) -> None:
    """One recipe, whose settings every method takes over as far as it knows them."""
    from ictrl.recipes.tables import to_toml

    recipe = quick(stream={"tasks": 2}, method={"first": {"epochs": 1}, "later": {"epochs": 1}})
    (tmp_path / "ictrl.toml").write_text(to_toml(recipe), encoding="utf-8")
    (tmp_path / "methods.toml").write_text(METHODS)
    study = load_study(tmp_path / "methods.toml")
    assert [line.recipe.method.name for line in study.lines] == ["ictrl", "frozen", "finetune", "joint"]
    planned = plan(study, tmp_path / "out")
    carry_out(study, planned, tmp_path / "out")
    _, _, *rows = (tmp_path / "out" / "table.md").read_text().splitlines()
    found = {cells(row)[0]: dict(zip(COLUMNS, cells(row))) for row in rows}
    features = ["reencoded", "untrained", "frozen after task 1", "replay"]
    for method in ("ictrl", "frozen"):
        assert all(found[method][column] for column in ["memory", *features])
    for method in ("finetune", "joint"):
        assert found[method]["memory"]
        assert [found[method][column] for column in features] == [""] * 4
    assert found["frozen"]["memory"] == found["frozen"]["reencoded"] == found["ictrl"]["frozen after task 1"]
    kept = {item.line.label: results.kept_bytes for item in planned if (results := item.results)}
    assert kept["finetune"] == 8 * 10
    assert kept["joint"] == 120 * (64 + 8) + 8 * 10
    assert [found[method]["kept"] for method in ("finetune", "joint")] == ["0 kB", "9 kB"]


# the command


def test_the_command(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where users are, with paths from there
    out = Path("out")
    arguments = ["study", "lambda.toml", "--out", str(out), "--seeds", "3"]
    assert main([*arguments, "--publish", "published"]) == 0
    shown = capsys.readouterr().out
    assert "What λ does to the digits\nRuns: 2, still to be done: 2; written to out/lambda." in shown
    assert (out / "lambda" / "table.md").read_text().strip() in shown
    names = sorted(path.name for path in (tmp_path / "published" / "lambda").iterdir())
    assert names == ["lambda-10-seed3.json", "lambda-3-seed3.json"]
    assert json.loads((tmp_path / "published" / "lambda" / names[0]).read_text())["line"] == "λ = 10"
    assert main(arguments) == 0
    assert "still to be done: 0" in capsys.readouterr().out
    assert main(["study"]) == 0
    assert "The paper's main table" in capsys.readouterr().out
    assert main([*arguments, "--jobs", "0"]) == 2
    assert main(["study", "nothing"]) == 2


def test_the_command_refuses_before_it_does_or_shows_anything(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["study", str(tmp_path / "lambda.toml"), "--out", str(tmp_path / "out"), "--only", "λ = 10"]
    (tmp_path / "taken").touch()
    assert main([*arguments, "--publish", str(tmp_path / "taken")]) == 1
    assert not (tmp_path / "out").exists()  # no run was begun whose results have no place
    assert main(arguments) == 0
    text = (tmp_path / "lambda.toml").read_text(encoding="utf-8")
    (tmp_path / "lambda.toml").write_text(text.replace("lambda_new = 10.0", "lambda_new = 11.0"), encoding="utf-8")
    capsys.readouterr()
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert "another recipe (method.later.weights.lambda_new: 10.0 → 11.0)" in said.err
    assert said.out == ""  # no table of what the file no longer says


def test_published_results_are_those_of_the_run(carried_out: tuple[Study, list[Planned], Path], tmp_path: Path) -> None:
    study, planned, _ = carried_out
    item = replace(planned[0], recipe=recipe_with(planned[0].recipe, {"stream": {"root": "/secret"}}))
    publish(study, [item], tmp_path)
    published = Results.read(tmp_path / "lambda-3-seed0.json")
    assert item.results is not None
    assert replace(published, line=None) == item.results.anywhere()
