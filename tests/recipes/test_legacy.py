"""What version 0.1 wrote is read under today's names, and a recipe file of one's own is refused with them."""

import json
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from ictrl import ConfigError, Recipe, load_recipe, recipe_names
from ictrl.config import (
    AugmentationConfig,
    CheckpointConfig,
    ClassifierConfig,
    GameConfig,
    GameStageConfig,
    ICTRLConfig,
    MemoryConfig,
    NetworkConfig,
    RunConfig,
    StreamConfig,
    WeightsConfig,
)
from ictrl.recipes.legacy import SETTINGS, flat, renamed, results_table, translated, whole_recipe
from ictrl.recipes.reader import read_resolved
from ictrl.recipes.tables import recipe_from_table, recipe_to_table

OLD = Path(__file__).with_name("version-0.1.toml")
OLD_RUN = Path(__file__).parents[1] / "cifar10-run"

# by hand: every setting that the file has, at its place of today
TODAY = Recipe(
    name="old",
    description="every setting of version 0.1, each with a value of its own",
    method=ICTRLConfig(
        network=NetworkConfig(image_size=16, channels=1, width=9, feature_dim=33),
        game=GameConfig(
            eps_sq=0.9,
            beta1=0.4,
            beta2=0.99,
            optimiser="fresh",
            precision="float32",
            replay="frozen",
            resample="step",
        ),
        first=GameStageConfig(
            epochs=21,
            batch=77,
            learning_rate=0.002,
            schedule="cosine",
            warmup=0,
            ema=3.5,
            augmentation=AugmentationConfig(mirror=True, shifts=2, rotations=True),
            weights=WeightsConfig(lambda_new=1.1),
        ),
        memory=MemoryConfig(
            directions=5,
            neighbours=6,
            samples=7,
            disjoint=False,
            drift_compensation=True,
            compensation_replayed=0.6,
            compensation_ridge=0.2,
        ),
        classifier=ClassifierConfig(
            kind="subspace", components=None, energy=0.95, pooled=0.3, shrinkage=0.4, mirror=True
        ),
        later=GameStageConfig(
            epochs=22,
            batch=88,
            learning_rate=0.002,
            schedule="cosine",
            warmup=4,
            ema=3.5,
            augmentation=AugmentationConfig(mirror=True, shifts=2, rotations=False),
            weights=WeightsConfig(
                lambda_new=2.2, gamma_old=1.3, distill_new=5.5, distill_replayed=6.6, loop=7.7, redrawn=8.8
            ),
        ),
    ),
    stream=StreamConfig(
        dataset="hub",
        root="data",
        test_share=0.3,
        hub_name="ylecun/mnist",
        hub_configuration="main",
        hub_image="image",
        hub_label="label",
        tasks=3,
        task_sizes=(4, 3, 3),
        class_order=(9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
        subset=0.5,
        subset_seed=12,
        halved_tasks=(2,),
        halved_share=0.25,
        limit=50,
        validation=0.1,
    ),
    run=RunConfig(seed=7, device="cpu", checkpoint=CheckpointConfig(every_epochs=11, every_minutes=1.5)),
)


def settings(config: Any, path: str = "") -> dict[str, Any]:
    """Every setting of today with its type, walked through the dataclasses."""
    found: dict[str, Any] = {}
    for field in fields(config):
        value = getattr(config, field.name)
        found |= settings(value, f"{path}{field.name}.") if is_dataclass(value) else {path + field.name: field.type}
    return found


def test_every_old_name_leads_to_settings_that_exist() -> None:
    today = settings(Recipe())
    for old, targets in SETTINGS.items():
        assert targets, old
        for target in targets:
            assert target in today, f"{old} → {target}"
    targets = [target for each in SETTINGS.values() for target in each]
    assert len(set(targets)) == len(targets)  # no two old settings meet in one


def test_a_setting_that_two_stages_share_has_the_same_name_and_type_in_both() -> None:
    today = settings(Recipe())
    for targets in SETTINGS.values():
        assert len({target.replace("method.first.", "method.later.") for target in targets}) == 1
        assert len({str(today[target]) for target in targets}) == 1


def test_all_that_has_no_old_name_is_new() -> None:
    targets = {target for each in SETTINGS.values() for target in each}
    later_only = ("gamma_old", "distill_new", "distill_replayed", "loop", "redrawn")
    assert set(settings(Recipe())) - targets == {
        "name",
        "description",
        "method.network.kind",
        "method.network.initialisation",
        "method.network.decoder_width",
        "method.network.pixel_means",
        "method.network.pixel_deviations",
        "method.memory.disjoint",
        "run.checkpoint.every_task",
        "run.keep_pictures",
        "run.wait_minutes",
        "stream.cache",
        "method.first.warmup",
        "method.later.augmentation.rotations",
        *(
            f"method.{stage}.augmentation.{name}"
            for stage in ("first", "later")
            for name in ("crop", "jitter", "grey", "edges")
        ),
        *(f"method.first.weights.{name}" for name in later_only),
        *(f"method.{stage}.weights.{name}" for stage in ("first", "later") for name in ("match_new", "match_replayed")),
    }


def test_an_old_recipe_means_what_it_meant() -> None:
    table = tomllib.loads(OLD.read_text())
    assert set(renamed(table)) | {"data.class_order_seed"} == set(SETTINGS)  # beside class_order it has no place
    assert recipe_from_table(whole_recipe(table)) == TODAY
    assert read_resolved(OLD) == TODAY


def test_every_value_is_kept_under_each_of_its_names() -> None:
    table = tomllib.loads(OLD.read_text())
    new = dict(flat(translated(table)))
    for name, value in flat(table):
        for target in SETTINGS.get(name, (name,)):
            assert new.pop(target) == value
    assert not new


def test_what_did_not_exist_then_is_what_was_done_then() -> None:
    kind, averaged = "method.classifier.kind", ("method.first.ema", "method.later.ema")
    replayed = "method.memory.compensation_replayed"

    def read(text: str) -> dict[str, Any]:
        return dict(flat(recipe_to_table(recipe_from_table(whole_recipe(tomllib.loads(text))))))

    oldest = read("seed = 0\n[memory]\ntransport = true")
    assert (oldest[kind], *(oldest[name] for name in averaged), oldest[replayed]) == ("subspace", 0, 0, 1)
    newest = read('seed = 0\n[memory]\ntransport = true\ntransport_replayed = 0\n[classifier]\nkind = "gaussian"')
    assert (newest[kind], newest[replayed]) == ("gaussian", 0)
    assert read("seed = 0\n[memory]\ntransport = false")[replayed] == 0
    assert read("[game]\naveraged = 5")[averaged[0]] == 5


def test_a_recipe_of_today_is_left_alone() -> None:
    table = recipe_to_table(Recipe())
    assert renamed(table) == {}
    assert whole_recipe(table) is table
    assert translated(table) == table
    for name in recipe_names():
        assert renamed(recipe_to_table(load_recipe(name))) == {}


# Recipe files of one's own


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = 3", "but seed is now run.seed: `ictrl migrate DIR/own.toml` rewrites the file."),
        (
            "[game]\nlearning_rate = 0.1",
            "but game.learning_rate is now method.first.learning_rate and method.later.learning_rate: `ictrl migrate",
        ),
        (
            'base = "digits"\n[anchors]\nnew = 1\nreplayed = 1\nloop = 1\nredrawn = 1\n[data]\nname = "mnist"',
            "but anchors.new is now method.later.weights.distill_new; "
            "anchors.replayed is now method.later.weights.distill_replayed; "
            "anchors.loop is now method.later.weights.loop; 2 more: `ictrl migrate DIR/own.toml` rewrites the file.",
        ),
    ],
)
def test_an_old_recipe_file_is_refused_with_the_new_names(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_recipe(tmp_path / "own.toml")
    found = str(caught.value).replace(str(tmp_path), "DIR")
    assert found.startswith("Expected today's names of settings in DIR/own.toml ")
    assert message in found
    assert "\n" not in found


def test_an_old_base_is_refused_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('base = "old.toml"\n[method.later]\nepochs = 3')
    (tmp_path / "old.toml").write_text("[game]\nepochs = 4")
    with pytest.raises(ConfigError, match=r"in .*old.toml but game.epochs is now method.later.epochs: `ictrl migrate"):
        load_recipe(tmp_path / "own.toml")


# Results


def test_results_of_an_older_version_have_todays_names() -> None:
    table = json.loads((OLD_RUN / "results.json").read_text())
    new = results_table(table)
    assert new["untrained"] == table["floor"]
    assert new["kept_bytes"] == table["memory_bytes"]
    assert new["seconds"] == {"learn": 102.592, "evaluate": 0.829, "floors": 4.364}
    assert not {"floor", "memory_bytes"} & set(new)
    assert recipe_from_table(new["recipe"]).method.later.weights.distill_new == table["recipe"]["anchors"]["new"]
    for name in ("memory", "reencoded"):
        counts = [[row.get(str(place), 0) for place in range(10)] for row in new[name]["confusion"]]
        assert new[name] | {"confusion": counts} == table[name]
    same = set(new) & set(table) - {"recipe", "seconds", "memory", "reencoded"}
    assert {key: new[key] for key in same} == {key: table[key] for key in same}
    assert results_table(new) is new
    del table["measured_on"]
    assert results_table(table)["measured_on"] == "test images"  # before there was a choice
