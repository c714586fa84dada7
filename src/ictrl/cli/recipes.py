"""`ictrl recipes`: the recipes and what they reached."""

from dataclasses import dataclass

from rich.table import Table

from ictrl.cli.output import open_console
from ictrl.experiment.results import PROTOCOLS
from ictrl.recipes.reader import load_recipe, reached, recipe_names

RECIPES_HELP = """List the recipes, with their methods and the accuracy that they reached.

Example:
  ictrl recipes
"""


@dataclass(frozen=True)
class RecipesCommand:
    """The list of recipes."""

    def execute(self) -> None:
        table = Table("recipe", "method", "what it shows", box=None, pad_edge=False)
        for protocol in PROTOCOLS:
            table.add_column(protocol, justify="right")
        measured = reached()
        for name in recipe_names():
            recipe, scores = load_recipe(name), measured.get(name, {})
            found = (f"{scores[p]['last']:.3f} / {scores[p]['average']:.3f}" if p in scores else "" for p in PROTOCOLS)
            table.add_row(name, recipe.method.name, recipe.description, *found)
        console = open_console()
        console.print(table)
        console.print(
            "\nAccuracy after the last task / average over tasks, mean over seeds, where it was measured. memory: from "
            "what the learner kept alone; reencoded: the paper's protocol, which needs the old images.\nAny other "
            "method learns any of these streams by METHOD-STREAM, such as er-digits: `ictrl methods` lists them.",
            soft_wrap=True,
        )
