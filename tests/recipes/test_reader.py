"""Recipes as files: there and back, one building on another, mistakes named."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import tiny_recipe

from ictrl import ConfigError, ICTRLConfig, Recipe, load_recipe, recipe_names
from ictrl.config import METHODS, ClassifierConfig, FrozenConfig
from ictrl.methods.er import ERConfig
from ictrl.recipes.legacy import RECIPES
from ictrl.recipes.reader import read_resolved, stream_names
from ictrl.recipes.tables import beginning, differences, recipe_from_table, recipe_to_table, recipe_with, to_toml


def of_ictrl(recipe: Recipe) -> ICTRLConfig:
    assert isinstance(recipe.method, ICTRLConfig)
    return recipe.method


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)


# There and back


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_survive_toml_and_tables(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.description
    (tmp_path / "copy.toml").write_text(to_toml(recipe))
    assert load_recipe(tmp_path / "copy.toml") == recipe
    assert read_resolved(tmp_path / "copy.toml") == recipe
    assert recipe_from_table(recipe_to_table(recipe)) == recipe


@pytest.mark.parametrize("name", METHODS)
def test_the_settings_of_every_method_survive_toml(name: str, tmp_path: Path) -> None:
    """Nested tables too, all of them changed."""
    recipe = Recipe(method=METHODS[name]())
    table = tomllib.loads(to_toml(recipe))
    assert table["method"]["name"] == name
    sections = [key for key, value in table["method"].items() if isinstance(value, dict)]
    stages = [key for key in sections if "augmentation" in table["method"][key]]
    assert stages or name == "redunet"  # which trains nothing
    for number, stage in enumerate(stages):
        table["method"][stage] |= {"epochs": 3 + number, "warmup": number}
        table["method"][stage]["augmentation"] |= {"mirror": True, "shifts": 1 + number}
        if "weights" in table["method"][stage]:
            table["method"][stage]["weights"]["loop"] = 0.25 + number
    table["method"]["network"]["decoder_width"] = 5
    changed = recipe_from_table(table)
    assert type(changed.method) is METHODS[name]
    (tmp_path / "copy.toml").write_text(to_toml(changed))
    again = load_recipe(tmp_path / "copy.toml")
    assert again == changed != recipe
    assert without_none(recipe_to_table(again))["method"] == table["method"]


def test_every_default_is_spelled_out() -> None:
    """So that a run folder says what was done, whatever the defaults become."""
    assert tomllib.loads(to_toml(Recipe())) == without_none(recipe_to_table(Recipe()))


def without_none(table: dict[str, Any]) -> dict[str, Any]:
    """As TOML has it, which knows no None."""
    return {
        key: without_none(value) if isinstance(value, dict) else "none" if value is None else value
        for key, value in table.items()
    }


def test_none_survives_toml(tmp_path: Path) -> None:
    write(tmp_path, own='[method.classifier]\ncomponents = "none"\nenergy = 0.9\n')
    recipe = load_recipe(tmp_path / "own.toml")
    assert recipe.name == "own"
    assert of_ictrl(recipe).classifier == ClassifierConfig(components=None, energy=0.9)
    write(tmp_path, again=to_toml(recipe))
    assert load_recipe(tmp_path / "again.toml") == recipe


@pytest.mark.parametrize("text", ['"quoted" \\ back', "two\nlines\tand more", "Ünïcode × 一", "# none", ""])
def test_any_text_survives_toml(text: str, tmp_path: Path) -> None:
    recipe = tiny_recipe(description=text, stream={"root": text})
    write(tmp_path, own=to_toml(recipe))
    assert load_recipe(tmp_path / "own.toml") == recipe


def test_numbers_keep_every_digit(tmp_path: Path) -> None:
    recipe = tiny_recipe(first={"learning_rate": 1 / 3}, later={"learning_rate": 1e-7}, run={"seed": 2**63 - 1})
    write(tmp_path, own=to_toml(recipe))
    assert load_recipe(tmp_path / "own.toml") == recipe


def test_whole_numbers_serve_as_floats_and_lists_as_tuples(tmp_path: Path) -> None:
    write(tmp_path, own="[method.later]\nlearning_rate = 1\n[stream]\ntask_sizes = [5, 5]")
    recipe = load_recipe(tmp_path / "own.toml")
    assert recipe.stream.task_sizes == (5, 5)
    assert isinstance(of_ictrl(recipe).later.learning_rate, float)


# Mistakes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[method.later]\nepoch = 3",
            r"Expected a known setting but got 'method.later.epoch' \(did you mean 'epochs'\?\)",
        ),
        ("[method.latter]\nepochs = 3", r"got 'method.latter' \(did you mean 'later'\?\)"),
        ("[methods]\nname = 3", r"got 'methods' \(did you mean 'method'\?\)"),
        ("method = 3", "Expected method to be a table but got 3"),
        ("[method]\nlater = 3", "Expected method.later to be a table but got 3"),
        ('[method]\nname = "ictlr"', r"method.name to be one of .*ictrl.* but got 'ictlr' \(did you mean 'ictrl'\?\)"),
        ("[method]\nname = 3", "Expected method.name to be one of .* but got 3"),
        (
            '[method]\nname = "frozen"\n[method.later]\nepochs = 3',
            "Expected a known setting but got 'method.later'",
        ),
        ("[method.later]\nepochs = 2.5", "Expected method.later.epochs to be a whole number but got 2.5"),
        ("[method.later]\nepochs = true", "Expected method.later.epochs to be a whole number but got True"),
        ('[method.game]\nreplay = "dead"', "Expected method.game.replay to be 'live' or 'frozen' but got 'dead'"),
        ('[method.later]\nbatch = "all"', "Expected method.later.batch to be a whole number or 'rule' but got 'all'"),
        (
            "[method.first.augmentation]\nmirror = 1",
            "Expected method.first.augmentation.mirror to be true or false but got 1",
        ),
        ("[method.later]\nepochs = 0", "Expected epochs to be at least 1 but got 0"),
        ("[method.later]\nbatch = 0", 'Expected batch to be "rule" or at least 1 but got 0'),
        ('[method.first]\nbatch = "rule"', 'Expected first.batch to be a number but got "rule": in a first task'),
        ("[method.first]\nlearning_rate = nan", "Expected learning_rate to be above 0 but got nan"),
        ("[method.first]\nlearning_rate = inf", "Expected learning_rate to be above 0 but got inf"),
        ("[method.network]\nimage_size = 28", "network.image_size to be 8, 16, 32, 64, 128 or 256 but got 28"),
        ("[method.memory]\nneighbours = 1", "Expected memory.neighbours to be at least 2"),
        ("[method.game]\neps_sq = 0", "Expected game.eps_sq to be above 0 but got 0.0"),
        ("[method.later.weights]\ndistill_new = -1", "Expected weights.distill_new to be at least 0 but got -1.0"),
        ("[method.later.augmentation]\nshifts = -1", "Expected augmentation.shifts to be at least 0 but got -1"),
        ("[method.classifier]\nenergy = 0.9", "Expected exactly one of classifier.components and classifier.energy"),
        ('[method.classifier]\ncomponents = "none"\nenergy = 2', "classifier.energy to be above 0 and at most 1"),
        ("[method.classifier]\ncomponents = 128", r"components below network.feature_dim \(128\) but got 128"),
        ("[run]\nseed = -1", "Expected seed to be from 0 to"),
        ("[run.checkpoint]\nevery_minutes = -1", "Expected checkpoint.every_minutes to be at least 0"),
        ("method = [", "Expected TOML in .*own.toml but got"),
    ],
)
def test_mistakes_are_named(text: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, own=text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_recipe(tmp_path / "own.toml")
    assert "own.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_recipes_name_the_nearest(tmp_path: Path) -> None:
    known = ", ".join(recipe_names())
    with pytest.raises(ConfigError, match=rf"got 'digit' \(did you mean 'digits'\?\). Known recipes: {known}; any"):
        load_recipe("digit")
    with pytest.raises(ConfigError, match="could not read .*none.toml"):
        load_recipe(tmp_path / "none.toml")


def test_a_recipes_old_name_leads_to_its_new_one() -> None:
    """Unless another recipe has the old name now."""
    known = recipe_names()
    assert set(RECIPES.values()) <= set(known)
    for old, new in RECIPES.items():
        if old not in known:
            with pytest.raises(ConfigError, match=rf"got {old!r} \(did you mean {new!r}\?\)"):
                load_recipe(old)


# Bases


def test_a_base_is_changed_setting_by_setting(tmp_path: Path) -> None:
    write(
        tmp_path,
        own='base = "ictrl-cifar10-5"\n[run]\nseed = 3\n[method.later.weights]\nloop = 7\n[stream]\ntasks = 2',
    )
    base, own = load_recipe("ictrl-cifar10-5"), load_recipe(tmp_path / "own.toml")
    later = of_ictrl(base).later
    assert own == replace(
        base,
        name="own",
        description="",
        method=replace(of_ictrl(base), later=replace(later, weights=replace(later.weights, loop=7.0))),
        stream=replace(base.stream, tasks=2),
        run=replace(base.run, seed=3),
    )
    assert "base" not in to_toml(own)


def test_a_base_may_be_a_file_beside_it_and_have_one_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared").mkdir()
    write(tmp_path / "shared", parent='base = "../grandparent.toml"\n[method.memory]\nsamples = 8')
    write(
        tmp_path,
        grandparent='name = "old"\ndescription = "first"\nbase = "ictrl-digits"\n'
        "[method.memory]\nsamples = 7\ndirections = 5",
        child='base = "shared/parent.toml"\ndescription = "third"\n[method.network]\nwidth = 3',
    )
    monkeypatch.chdir(tmp_path / "shared")  # a base is looked for beside the file
    child = load_recipe("../child.toml")
    assert (child.name, child.description) == ("child", "third")
    method = of_ictrl(child)
    assert (method.memory.samples, method.memory.directions, method.network.width) == (8, 5, 3)
    assert method.later == of_ictrl(load_recipe("ictrl-digits")).later
    assert load_recipe("../grandparent.toml").name == "old"


def test_another_method_takes_over_the_settings_that_both_have(tmp_path: Path) -> None:
    write(tmp_path, own='base = "ictrl-digits"\n[method]\nname = "frozen"\n[method.first]\nbatch = 9')
    base, own = of_ictrl(load_recipe("ictrl-digits")), load_recipe(tmp_path / "own.toml").method
    assert own == FrozenConfig(
        base.network, base.game, base.memory, base.classifier, replace(base.first, batch=9)
    )  # and nothing of `later`


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"own": 'base = "own.toml"'}, "a circle, DIR/own.toml → DIR/own.toml: leave one out."),
        (
            {"own": 'base = "b.toml"', "b": 'base = "c.toml"', "c": 'base = "b.toml"'},
            "Expected a base that needs no other in the end but got a circle, DIR/b.toml → DIR/c.toml → DIR/b.toml:",
        ),
        (
            {"own": 'base = "none.toml"'},
            "Expected a recipe file as the base of DIR/own.toml but could not read DIR/none",
        ),
        (
            {"own": 'base = "paper-mnits-5"'},
            "Expected a recipe as the base of DIR/own.toml but got 'paper-mnits-5' (did you mean 'paper-mnist-5'?).",
        ),
        ({"own": 'base = "digits-paper"'}, "but got 'digits-paper' (did you mean 'paper-digits'?)."),
        ({"own": "base = 3"}, "Expected base to be a text but got 3 in DIR/own.toml."),
        ({"own": 'base = "digits"\nmethod = 3'}, "Expected method to be a table but got 3."),
        ({"own": 'base = "b.toml"\nstream = {}', "b": "method = 3"}, "Expected method to be a table but got 3."),
        ({"own": 'base = "digits"\n[method]\nname = ["frozen"]'}, "Expected method.name to be one of"),
        ({"own": 'base = "b.toml"', "b": "method = ["}, "Expected TOML in DIR/b.toml but got"),
        ({"own": '[method]\nbase = "digits"'}, "Expected a known setting but got 'method.base'"),
    ],
)
def test_bases_that_lead_nowhere(files: dict[str, str], message: str, tmp_path: Path) -> None:
    write(tmp_path, **files)
    with pytest.raises(ConfigError) as caught:
        load_recipe(tmp_path / "own.toml")
    assert message in str(caught.value).replace(str(tmp_path), "DIR")
    assert "\n" not in str(caught.value)


def test_a_base_that_is_no_table_where_a_method_is_named(tmp_path: Path) -> None:
    """What stands above it takes its place."""
    write(tmp_path, own='base = "b.toml"\n[method]\nname = "frozen"', b="method = 3")
    assert load_recipe(tmp_path / "own.toml").method == FrozenConfig()


# Changing and comparing


def test_some_settings_are_changed_and_the_others_left() -> None:
    recipe = tiny_recipe()
    changed = recipe_with(recipe, {"method": {"later": {"weights": {"loop": 2}}}, "run": {"seed": 5}})
    assert changed == tiny_recipe(later={"weights": {"loop": 2.0}}, run={"seed": 5})
    assert recipe_with(recipe, {}) == recipe
    assert recipe_with(recipe, {"method": {"name": "frozen"}}).method == FrozenConfig(
        **{name: getattr(recipe.method, name) for name in ("network", "game", "first", "memory", "classifier")}
    )
    with pytest.raises(ConfigError, match="Expected a known setting but got 'method.later.epoch'"):
        recipe_with(recipe, {"method": {"later": {"epoch": 3}}})


def test_differences_are_the_settings_that_decide_results() -> None:
    one = tiny_recipe()
    other = tiny_recipe(
        name="x", description="y", stream={"root": "z"}, run={"device": "cuda", "checkpoint": {"every_epochs": 3}}
    )
    assert differences(one, one) == differences(one, other) == []
    assert differences(one, tiny_recipe(later={"weights": {"loop": 1.0}, "epochs": 9}, run={"seed": 2})) == [
        "method.later.epochs: 2 → 9",
        "method.later.weights.loop: 0.0 → 1.0",
        "run.seed: 0 → 2",
    ]
    frozen = recipe_with(one, {"method": {"name": "frozen"}})
    assert "method.name: ictrl → frozen" in differences(one, frozen)
    assert "method.later.epochs: 2 → None" in differences(one, frozen)
    assert "method.later.epochs: None → 2" in differences(frozen, one)


# What begins alike


@pytest.mark.parametrize(
    "later",
    [
        {"later": {"epochs": 9}},
        {"later": {"batch": 5}},
        {"later": {"learning_rate": 1.0}},
        {"later": {"schedule": "cosine", "warmup": 2, "ema": 3.0}},
        {"later": {"augmentation": {"rotations": True, "mirror": True, "shifts": 1}}},
        {"later": {"weights": {"lambda_new": 9.0, "gamma_old": 2.0, "distill_new": 1.0, "loop": 1.0}}},
        {"memory": {"samples": 9}},
        {"memory": {"drift_compensation": True, "compensation_replayed": 1.0, "compensation_ridge": 1.0}},
        {"game": {"replay": "frozen", "resample": "step"}},
        {"name": "other", "description": "other"},
        {"stream": {"root": "elsewhere"}},
        {"run": {"checkpoint": {"every_epochs": 1, "every_minutes": 0.0}}},
    ],
    ids=str,
)
def test_recipes_that_differ_in_later_tasks_alone_begin_alike(later: dict[str, Any]) -> None:
    assert tiny_recipe(**later) != tiny_recipe()
    assert beginning(tiny_recipe(**later)) == beginning(tiny_recipe())


@pytest.mark.parametrize(
    "first",
    [
        {"first": {"epochs": 9}},
        {"first": {"batch": 5}},
        {"first": {"ema": 3.0}},
        {"first": {"augmentation": {"rotations": True}}},
        {"first": {"weights": {"lambda_new": 9.0}}},
        {"memory": {"directions": 2}},
        {"memory": {"neighbours": 4}},
        {"game": {"eps_sq": 0.5}},
        {"game": {"optimiser": "fresh"}},
        {"network": {"width": 4}},
        {"classifier": {"components": 2}},
        {"stream": {"tasks": 2}},
        {"stream": {"limit": 9}},
        {"run": {"seed": 1}},
        {"run": {"device": "cuda"}},
    ],
    ids=str,
)
def test_recipes_that_differ_before_do_not(first: dict[str, Any]) -> None:
    assert beginning(tiny_recipe(**first)) != beginning(tiny_recipe())


def test_two_methods_do_not_begin_alike() -> None:
    assert beginning(recipe_with(tiny_recipe(), {"method": {"name": "frozen"}})) != beginning(tiny_recipe())


# any method on any stream


@pytest.mark.parametrize("stream", stream_names())
@pytest.mark.parametrize("method", sorted(METHODS))
def test_any_method_runs_on_any_stream_without_a_file(method: str, stream: str) -> None:
    name = f"{method}-{stream}"
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.method.name == method
    data, _, tasks = stream.partition("-")
    folders = {"pictures": ("folder", 1), "imagenet50": ("folder", 5)}
    expected = folders.get(stream, (data, int(tasks or 5)))
    assert (recipe.stream.dataset, recipe.stream.tasks) == expected
    if name not in recipe_names():
        assert recipe.description.endswith(f" by {method}")
        assert recipe.method.network.channels == (1 if stream.startswith(("digits", "mnist")) else 3)


def test_what_a_stream_says_of_settings_that_a_method_has_is_taken_over() -> None:
    recipe: Any = load_recipe("er-digits")
    assert recipe.method.stage.epochs == 20
    assert recipe.method.stage.learning_rate == ERConfig().stage.learning_rate  # the method's own
    assert recipe.method.buffer.images == 100


def test_a_file_may_build_on_such_a_name(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('base = "er-digits"\n[method.buffer]\nimages = 30\n')
    recipe: Any = load_recipe(tmp_path / "mine.toml")
    assert recipe.method.name == "er"
    assert (recipe.method.stage.epochs, recipe.method.buffer.images) == (20, 30)


def test_an_unknown_name_says_what_can_be_put_together() -> None:
    with pytest.raises(ConfigError, match="any method with a stream .*cifar10-5.* as in er-digits"):
        load_recipe("er-nothing")
