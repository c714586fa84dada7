"""Files of version 0.1 rewritten under today's names: the same recipe, every comment, every figure."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ictrl import InputError, load_recipe, recipe_names
from ictrl.recipes.legacy import renamed, whole_recipe
from ictrl.recipes.migration import migrated_json, migrated_toml
from ictrl.recipes.tables import recipe_from_table, recipe_to_table, to_toml

OLD = Path(__file__).with_name("version-0.1.toml")
OLD_RUN = Path(__file__).parents[1] / "cifar10-run"

COMMENTED = """\
# What this is for.
# A second line.
base = "digits"  # in five tasks

# how long
[game]  # of both stages
# quick
epochs = 3
first_epochs = 4  # longer, "#2" of some
learning_rate = 0.01
# mirrored digits # are others
flips = false

[data]
class_order = [
    3, 1, 2, 0,
    4, 5, 6, 7, 8, 9,
]
name = "digits"
# the end
"""


@pytest.mark.parametrize("path", [OLD, OLD_RUN / "config.toml"], ids=["every setting", "a run of old"])
def test_a_migrated_recipe_is_the_same_recipe(path: Path, tmp_path: Path) -> None:
    """Of a run that is older than some settings, with what was done then."""
    text = path.read_text()
    (tmp_path / "new.toml").write_text(migrated_toml(text))
    assert load_recipe(tmp_path / "new.toml") == recipe_from_table(whole_recipe(tomllib.loads(text)))


def test_a_recipe_by_hand_leaves_open_what_it_left_open(tmp_path: Path) -> None:
    (tmp_path / "new.toml").write_text(migrated_toml('base = "digits"\n[memory]\ntransport = true'))
    assert tomllib.loads((tmp_path / "new.toml").read_text()) == {
        "base": "ictrl-digits",
        "method": {"memory": {"drift_compensation": True}},
    }


def test_every_comment_stands_before_its_setting_or_the_section_that_it_begins() -> None:
    expected = """\
# What this is for.
# A second line.
# in five tasks
base = "ictrl-digits"

# how long
# of both stages
# quick
[method.later]
epochs = 3
learning_rate = 0.01

# longer, "#2" of some
[method.first]
epochs = 4
learning_rate = 0.01

# mirrored digits # are others
[method.first.augmentation]
mirror = false

[method.later.augmentation]
mirror = false

[stream]
class_order = [3, 1, 2, 0, 4, 5, 6, 7, 8, 9]
dataset = "digits"
# the end
"""
    assert migrated_toml(COMMENTED) == expected


def test_todays_files_come_back_as_they_are() -> None:
    for name in recipe_names():
        text = to_toml(load_recipe(name))
        assert migrated_toml(text) is text
    new = migrated_toml(OLD.read_text())
    assert migrated_toml(new) is new
    assert renamed(tomllib.loads(new)) == {}


def test_settings_of_a_study_are_renamed_line_by_line() -> None:
    text = """\
description = "of three lines"
seeds = [0, 1]
[settings.game]
epochs = 3  # all lines

# the first
[[lines]]
label = "a"
recipe = "digits"
paper.last = 0.655
settings.game = { first_epochs = 5, flips = true }  # short
settings.data.tasks = 1

[[lines]]
# the second
label = "b"
[lines.settings.objective]
lambda_new = 4.0
[ lines . settings . memory ]
samples = 2

[[lines]]
label = "c"
"""
    expected = """\
description = "of three lines"
seeds = [0, 1]

# all lines
[settings.method.later]
epochs = 3

# the first
[[lines]]
label = "a"
recipe = "ictrl-digits"
paper.last = 0.655
# short
settings.method.first.epochs = 5
settings.method.first.augmentation.mirror = true
settings.method.later.augmentation.mirror = true
settings.stream.tasks = 1

[[lines]]
# the second
label = "b"
settings.method.later.weights.lambda_new = 4.0
settings.method.memory.samples = 2

[[lines]]
label = "c"
"""
    assert migrated_toml(text) == expected


@pytest.mark.parametrize(
    "value", ['"none"', "0.0001", "1e-05", "true", '"a \\"quoted\\" # text"', "[1, 2]", "[]", '"Ünïcode ×"', "1_000"]
)
def test_values_survive(value: str) -> None:
    new = tomllib.loads(migrated_toml(f"[game]\nbatch = {value}"))
    assert new == {"method": {"later": {"batch": tomllib.loads(f"x = {value}")["x"]}}}


# Results


def numbers(value: Any) -> list[float | int]:
    """Every number in nested lists and tables, in their order."""
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers(item)]
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, float | int) and not isinstance(value, bool) else []


def test_no_figure_of_a_result_is_changed() -> None:
    text = (OLD_RUN / "results.json").read_text()
    old, new = json.loads(text), json.loads(migrated_json(text))
    assert len(numbers(old)) > 200
    measured = [{key: value for key, value in table.items() if key != "recipe"} for table in (old, new)]
    assert numbers(measured[0]) == numbers(measured[1])
    assert recipe_from_table(new["recipe"]) == recipe_from_table(whole_recipe(old["recipe"]))


def test_several_results_in_one_file_are_migrated_together() -> None:
    one = json.loads((OLD_RUN / "results.json").read_text())
    text = json.dumps({"study": "x", "runs": {"a": [one, one], "b": []}})
    new = json.loads(migrated_json(text))
    alone = json.loads(migrated_json(json.dumps(one)))
    assert new == {"study": "x", "runs": {"a": [alone, alone], "b": []}}


def test_a_review_is_migrated() -> None:
    old = {"cycles": [{"last": 0.5}], "anchors": 0.25, "recipe": tomllib.loads(OLD.read_text())}
    new = json.loads(migrated_json(json.dumps(old)))
    assert new["distillation"] == 0.25
    assert "anchors" not in new
    assert recipe_from_table(new["recipe"]) == recipe_from_table(whole_recipe(old["recipe"]))


def test_results_of_today_come_back_as_they_are() -> None:
    for indent in (None, 1):
        text = json.dumps(json.loads(migrated_json((OLD_RUN / "results.json").read_text())), indent=indent)
        assert migrated_json(text) is text
    review = json.dumps({"cycles": [], "distillation": 1.0, "recipe": recipe_to_table(load_recipe("digits"))})
    assert migrated_json(review) is review


@pytest.mark.parametrize("text", ["[1, 2]", "{}", '{"recipe": {}}', "3"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="Expected results or a review that ictrl wrote but got something else"):
        migrated_json(text)
