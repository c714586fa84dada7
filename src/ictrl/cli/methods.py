"""`ictrl methods`: every method, what it keeps and what it reached."""

import sys
from dataclasses import dataclass

from rich.table import Table

from ictrl.cli.output import open_console
from ictrl.methods.base import LEARNERS
from ictrl.recipes.reader import load_recipe, reached

METHODS_HELP = """List every method: what it does, what it keeps, and what it reached here.

The figure is accuracy after the last task of CIFAR-10 in five, from what the method kept alone, by the recipe named
behind it, where that was measured. Any method runs on any stream: `ictrl run METHOD-STREAM`, such as er-cifar10-5.

Examples:
  ictrl methods
  ictrl run er-digits
  ictrl study methods-digits
"""
BENCH = "-cifar10-5"  # how the recipes end by which methods are compared here


@dataclass(frozen=True)
class MethodsCommand:
    """The list of methods."""

    def execute(self) -> None:
        table = Table("method", "what it does", "keeps", "reached", box=None, pad_edge=False)
        best = best_recipes()
        for name in sorted(LEARNERS):
            table.add_row(name, summary(name), kept(name), best.get(name, ""))
        console = open_console()
        console.print(table)
        console.print(
            "\nWhat a method keeps is in its checkpoints and saved learners: whoever has the file of one that keeps "
            "images has these images.",
            soft_wrap=True,
        )


def summary(method: str) -> str:
    """The first line of the method's file, without its name.

    >>> summary("finetune")
    'the encoder and a linear head learn every task by cross-entropy, with nothing to protect the old ones'
    """
    text = (sys.modules[LEARNERS[method].__module__].__doc__ or "").strip()
    first = " ".join(text.partition("\n\n")[0].split())
    return first.partition(": ")[2].removesuffix(".")


def kept(method: str) -> str:
    """What it keeps besides its networks."""
    return LEARNERS[method].keeps


def best_recipes() -> dict[str, str]:
    """Of each method, the best figure on the bench and the recipe that reached it."""
    found: dict[str, tuple[float, str]] = {}
    for name, scores in reached().items():
        if name.endswith(BENCH) and "memory" in scores:
            method, last = load_recipe(name).method.name, scores["memory"]["last"]
            found[method] = max(found.get(method, (0.0, "")), (last, name))
    return {method: f"{last:.3f} ({name})" for method, (last, name) in found.items()}
