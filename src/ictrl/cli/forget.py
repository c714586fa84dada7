"""`ictrl forget`: classes taken out of a learner's memory."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from ictrl.cli.learners import find_label, open_position
from ictrl.cli.options import Flag, Learned
from ictrl.cli.output import counted, open_console
from ictrl.cli.terminal import shown
from ictrl.errors import InputError
from ictrl.experiment.class_facts import read_facts
from ictrl.experiment.taught import LearnerPlace, writing
from ictrl.experiment.teaching import forget, known_names
from ictrl.methods.capabilities import Forgets, ask
from ictrl.serve.versions import Versions

FORGET_HELP = """Let a learner forget classes: what it keeps of them is removed, and they are never predicted again.

Mean, moments, counts, the row of a head and kept images go. What several classes share can not be divided again, and
networks stay as they were trained; the command says what may remain. A class that was forgotten can be taught again.

A saved learner is replaced in one step at the end: after Ctrl-C or a crash it is as it was. In a run folder the learner
without the class is written as taught.safetensors, which all commands take from then on. The run's own checkpoints,
results and pictures stay, and with them what they say of the class.

Examples:
  ictrl forget runs/mine hedgehog
  ictrl forget learner.safetensors cat dog --yes
"""


@dataclass(frozen=True)
class ForgetCommand:
    """Classes that a learner is to forget."""

    learner: Learned
    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="NAME…", help_behavior_hint="")]
    """classes, by their names or their numbers"""
    yes: Flag = False
    """do not ask"""

    def execute(self) -> None:
        place = LearnerPlace(self.learner)
        target = place.target()
        try:
            with writing(target):
                position = open_position(place, "cpu")
                known = known_names(position)
                ask(position.learner, Forgets, "forget")
                labels = self.labels(known)
                named = ", ".join(shown(known[label]) for label in labels)
                self.confirm(named, len(labels))
                facts = read_facts(position.notes, labels)
                remains = forget(position, labels)
                position.learner.save(target, position.notes)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"Stopped. {target} is as it was.") from None
        console = open_console()
        left = counted(len(known) - len(labels), "class", "classes")
        console.print(f"Forgotten: {named}. {left} left in {target}.", soft_wrap=True)
        console.print("What may remain of a forgotten class:")
        for trace in remains:
            console.print(f"- {trace}", soft_wrap=True)
        of_run = [known[label] for label in labels if facts[label].task is not None or facts[label].since is None]
        for name in (known[label] for label in labels):
            if kept := Versions(target).knowing(name):
                where = f"{counted(len(kept), 'version', 'versions')} that `ictrl serve` keeps in {kept[0].path.parent}"
                console.print(f"- all of {name}, in {where}", soft_wrap=True)
        if place.is_run and of_run:
            own = "its own checkpoints, results, figures and pictures, which are as they were"
            console.print(
                f"- all that the run {place.path} holds of {', '.join(map(shown, of_run))}: {own}", soft_wrap=True
            )

    def labels(self, known: dict[int, str]) -> list[int]:
        """What the names stand for."""
        if not self.names:
            raise InputError("Expected the names of classes to forget but got none.")
        labels = list(dict.fromkeys(find_label(name, known, "NAME") for name in self.names))
        if len(labels) == len(known):
            raise InputError("Expected a class that remains but all are to be forgotten: delete the file instead.")
        return labels

    def confirm(self, named: str, classes: int) -> None:
        """Ask on a terminal; elsewhere nobody can say yes but by --yes."""
        if self.yes:
            return
        if not sys.stdin.isatty():
            raise InputError("Expected a terminal to ask on but there is none: --yes forgets without asking.")
        print(f"Forget {named}? {'They are' if classes > 1 else 'It is'} gone for good. [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise KeyboardInterrupt
