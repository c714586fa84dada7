"""`ictrl classes`: what a learner knows."""

import json
from dataclasses import asdict, dataclass

from rich.table import Table

from ictrl.cli.learners import open_position
from ictrl.cli.options import Flag, Learned
from ictrl.cli.output import counted, open_console
from ictrl.cli.terminal import shown
from ictrl.experiment.class_facts import ClassFacts, read_facts
from ictrl.experiment.taught import LearnerPlace
from ictrl.experiment.teaching import known_names

CLASSES_HELP = """List the classes that a learner knows: since when, from how many pictures, how well it tells them.

Accuracy is from the test images of the run that learned the class, or from pictures that were held out while it was
taught, and was measured among the classes that were known by then: with more classes it may be lower today. What nobody
noted, as in files of earlier versions, is left blank.

Examples:
  ictrl classes runs/mine
  ictrl classes learner.safetensors --json
"""


@dataclass(frozen=True)
class ClassesCommand:
    """What a learner knows."""

    learner: Learned
    json: Flag = False
    """print a JSON list"""

    def execute(self) -> None:
        position = open_position(LearnerPlace(self.learner), "cpu")
        names = known_names(position)
        facts = read_facts(position.notes, names)
        if self.json:
            rows = [{"label": label, "class": name, **asdict(facts[label])} for label, name in names.items()]
            print(json.dumps(rows, indent=2))
            return
        table = Table("class", box=None, pad_edge=False)
        for title in ("label", "since", "task", "pictures", "accuracy"):
            table.add_column(title, justify="left" if title == "since" else "right")
        table.add_column("measured on")
        for label, name in names.items():
            table.add_row(shown(name), str(label), *cells(facts[label]))
        console = open_console()
        method = position.learner.recipe.method.name
        console.print(f"{counted(len(names), 'class', 'classes')}, learned by {method}\n")
        console.print(table)


def cells(facts: ClassFacts) -> list[str]:
    """A row of the table behind name and label."""
    accuracy = "" if facts.accuracy is None else f"{facts.accuracy:.3f}"
    measured = "" if facts.accuracy is None else f"{facts.tested} {facts.measured_on} among {facts.among} classes"
    since = (facts.since or "").partition("T")[0]
    numbers = ("" if number is None else str(number) for number in (facts.task, facts.images))
    return [since, *numbers, accuracy, measured]
