"""A version of the learner as it is served, with all that is said of it. It does not change."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ictrl.errors import UserError
from ictrl.experiment.checkpoints import Position
from ictrl.experiment.class_facts import ClassFacts, read_facts
from ictrl.experiment.teaching import known_names
from ictrl.memory.few_images import LEAST
from ictrl.methods.base import Learner
from ictrl.methods.capabilities import (
    ComparesClasses,
    Draws,
    DrawsFeatures,
    Forgets,
    KeepsMoments,
    KeepsStatistics,
    Probabilities,
    TellsUnknown,
)
from ictrl.methods.storage import ALL, TO_PREDICT
from ictrl.serve.refusals import RefusedError

HELD_OUT = 0.2  # share of a new class's pictures, as `ictrl teach` has it


@dataclass(frozen=True)
class Served:
    """A learner, its number, and the names and facts of its classes."""

    learner: Learner[Any]
    version: int
    names: Mapping[int, str]
    """by label, ascending"""
    facts: Mapping[int, ClassFacts]
    read_only: bool

    @classmethod
    def of(cls, position: Position, version: int, read_only: bool) -> "Served":
        """Ready to answer: what a learner computes once, such as its classifier, is computed here."""
        names = known_names(position)
        served = cls(position.learner, version, names, read_facts(position.notes, names), read_only)
        if names:
            served.learner.scores(served.blank)
        assert served.can
        return served

    @property
    def blank(self) -> Tensor:
        """A picture of nothing."""
        return torch.zeros(1, self.channels, self.image_size, self.image_size, dtype=torch.uint8)

    @property
    def image_size(self) -> int:
        return int(self.learner.recipe.method.network.image_size)

    @property
    def channels(self) -> int:
        return int(self.learner.recipe.method.network.channels)

    @cached_property
    def can(self) -> dict[str, bool]:
        """What its method supports, as far as its file has it, and whether it may be changed here."""
        learner = self.learner
        draws, changes = learner.parts != TO_PREDICT, learner.parts == ALL and not self.read_only
        return {
            "draw": draws and isinstance(learner, Draws),
            "directions": draws and isinstance(learner, DrawsFeatures),
            "probabilities": isinstance(learner, Probabilities),
            "unknown": self._tells_unknown(),
            "learn": changes,
            "forget": changes and isinstance(learner, Forgets),
            "compare": draws and isinstance(learner, ComparesClasses | KeepsMoments),
        }

    def _tells_unknown(self) -> bool:
        """One that held out too few pictures to be calibrated cannot, though its method could."""
        if not isinstance(self.learner, TellsUnknown):
            return False
        try:
            self.learner.unknown(self.blank)
        except UserError:
            return False
        return True

    @property
    def least_images(self) -> int:
        """Pictures of a class that must be left to learn from."""
        return LEAST if isinstance(self.learner, KeepsStatistics) else 2

    def need(self, ability: str, what: str) -> None:
        """Refuse what this learner cannot do."""
        if not self.can[ability]:
            why = self._why_not(ability)
            raise RefusedError(409, f"Expected a learner that can {what} but this one cannot: {why}.")

    def _why_not(self, ability: str) -> str:
        learner = self.learner
        if ability in ("learn", "forget"):
            if self.read_only:
                return "it was started with --read-only"
            if learner.parts != ALL:
                return "its file was saved with inference_only=True; serve the whole learner"
        if learner.parts == TO_PREDICT and ability in ("draw", "directions", "compare"):
            return "its file was saved without what that needs; serve the whole learner"
        if ability == "unknown" and isinstance(learner, TellsUnknown):
            return "it has not held out enough pictures to be calibrated"
        return f"its method is {learner.recipe.method.name}"

    def label_of(self, name: str) -> int:
        """The label of the class of that name."""
        for label, own in self.names.items():
            if own == name:
                return label
        shown = list(self.names.values())
        known = ", ".join(shown[:8]) + (f" … ({len(shown)} in all)" if len(shown) > 8 else "")
        raise RefusedError(404, f"Expected a class that was learned but got {name!r}; learned are {known}.")

    def described(self) -> dict[str, Any]:
        """What GET /classes answers."""
        recipe = self.learner.recipe
        classes = []
        for label, name in self.names.items():
            facts = asdict(self.facts.get(label, ClassFacts()))
            facts.pop("task")
            classes.append({"label": label, "name": name, **facts})
        return {
            "version": self.version,
            "method": recipe.method.name,
            "recipe": recipe.name,
            "image_size": self.image_size,
            "channels": self.channels,
            "held_out": HELD_OUT,
            "least_images": self.least_images,
            "can": self.can,
            "classes": classes,
        }
