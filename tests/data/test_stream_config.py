"""The settings of a stream: ranges, and the way through TOML and back."""

import json
import tomllib

import pytest

from ictrl.config import Recipe, StreamConfig
from ictrl.errors import ConfigError
from ictrl.recipes.reader import load_recipe
from ictrl.recipes.tables import recipe_from_table, recipe_to_table, to_toml

FULL = StreamConfig(
    dataset="cifar100",
    root='C:\\pictures "of mine"/é',
    test_share=0.25,
    hub_name="ylecun/mnist",
    task_sizes=(50, 10, 40),
    class_order=(2, 0, 1),
    subset=0.2,
    subset_seed=3,
    halved_tasks=(2, 4),
    halved_share=0.4,
    limit=200,
)


@pytest.mark.parametrize("stream", [FULL, StreamConfig(), StreamConfig(class_order_seed=7, dataset="fashion-mnist")])
def test_toml_round_trip(stream: StreamConfig) -> None:
    recipe = Recipe(name="mine", stream=stream)
    assert recipe_from_table(tomllib.loads(to_toml(recipe))) == recipe


def test_json_round_trip() -> None:
    recipe = Recipe(stream=FULL)
    table = recipe_to_table(recipe)
    assert json.loads(json.dumps(table)) == table
    assert recipe_from_table(table) == recipe


def test_lists_arrive_as_tuples_from_a_file(tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[stream]\ndataset = "mnist"\ntask_sizes = [4, 6]\nhalved_tasks = []\n')
    stream = load_recipe(path).stream
    assert stream.task_sizes == (4, 6)
    assert stream.halved_tasks == ()
    assert stream.root is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"task_sizes": 5}, "Expected stream.task_sizes to be a list, of which each is a whole number but got 5."),
        ({"task_sizes": [5, 2.5]}, "Expected stream.task_sizes[1] to be a whole number but got 2.5."),
        ({"task_sizes": [True]}, "Expected stream.task_sizes[0] to be a whole number but got True."),
        ({"dataset": 3}, "Expected stream.dataset to be a text but got 3."),
        ({"root": 3}, 'Expected stream.root to be a text or "none" but got 3.'),
        ({"rot": "x"}, "Expected a known setting but got 'stream.rot' (did you mean 'root'?)."),
    ],
)
def test_wrong_types_are_named(table: dict, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        recipe_from_table({"stream": table})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tasks": 0}, "Expected stream.tasks to be at least 1 but got 0."),
        ({"task_sizes": (5, 0)}, "Expected stream.task_sizes to be at least 1 each but got (5, 0)."),
        (
            {"class_order": (1, 2, 1)},
            "Expected stream.class_order to be different classes, each once, but got (1, 2, 1).",
        ),
        (
            {"class_order": (1, 0), "class_order_seed": 0},
            "stream.class_order_seed to be None where class_order is given",
        ),
        ({"class_order_seed": -1}, "Expected stream.class_order_seed to be from 0"),
        ({"subset_seed": -1}, "Expected stream.subset_seed to be from 0"),
        ({"subset": 0.0}, "Expected stream.subset to be above 0 and at most 1 but got 0.0."),
        ({"subset": 1.5}, "Expected stream.subset to be above 0 and at most 1 but got 1.5."),
        ({"subset": float("nan")}, "Expected stream.subset to be above 0"),
        ({"halved_tasks": (0,)}, "Expected stream.halved_tasks to be different tasks counted from 1 but got (0,)."),
        ({"halved_tasks": (2, 2)}, "Expected stream.halved_tasks to be different tasks"),
        ({"halved_share": 0.0}, "Expected stream.halved_share to be above 0"),
        ({"limit": 0}, "Expected stream.limit to be at least 2"),
        ({"test_share": 1.0}, "Expected stream.test_share to be above 0 and below 1 but got 1.0."),
    ],
)
def test_out_of_range(values: dict, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        StreamConfig(**values)
    assert message in str(caught.value)
