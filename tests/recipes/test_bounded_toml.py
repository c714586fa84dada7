"""TOML of strangers: what would keep its parser busy for ever, or what no setting takes."""

import os
import time
from pathlib import Path

import pytest

from ictrl.errors import ConfigError
from ictrl.recipes.bounded_toml import parse_toml
from ictrl.recipes.reader import load_recipe


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a" + ".a" * 20_000 + " = 1", "a key of more than 50 parts"),
        ("[a" + " . a" * 20_000 + "]", "a key of more than 50 parts"),
        ('"\\""' + '."\\""' * 20_000 + " = 1", "a key of more than 50 parts"),
        ("'='" + ".'='" * 20_000 + " = 1", "a key of more than 50 parts"),
        ("a = " + "[" * 50_000 + "]" * 50_000, "more than 64 deep"),
        ("a = " + "{a = " * 20_000, "more than 64 deep"),
        (f"a = {2**63}", "a whole number of more than 64 bits"),
        ("a = " + "9" * 100_000, "."),
    ],
)
def test_what_no_recipe_needs_is_refused_at_once(text: str, message: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(ValueError, match=message) as caught:
        parse_toml(text)
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - begun < 5


def test_what_recipes_have_is_read() -> None:
    text = 'description = "' + "a.b " * 500 + '..."\nnumbers = [' + "0.1, " * 200 + "1.5]\na.b.c = inf\n"
    assert parse_toml(text)["a"] == {"b": {"c": float("inf")}}


def test_recipe_files_are_regular_and_within_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(ConfigError, match=r"could not read .*pipe\.toml: a pipe, and no regular file"):
        load_recipe(tmp_path / "pipe.toml")
    (tmp_path / "long.toml").write_text("#" * 101)
    monkeypatch.setenv("ICTRL_MAX_RECIPE_BYTES", "100")
    with pytest.raises(ConfigError, match=r"101 bytes in a recipe or study, above .* \(ICTRL_MAX_RECIPE_BYTES\)"):
        load_recipe(tmp_path / "long.toml")


def test_nested_and_huge_values_of_settings_are_refused_by_name(tmp_path: Path) -> None:
    for value in ("9" * 30, "[" * 70 + "]" * 70):
        (tmp_path / "own.toml").write_text(f"[run]\nseed = {value}\n")
        with pytest.raises(ConfigError, match="Expected TOML in .*own.toml but got"):
            load_recipe(tmp_path / "own.toml")
