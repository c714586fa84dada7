"""A study of three quick runs, two of which begin alike."""

from pathlib import Path

from run_support import npz_digits, quick

from ictrl.experiment.study import Study, load_study
from ictrl.recipes.tables import to_toml

TOML = """
description = "What λ does to the digits"
seeds = [0, 1]
recipe = "quick.toml"
settings.method.later.epochs = 1

[[lines]]
label = "λ = 3"
paper = { last = 0.9, average = 0.95 }

[[lines]]
label = "λ = 10"
seeds = [0]
settings.method.later.weights.lambda_new = 10.0
settings.method.later.weights.distill_replayed = 0.0
"""
EPOCHS = 2 + 1 + 1
"""of each run, whose tasks have two, one and one"""


def write_study(folder: Path, later_epochs: int = 7, text: str = TOML) -> Study:
    """lambda.toml, and beside it the recipe and the data that it starts from."""
    data = npz_digits(folder / "digits.npz")
    recipe = quick(
        name="quick",
        method={"first": {"epochs": 2}, "later": {"epochs": later_epochs}},
        stream={"dataset": "npz", "root": str(data)},
    )
    (folder / "quick.toml").write_text(to_toml(recipe), encoding="utf-8")
    (folder / "lambda.toml").write_text(text, encoding="utf-8")
    return load_study(folder / "lambda.toml")
