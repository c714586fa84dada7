"""Settings as dataclasses: each with a help text, each checked where it is made, methods known by their name."""

import inspect
import math
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, ClassVar

import pytest

from ictrl import ConfigError, Recipe
from ictrl.config import (
    METHODS,
    AugmentationConfig,
    CheckpointConfig,
    ClassifierConfig,
    FrozenConfig,
    GameConfig,
    GameStageConfig,
    ICTRLConfig,
    MemoryConfig,
    MethodConfig,
    NetworkConfig,
    RunConfig,
    StageConfig,
    WeightsConfig,
    used_later,
)
from ictrl.methods.base import LEARNERS
from ictrl.recipes.tables import beginning, recipe_from_table, recipe_to_table

source_of = cache(inspect.getsource)


def sections(config: Any) -> Iterator[Any]:
    """A dataclass and all within it."""
    yield config
    for setting in fields(config):
        if is_dataclass(value := getattr(config, setting.name)):
            yield from sections(value)


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_has_a_help_text(method: str) -> None:
    """tyro takes the text below each field for --help."""
    seen = 0
    for section in sections(Recipe(method=METHODS[method]())):
        for setting in fields(section):
            if is_dataclass(getattr(section, setting.name)):
                continue  # its own docstring is shown
            home = next(kind for kind in type(section).__mro__ if setting.name in inspect.get_annotations(kind))
            source = source_of(home)
            declared = source.index(f"\n    {setting.name}: ")
            assert source[declared + 1 :].split("\n")[1].startswith('    """'), f"{home.__name__}.{setting.name}"
            seen += 1
        assert not str(type(section).__doc__).startswith(f"{type(section).__name__}(")  # which dataclasses write
    assert seen > 30


def test_settings_have_defaults_and_cannot_be_changed() -> None:
    for section in sections(Recipe()):
        assert type(section)() == type(section)()
        with pytest.raises(FrozenInstanceError):
            setattr(section, fields(section)[0].name, None)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (
            NetworkConfig,
            {"image_size": 28},
            'Expected network.image_size to be 8, 16, 32, 64, 128 or 256 but got 28: 28 is for kind "mlp".',
        ),
        (NetworkConfig, {"channels": 0}, "Expected network.channels to be at least 1 but got 0."),
        (NetworkConfig, {"decoder_width": 0}, "Expected network.decoder_width to be none or at least 1 but got 0."),
        (NetworkConfig, {"feature_dim": 1}, "Expected network.feature_dim to be at least 2 but got 1."),
        (AugmentationConfig, {"shifts": -1}, "Expected augmentation.shifts to be at least 0 but got -1."),
        (AugmentationConfig, {"edges": "white"}, 'Expected augmentation.edges to be "repeated" or "black" but got'),
        (
            NetworkConfig,
            {"pixel_means": (0.5,), "pixel_deviations": (0.2,)},
            "Expected network.pixel_means to be 3 numbers, one for each channel, but got 0.5.",
        ),
        (
            NetworkConfig,
            {"channels": 1, "pixel_means": (125.3,), "pixel_deviations": (63.0,)},
            "Expected network.pixel_means to be 1 number, one for each channel, but got 125.3: they are shares of "
            "white; divide by 255 what goes from 0 to 255.",
        ),
        (
            NetworkConfig,
            {"pixel_means": (0.5, 0.5, 0.5)},
            "Expected network.pixel_deviations to be 3 numbers, one for each channel, but got none: pixel_means and "
            "pixel_deviations go together, give both or neither.",
        ),
        (NetworkConfig, {"pixel_deviations": (0.5, 0.5, 0.5)}, "Expected network.pixel_means to be 3 numbers, one for"),
        (NetworkConfig, {"pixel_means": None}, "Expected network.pixel_means to be a tuple of 3 numbers, one for each"),
        (NetworkConfig, {"pixel_means": ("a",)}, "Expected network.pixel_means to be a tuple of 3 numbers, one for"),
        (
            NetworkConfig,
            {"channels": 1, "pixel_means": (-0.1,), "pixel_deviations": (0.2,)},
            "Expected network.pixel_means to be from 0 to 1 but got (-0.1,).",
        ),
        (
            NetworkConfig,
            {"channels": 1, "pixel_means": (0.5,), "pixel_deviations": (math.nan,)},
            "Expected network.pixel_deviations to be from 0.001 to 1 but got (nan,).",
        ),
        (
            NetworkConfig,
            {"channels": 1, "pixel_means": (0.5,), "pixel_deviations": (1e-9,)},
            "Expected network.pixel_deviations to be from 0.001 to 1 but got (1e-09,).",
        ),
        (
            NetworkConfig,
            {"kind": "mlp", "channels": 1, "pixel_means": (0.5,), "pixel_deviations": (0.2,)},
            'Expected network.pixel_means to be none with kind "mlp"',
        ),
        (StageConfig, {"epochs": 0}, "Expected epochs to be at least 1 but got 0."),
        (StageConfig, {"batch": 0}, 'Expected batch to be "rule" or at least 1 but got 0.'),
        (GameStageConfig, {"learning_rate": math.nan}, "Expected learning_rate to be above 0 but got nan."),
        (GameStageConfig, {"schedule": "steps"}, 'Expected schedule to be "constant", "cosine" or "restarts" but got'),
        (GameStageConfig, {"warmup": -1}, "Expected warmup to be at least 0 but got -1."),
        (GameStageConfig, {"ema": math.inf}, "Expected ema to be at least 0 but got inf."),
        (WeightsConfig, {"gamma_old": -0.5}, "Expected weights.gamma_old to be at least 0 but got -0.5."),
        (WeightsConfig, {"loop": math.nan}, "Expected weights.loop to be at least 0 but got nan."),
        (GameConfig, {"beta1": 1.0}, "Expected game.beta1 to be at least 0 and below 1 but got 1.0."),
        (GameConfig, {"precision": "half"}, 'Expected game.precision to be "auto", "bfloat16" or "float32" but got'),
        (MemoryConfig, {"compensation_ridge": 0}, "Expected memory.compensation_ridge to be above 0 but got 0."),
        (ClassifierConfig, {"shrinkage": 0}, "Expected classifier.shrinkage to be above 0 and at most 1 but got 0."),
        (ClassifierConfig, {"components": None}, "Expected exactly one of classifier.components and classifier.energy"),
        (CheckpointConfig, {"every_epochs": -1}, "Expected checkpoint.every_epochs to be at least 0 but got -1."),
        (RunConfig, {"seed": 2**63}, "Expected seed to be from 0 to 2^63 − 1 but got 9223372036854775808."),
    ],
)
def test_a_value_out_of_bounds_is_refused_where_it_enters(kind: Any, value: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        kind(**value)
    assert message in str(caught.value)


def test_every_weight_is_checked() -> None:
    """Signs belong to the players: a weight below 0 would turn one round."""
    for name in vars(WeightsConfig()):
        with pytest.raises(ConfigError, match=f"Expected weights.{name} to be at least 0"):
            WeightsConfig(**{name: -1.0})


def test_what_settings_demand_of_each_other() -> None:
    with pytest.raises(ConfigError, match=r'Expected first.batch to be a number but got "rule"'):
        FrozenConfig(first=GameStageConfig(batch="rule"))
    with pytest.raises(ConfigError, match=r"components below network.feature_dim \(15\) but got 15"):
        ICTRLConfig(network=NetworkConfig(feature_dim=15))
    ICTRLConfig(network=NetworkConfig(feature_dim=16))


# Methods


def test_every_method_has_settings_and_a_learner_of_one_name() -> None:
    assert set(METHODS) == set(LEARNERS)
    assert {"ictrl", "frozen", "finetune", "joint"} <= set(METHODS)
    for name, kind in METHODS.items():
        assert kind.name == name
        assert LEARNERS[name].settings_type is kind
        assert issubclass(kind, MethodConfig)


def test_a_method_is_known_as_soon_as_it_is_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ictrl.config.METHODS", own := dict(METHODS))
    monkeypatch.setattr("ictrl.recipes.tables.METHODS", own)

    @dataclass(frozen=True)
    class OwnConfig(MethodConfig):
        """Somebody's own."""

        name: ClassVar[str] = "own"
        strength: float = 1.0
        mode: str = used_later("plain")
        first: StageConfig = field(default_factory=StageConfig)

    @dataclass(frozen=True)
    class HalfConfig(OwnConfig):
        """A variant without a name of its own: not for recipes."""

    assert own["own"] is OwnConfig
    assert HalfConfig not in own.values()
    recipe = recipe_from_table({"method": {"name": "own", "strength": 2, "first": {"epochs": 3}}})
    assert recipe.method == OwnConfig(strength=2.0, first=StageConfig(epochs=3))
    assert recipe_from_table(recipe_to_table(recipe)) == recipe
    assert beginning(replace(recipe, method=OwnConfig(mode="other"))) == beginning(replace(recipe, method=OwnConfig()))
    assert beginning(recipe) != beginning(replace(recipe, method=OwnConfig()))


def test_a_setting_used_later_has_its_default_and_its_mark() -> None:
    marked = {
        f"{type(section).__name__}.{setting.name}"
        for section in sections(Recipe())
        for setting in fields(section)
        if setting.metadata.get("used_later")
    }
    assert marked == {
        "ICTRLConfig.later",
        "GameConfig.replay",
        "GameConfig.resample",
        "MemoryConfig.samples",
        "MemoryConfig.drift_compensation",
        "MemoryConfig.compensation_replayed",
        "MemoryConfig.compensation_ridge",
    }
    assert GameConfig().replay == "live"
    assert ICTRLConfig().later.batch == "rule"
