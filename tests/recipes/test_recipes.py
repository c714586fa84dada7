"""Every recipe through a whole run, made tiny, on files of the official formats with a few random images in them."""

from dataclasses import replace
from pathlib import Path

import pytest
from official import Official
from PIL import Image

from ictrl import InputError, Recipe, experiment, load_recipe, recipe_names


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MNIST, CIFAR-10 and CIFAR-100, two or three training images a class."""
    folder = tmp_path_factory.mktemp("official")
    official = Official(folder)
    official.mnist()
    official.cifar("cifar10", "binary")
    official.cifar("cifar100", "binary")
    for label in range(10):
        (folder / "own" / f"class {label}").mkdir(parents=True)
        for i in range(4):
            Image.new("RGB", (40 + i, 36), (20 * label, 10 * i, 99)).save(
                folder / "own" / f"class {label}" / f"{i}.png"
            )
    return folder


def tiny(recipe: Recipe, root: Path) -> Recipe:
    """What the recipe says, for one epoch of narrow networks on two images a class."""
    own_root = {"digits": None, "folder": str(root / "own")}.get(recipe.data.name, str(root))
    return replace(
        recipe,
        device="cpu",
        network=replace(recipe.network, width=2, feature_dim=16),
        memory=replace(recipe.memory, samples=2),
        game=replace(recipe.game, epochs=1, first_epochs=1, first_batch=20),
        data=replace(recipe.data, root=own_root, limit=2),
    )


@pytest.mark.parametrize("name", recipe_names())
def test_a_tiny_run(name: str, root: Path, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    results, learner = experiment.run(tiny(recipe, root), tmp_path / "run")
    classes = 100 if recipe.data.name == "cifar100" else 10
    assert results["complete"]
    assert [len(task) for task in results["tasks"]] == [classes // recipe.data.tasks] * recipe.data.tasks
    assert len(learner.classes_) == classes
    assert learner.recipe.name == name
    assert 0 <= results["memory"]["last"] <= 1


def test_without_the_data_the_way_to_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path / "nothing"))
    for name in recipe_names():
        recipe = load_recipe(name)
        if recipe.data.name in ("digits", "folder"):
            continue
        with pytest.raises(InputError, match=f"run `ictrl data download {recipe.data.name}`"):
            experiment.run(recipe, tmp_path / "run")
