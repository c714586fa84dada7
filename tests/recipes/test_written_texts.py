"""What is written can be read again, whatever texts it holds: recipes as TOML, results as JSON."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
import tomli_w
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import tiny_recipe

from ictrl import ConfigError, load_recipe, run
from ictrl.config import StreamConfig
from ictrl.experiment.results import to_lines
from ictrl.recipes.migration import migrated_toml
from ictrl.recipes.reader import read_resolved
from ictrl.recipes.tables import recipe_from_table, to_toml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))  # no half of a pair: no file can hold it
ODD = "\x7f\x00\x1b[31m\t\r\n\"'\\ = # [ old ] {x} \u2028 λ 猫 🦔 \N{RIGHT-TO-LEFT OVERRIDE}"


@given(name=TEXTS, description=TEXTS, root=TEXTS.filter(lambda text: text != "none"))
@example(name=ODD, description=ODD, root=ODD)
@example(name="'''", description='"""', root="\x7f")
@settings(max_examples=150, deadline=None)
def test_a_recipe_with_any_text_is_the_same_after_its_file(name: str, description: str, root: str) -> None:
    recipe = tiny_recipe(name=name, description=description, stream=StreamConfig(root=root))
    assert recipe_from_table(tomllib.loads(to_toml(recipe).encode().decode())) == recipe


@given(TEXTS)
@example(ODD)
@settings(max_examples=50, deadline=None)
def test_a_migrated_recipe_keeps_any_text(text: str) -> None:
    old = tomli_w.dumps({"description": text, "game": {"epochs": 3}})
    assert tomllib.loads(migrated_toml(old)) == {"description": text, "method": {"later": {"epochs": 3}}}


def test_a_run_whose_description_has_a_control_character_can_be_resumed(tmp_path: Path) -> None:
    recipe = replace(load_recipe("digits"), description="\x7f delete", name="\x1b[2J")
    path = tmp_path / "config.toml"
    path.write_text(to_toml(recipe), encoding="utf-8")
    assert read_resolved(path) == recipe


def test_a_path_that_is_no_text_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    recipe = tiny_recipe(description="caf\udce9")
    with pytest.raises(ConfigError, match=r"but description is 'caf\\udce9': rename what it names\.$"):
        run(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
@example({"class_names": {"0": "cat [ old ]", "1": "[\n  1\n]", "2": ODD}})
@settings(max_examples=100, deadline=None)
def test_lines_of_json_hold_what_they_were_given(value: object) -> None:
    assert json.loads(to_lines(value)) == value


def test_a_number_that_no_file_can_hold_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    recipe = tiny_recipe()
    recipe = replace(recipe, run=replace(recipe.run, keep_pictures=10**20))
    with pytest.raises(ConfigError, match="at most 64 bits but run.keep_pictures has more"):
        run(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
