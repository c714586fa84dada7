"""The settings of the data room: ranges, and the way through TOML and back."""

import json
import tomllib

import pytest

from ictrl.config import DataConfig, Recipe
from ictrl.errors import ConfigError
from ictrl.recipes.reader import load_recipe, recipe_from_table, recipe_to_table, to_toml

FULL = DataConfig(
    name="cifar100",
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


@pytest.mark.parametrize("data", [FULL, DataConfig(), DataConfig(class_order_seed=7, name="fashion-mnist")])
def test_toml_round_trip(data: DataConfig) -> None:
    recipe = Recipe(name="mine", data=data)
    assert recipe_from_table(tomllib.loads(to_toml(recipe))) == recipe


def test_json_round_trip() -> None:
    recipe = Recipe(data=FULL)
    table = recipe_to_table(recipe)
    assert json.loads(json.dumps(table)) == table
    assert recipe_from_table(table) == recipe


def test_lists_arrive_as_tuples_from_a_file(tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[data]\nname = "mnist"\ntask_sizes = [4, 6]\nhalved_tasks = []\n')
    data = load_recipe(path).data
    assert data.task_sizes == (4, 6)
    assert data.halved_tasks == ()
    assert data.root is None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"task_sizes": 5}, "Expected data.task_sizes to be a list, of which each is a whole number but got 5."),
        ({"task_sizes": [5, 2.5]}, "Expected data.task_sizes[1] to be a whole number but got 2.5."),
        ({"task_sizes": [True]}, "Expected data.task_sizes[0] to be a whole number but got True."),
        ({"root": 3}, 'Expected data.root to be a text or "none" but got 3.'),
        ({"rot": "x"}, "Expected a known setting but got 'data.rot' (did you mean 'root'?)."),
    ],
)
def test_wrong_types_are_named(table: dict, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        recipe_from_table({"data": table})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "cifar"}, "Expected data.name to be one of digits, mnist,"),
        ({"tasks": 0}, "Expected data.tasks to be at least 1 but got 0."),
        ({"task_sizes": (5, 0)}, "Expected data.task_sizes to be at least 1 each but got (5, 0)."),
        (
            {"class_order": (1, 2, 1)},
            "Expected data.class_order to be different classes, each once, but got (1, 2, 1).",
        ),
        ({"class_order": (1, 0), "class_order_seed": 0}, "data.class_order_seed to be None where class_order is given"),
        ({"class_order_seed": -1}, "Expected data.class_order_seed to be from 0"),
        ({"subset_seed": -1}, "Expected data.subset_seed to be from 0"),
        ({"subset": 0.0}, "Expected data.subset to be above 0 and at most 1 but got 0.0."),
        ({"subset": 1.5}, "Expected data.subset to be above 0 and at most 1 but got 1.5."),
        ({"subset": float("nan")}, "Expected data.subset to be above 0"),
        ({"halved_tasks": (0,)}, "Expected data.halved_tasks to be different tasks counted from 1 but got (0,)."),
        ({"halved_tasks": (2, 2)}, "Expected data.halved_tasks to be different tasks"),
        ({"halved_share": 0.0}, "Expected data.halved_share to be above 0"),
        ({"limit": 0}, "Expected data.limit to be at least 2"),
        ({"test_share": 1.0}, "Expected data.test_share to be above 0 and below 1 but got 1.0."),
    ],
)
def test_out_of_range(values: dict, message: str) -> None:
    if "name" in values:  # from a table, because the tests check the types of arguments before the range is looked at
        with pytest.raises(ConfigError, match=r"data\.name to be .digits. or .mnist."):
            recipe_from_table({"data": values})
        return
    with pytest.raises(ConfigError) as caught:
        DataConfig(**values)
    assert message in str(caught.value)
