"""The packaged recipes: the paper's are the paper's, ours stand beside them, and each goes through a whole run."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from official import Official
from PIL import Image

import ictrl
from ictrl import InputError, Recipe, load_recipe, recipe_names
from ictrl.config import (
    METHODS,
    AugmentationConfig,
    ClassifierConfig,
    GameConfig,
    GameStageConfig,
    ICTRLConfig,
    MemoryConfig,
    NetworkConfig,
    StageConfig,
    StreamConfig,
    WeightsConfig,
)
from ictrl.methods.wide_reading import ReadingConfig

# dataset, channels, r, k and tasks as in the paper's "Implementation Details"
PAPER = {
    "paper-mnist-5": ("mnist", 1, 6, 10, 5),
    "paper-mnist-10": ("mnist", 1, 6, 10, 10),
    "paper-cifar10-5": ("cifar10", 3, 12, 20, 5),
    "paper-cifar10-10": ("cifar10", 3, 12, 20, 10),
    "paper-cifar100-5": ("cifar100", 3, 10, 20, 5),
    "paper-cifar100-10": ("cifar100", 3, 10, 20, 10),
    "paper-cifar100-20": ("cifar100", 3, 10, 20, 20),
}


def of_ictrl(name: str) -> ICTRLConfig:
    method = load_recipe(name).method
    assert isinstance(method, ICTRLConfig)
    return method


def test_the_defaults_are_ours_for_any_pictures() -> None:
    defaults, ours = ICTRLConfig(), of_ictrl("ictrl-cifar10-5")
    assert defaults.first.weights == ours.first.weights
    assert (defaults.later.weights, defaults.game) == (ours.later.weights, ours.game)
    # replayed witnesses help here, rarely elsewhere
    assert defaults.memory == replace(ours.memory, compensation_replayed=0, disjoint=True)  # measured with shared sets
    assert defaults.classifier == replace(ours.classifier, mirror=False)
    assert (defaults.first.ema, defaults.later.ema) == (10, 10)
    for stage in (defaults.first, defaults.later):
        assert stage.augmentation == AugmentationConfig()


def test_everything_beyond_the_paper_is_off_in_the_recipes_of_paper_and_authors() -> None:
    for method in (of_ictrl(name) for name in recipe_names() if name.startswith(("paper-", "authors-"))):
        assert method.classifier.kind == "subspace"
        assert not method.classifier.mirror
        assert not method.memory.drift_compensation
        for stage in (method.first, method.later):
            assert (stage.ema, stage.schedule, stage.warmup) == (0, "constant", 0)
            # the paper augments the first task of ImageNet
            if method.network.image_size == 32 or stage is method.later:
                assert stage.augmentation == AugmentationConfig()
            assert stage.weights == WeightsConfig(stage.weights.lambda_new, gamma_old=1)  # and no distillation


@pytest.mark.parametrize("name", PAPER)
def test_the_paper_recipes_are_the_papers_table(name: str) -> None:
    dataset, channels, r, k, tasks = PAPER[name]
    trained = {"epochs": 120, "learning_rate": 1e-4, "ema": 0.0}
    assert load_recipe(name) == Recipe(
        name=name,
        description=load_recipe(name).description,
        method=ICTRLConfig(
            network=NetworkConfig(image_size=32, channels=channels, width=64, feature_dim=128),
            game=GameConfig(eps_sq=1, beta1=0.5, beta2=0.999, optimiser="fresh"),
            first=GameStageConfig(**trained, batch=1000, weights=WeightsConfig(lambda_new=1)),  # type: ignore[arg-type]
            memory=MemoryConfig(directions=r, neighbours=k, samples=k, drift_compensation=False, disjoint=False),
            classifier=ClassifierConfig(kind="subspace", components=15),
            later=GameStageConfig(**trained, batch="rule", weights=WeightsConfig(lambda_new=10, gamma_old=1)),  # type: ignore[arg-type]
        ),
        stream=StreamConfig(dataset=dataset, tasks=tasks),
    )


@pytest.mark.parametrize(("name", "side"), [("paper-imagenet50", 64), ("paper-imagenet50-128", 128)])
def test_imagenet_is_the_papers_too(name: str, side: int) -> None:
    """d = 256, r = 10, k = 15, 500 epochs of the first task, augmented, and 150 of the others, as its appendix says."""
    method, cifar = of_ictrl(name), of_ictrl("paper-cifar10-5")
    assert method.network == NetworkConfig(image_size=side, channels=3, width=64, feature_dim=256)
    assert (method.memory.directions, method.memory.neighbours, method.memory.samples) == (10, 15, 15)
    assert method.first == replace(cifar.first, epochs=500, augmentation=method.first.augmentation)
    assert method.first.augmentation == AugmentationConfig(mirror=True, crop=0.08, jitter=0.8, grey=0.2)
    assert method.later == replace(cifar.later, epochs=150)
    assert (method.game, method.classifier) == (cifar.game, cifar.classifier)
    assert load_recipe(name).stream == StreamConfig(dataset="folder", tasks=5)


# epochs of the first and of later tasks, λ and m as in the authors' code
AUTHORS = {"authors-mnist-5": (2000, 120, 10.0, 30), "authors-cifar10-5": (1000, 100, 8.0, 40)}


@pytest.mark.parametrize("name", AUTHORS)
def test_the_authors_recipes_are_their_code(name: str) -> None:
    first, later, lambda_new, m = AUTHORS[name]
    paper, authors = of_ictrl(name.replace("authors", "paper")), of_ictrl(name)
    assert load_recipe(name).stream == load_recipe(name.replace("authors", "paper")).stream
    assert authors == replace(
        paper,
        network=replace(paper.network, decoder_width=128),
        game=replace(paper.game, replay="frozen"),
        memory=replace(paper.memory, directions=12, neighbours=40, samples=m),
        first=replace(paper.first, epochs=first),
        later=replace(paper.later, epochs=later, weights=WeightsConfig(lambda_new, gamma_old=1)),
    )


@pytest.mark.parametrize("name", PAPER)
def test_each_has_ours_beside_it(name: str) -> None:
    """The same stream and the same networks; they differ in how it is learned."""
    paper, ours = of_ictrl(name), of_ictrl(name.replace("paper", "ictrl"))
    stream = load_recipe(name).stream
    assert load_recipe(name.replace("paper", "ictrl")).stream == stream
    assert ours.network == paper.network
    assert 0 < ours.later.weights.lambda_new <= 3 < paper.later.weights.lambda_new
    assert ours.later.weights.distill_replayed == 4 * ours.later.weights.distill_new > 0
    assert ours.memory.drift_compensation
    for stage in (ours.first, ours.later):
        assert stage.augmentation.mirror == (stream.dataset != "mnist")  # a mirrored digit is another sign


def test_the_digits_by_us_and_by_the_paper_differ_in_method_alone() -> None:
    ours, paper = of_ictrl("ictrl-digits"), of_ictrl("paper-digits")
    assert load_recipe("ictrl-digits").stream == load_recipe("paper-digits").stream
    assert (ours.network, ours.classifier, ours.game, ours.first) == (
        paper.network,
        paper.classifier,
        paper.game,
        paper.first,
    )
    assert replace(ours.later, weights=paper.later.weights) == paper.later
    assert ours.memory.drift_compensation
    assert ours.later.weights.distill_replayed > 0


@pytest.mark.parametrize(("name", "of_ictrls"), [("digits", "ictrl-digits"), ("pictures", "ictrl-pictures")])
def test_the_plain_names_are_those_of_wide(name: str, of_ictrls: str) -> None:
    """On the stream of i-CTRL's, with a network as wide."""
    plain, other = load_recipe(name), load_recipe(of_ictrls)
    assert (plain.method.name, other.method.name) == ("wide", "ictrl")
    assert plain.stream == other.stream
    assert replace(plain.method.network, image_size=other.method.network.image_size) == other.method.network


def test_the_defaults_of_wide_are_the_settings_of_pictures() -> None:
    recipe, defaults = load_recipe("pictures"), METHODS["wide"]()
    assert replace(defaults, network=recipe.method.network) == recipe.method


def test_recipes_are_in_natural_order() -> None:
    names = [name for name in recipe_names() if name.startswith("paper-cifar")]
    assert names == [name for name in PAPER if "cifar" in name]


# Whole runs, made tiny, on files of the official formats with a few random images in them


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MNIST, CIFAR-10 and CIFAR-100, two or three training images per class."""
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
    """What the recipe says, for one epoch of small and narrow networks on two images per class."""
    own_root = {"digits": None, "letters": None, "folder": str(root / "own")}.get(recipe.stream.dataset, str(root))
    method = recipe.method
    changes: dict[str, Any] = {"network": replace(method.network, image_size=8, width=2, feature_dim=16)}
    for field in fields(method):
        value = getattr(method, field.name)
        if isinstance(value, StageConfig):
            changes[field.name] = replace(value, epochs=1, batch=20 if field.name == "first" else value.batch)
        if isinstance(value, ReadingConfig):
            changes[field.name] = replace(value, stage_pools=(), reduction="none", sizes=(512,))  # there is one stage
        if isinstance(value, MemoryConfig):
            changes[field.name] = replace(value, samples=2)
    return replace(
        recipe,
        method=replace(method, **changes),
        stream=replace(recipe.stream, root=own_root, limit=2),
        run=replace(recipe.run, device="cpu"),
    )


@pytest.mark.parametrize("name", recipe_names())
def test_a_tiny_run(name: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ictrl.memory.few_images.LEAST", 2)  # there are no more images of a class here
    recipe = load_recipe(name)
    finished = ictrl.run(tiny(recipe, root), tmp_path / "run")
    results, learner = finished.results, finished.learner
    classes = {"cifar100": 100, "letters": 20}.get(recipe.stream.dataset, 10)
    assert results.complete
    assert [len(task) for task in results.tasks] == [classes // recipe.stream.tasks] * recipe.stream.tasks
    assert len(learner.classes_) == classes
    assert learner.recipe.name == name
    assert learner.settings_type.name == recipe.method.name
    assert 0 <= results.memory.last <= 1


def test_without_the_data_the_way_to_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICTRL_DATA", str(tmp_path / "nothing"))
    for name in recipe_names():
        recipe = load_recipe(name)
        if recipe.stream.dataset in ("digits", "letters", "folder"):
            continue
        with pytest.raises(InputError, match=f"run `ictrl data download {recipe.stream.dataset}`"):
            ictrl.run(recipe, tmp_path / "run")
