"""Settings: defaults are the best known, paper recipes the paper's, mistakes are named."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

from ictrl import ConfigError, Recipe, load_recipe, recipe_names
from ictrl.config import (
    AnchorsConfig,
    ClassifierConfig,
    DataConfig,
    GameConfig,
    MemoryConfig,
    NetworkConfig,
    ObjectiveConfig,
)
from ictrl.recipes.reader import recipe_from_table, recipe_to_table, to_toml


def test_the_defaults_are_the_best_known_for_any_pictures() -> None:
    defaults, best = Recipe(), load_recipe("best-cifar10-5")
    assert (defaults.objective, defaults.anchors) == (best.objective, best.anchors)
    assert defaults.memory == replace(
        best.memory, transport_replayed=0
    )  # replayed witnesses help here, rarely elsewhere
    assert (defaults.classifier, defaults.game.averaged) == (replace(best.classifier, mirrored=False), 10)
    assert replace(defaults.game, flips=False, shifts=0, first_turns=False) == defaults.game


def test_everything_beyond_the_paper_is_off_in_the_paper_recipes() -> None:
    for recipe in (load_recipe(name) for name in recipe_names() if "paper" in name):
        assert recipe.anchors == AnchorsConfig(new=0, replayed=0, loop=0, redrawn=0)
        assert (recipe.classifier.kind, recipe.classifier.mirrored) == ("subspace", False)
        assert not recipe.memory.transport
        assert replace(recipe.game, flips=False, shifts=0, first_turns=False, averaged=0) == recipe.game


# d, r, k and tasks as in the paper's "Implementation Details"
PAPER = {
    "paper-mnist-5": ("mnist", 1, 6, 10, 5),
    "paper-mnist-10": ("mnist", 1, 6, 10, 10),
    "paper-cifar10-5": ("cifar10", 3, 12, 20, 5),
    "paper-cifar10-10": ("cifar10", 3, 12, 20, 10),
    "paper-cifar100-5": ("cifar100", 3, 10, 20, 5),
    "paper-cifar100-10": ("cifar100", 3, 10, 20, 10),
    "paper-cifar100-20": ("cifar100", 3, 10, 20, 20),
}


@pytest.mark.parametrize("name", PAPER)
def test_the_paper_recipes_are_the_papers_table(name: str) -> None:
    dataset, channels, r, k, tasks = PAPER[name]
    assert load_recipe(name) == Recipe(
        name=name,
        description=load_recipe(name).description,
        network=NetworkConfig(image_size=32, channels=channels, width=64, feature_dim=128),
        objective=ObjectiveConfig(lambda_new=10, gamma_old=1, eps_sq=1),
        anchors=AnchorsConfig(new=0, replayed=0),
        memory=MemoryConfig(directions=r, neighbours=k, samples=k, transport=False),
        classifier=ClassifierConfig(kind="subspace", components=15),
        game=GameConfig(
            epochs=120, first_epochs=120, learning_rate=1e-4, beta1=0.5, beta2=0.999, averaged=0, optimiser="fresh"
        ),
        data=DataConfig(name=dataset, tasks=tasks),
    )


@pytest.mark.parametrize("name", PAPER)
def test_each_has_its_best(name: str) -> None:
    """The same stream and the same networks; they differ in how it is learned."""
    paper, best = load_recipe(name), load_recipe(name.replace("paper", "best"))
    assert (best.data, best.network) == (paper.data, paper.network)
    assert 0 < best.objective.lambda_new <= 3 < paper.objective.lambda_new
    assert best.anchors.replayed == 4 * best.anchors.new > 0
    assert best.memory.transport
    assert best.game.flips == (paper.data.name != "mnist")  # a mirrored digit is another sign


def test_digits_and_digits_paper_differ_in_method_alone() -> None:
    ours, paper = load_recipe("digits"), load_recipe("digits-paper")
    assert (ours.network, ours.classifier, ours.game, ours.data) == (
        paper.network,
        paper.classifier,
        paper.game,
        paper.data,
    )
    assert ours.memory.transport
    assert ours.anchors.replayed > 0


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_survive_toml_and_tables(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.description
    (tmp_path / "copy.toml").write_text(to_toml(recipe))
    assert load_recipe(tmp_path / "copy.toml") == recipe
    assert recipe_from_table(recipe_to_table(recipe)) == recipe


def test_none_survives_toml(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[classifier]\ncomponents = "none"\nenergy = 0.9\n')
    recipe = load_recipe(tmp_path / "own.toml")
    assert (recipe.name, recipe.classifier.components, recipe.classifier.energy) == ("own", None, 0.9)
    (tmp_path / "again.toml").write_text(to_toml(recipe))
    assert load_recipe(tmp_path / "again.toml") == recipe


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[game]\nepoch = 3", r"Expected a known setting but got 'game.epoch' \(did you mean 'epochs'\?\)"),
        ("[gam]\nepochs = 3", r"got 'gam' \(did you mean 'game'\?\)"),
        ("game = 3", "Expected game to be a table but got 3"),
        ("[game]\nepochs = 2.5", "Expected game.epochs to be a whole number but got 2.5"),
        ("[game]\nepochs = true", "Expected game.epochs to be a whole number but got True"),
        ('[game]\nreplay = "dead"', "Expected game.replay to be 'live' or 'frozen' but got 'dead'"),
        ('[game]\nbatch = "all"', "Expected game.batch to be a whole number or 'rule' but got 'all'"),
        ("[game]\nflips = 1", "Expected game.flips to be true or false but got 1"),
        ("[game]\nepochs = 0", "Expected game.epochs to be at least 1 but got 0"),
        ("[game]\nbatch = 0", 'Expected game.batch to be "rule" or at least 1 but got 0'),
        ("[game]\nlearning_rate = nan", "Expected game.learning_rate to be above 0 but got nan"),
        ("[game]\nlearning_rate = inf", "Expected game.learning_rate to be above 0 but got inf"),
        ("[network]\nimage_size = 28", "Expected network.image_size to be 8, 16, 32, 64, 128 or 256 but got 28"),
        ("[memory]\nneighbours = 1", "Expected memory.neighbours to be at least 2"),
        ("[objective]\neps_sq = 0", "Expected objective.eps_sq to be above 0 but got 0.0"),
        ("[anchors]\nnew = -1", "Expected anchors.new to be at least 0 but got -1.0"),
        ("[classifier]\nenergy = 0.9", "Expected exactly one of classifier.components and classifier.energy"),
        ('[classifier]\ncomponents = "none"\nenergy = 2', "Expected classifier.energy to be above 0 and at most 1"),
        ("[classifier]\ncomponents = 128", r"components below network.feature_dim \(128\) but got 128"),
        ("seed = -1", "Expected seed to be from 0 to"),
        ("game = [", "Expected TOML in .*own.toml but got"),
    ],
)
def test_mistakes_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_recipe(tmp_path / "own.toml")


def test_unknown_recipes_name_the_nearest(tmp_path: Path) -> None:
    known = ", ".join(recipe_names())
    with pytest.raises(ConfigError, match=rf"got 'digit' \(did you mean 'digits'\?\). Known recipes: {known}; or give"):
        load_recipe("digit")
    with pytest.raises(ConfigError, match="could not read .*none.toml"):
        load_recipe(tmp_path / "none.toml")


def test_recipes_are_in_natural_order() -> None:
    names = [name for name in recipe_names() if name.startswith("paper-cifar")]
    assert names == [name for name in PAPER if "cifar" in name]


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)


def test_a_base_is_changed_setting_by_setting(tmp_path: Path) -> None:
    write(tmp_path, own='base = "best-cifar10-5"\nseed = 3\n[game]\nepochs = 7\n[data]\ntasks = 2')
    base, own = load_recipe("best-cifar10-5"), load_recipe(tmp_path / "own.toml")
    assert own == replace(
        base,
        name="own",
        description="",
        seed=3,
        game=replace(base.game, epochs=7),
        data=replace(base.data, tasks=2),
    )
    assert "base" not in to_toml(own)


def test_a_base_may_be_a_file_beside_it_and_have_one_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared").mkdir()
    write(tmp_path / "shared", parent='base = "../grandparent.toml"\n[memory]\nsamples = 8')
    write(
        tmp_path,
        grandparent='name = "old"\ndescription = "first"\nbase = "digits"\n[memory]\nsamples = 7\ndirections = 5',
        child='base = "shared/parent.toml"\ndescription = "third"\n[network]\nwidth = 3',
    )
    monkeypatch.chdir(tmp_path / "shared")  # a base is looked for beside the file
    child = load_recipe("../child.toml")
    assert (child.name, child.description) == ("child", "third")
    assert (child.memory.samples, child.memory.directions, child.network.width) == (8, 5, 3)
    assert child.anchors == load_recipe("digits").anchors
    assert load_recipe("../grandparent.toml").name == "old"


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
        ({"own": 'base = "best-mnist"'}, "Expected a recipe as the base of DIR/own.toml but got 'best-mnist' (did you"),
        ({"own": "base = 3"}, "Expected base to be a text but got 3 in DIR/own.toml."),
        ({"own": 'base = "digits"\ngame = 3'}, "Expected game to be a table but got 3."),
        ({"own": 'base = "b.toml"', "b": "game = ["}, "Expected TOML in DIR/b.toml but got"),
        ({"own": '[game]\nbase = "digits"'}, "Expected a known setting but got 'game.base'"),
    ],
)
def test_bases_that_lead_nowhere(files: dict[str, str], message: str, tmp_path: Path) -> None:
    write(tmp_path, **files)
    with pytest.raises(ConfigError) as caught:
        load_recipe(tmp_path / "own.toml")
    assert message in str(caught.value).replace(str(tmp_path), "DIR")
    assert "\n" not in str(caught.value)


def test_every_setting_has_a_help_text() -> None:
    """tyro takes the text below each field for --help."""
    source = Path(__import__("ictrl.config", fromlist=["config"]).__file__).read_text()
    for section in fields(Recipe):
        settings = fields(section.type) if is_dataclass(section.type) else [section]  # type: ignore[arg-type]
        for setting in settings:
            declared = source.index(f"\n    {setting.name}: ")
            assert source[declared + 1 :].split("\n")[1].startswith('    """'), setting.name
