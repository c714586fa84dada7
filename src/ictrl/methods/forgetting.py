"""Forgetting on request: a class that was learned is taken out of what is kept, and is never predicted again.

`forget` succeeds or leaves the learner as it was, as `learn` does. What is kept of one class alone goes: its count,
mean and moments, its row of the head, its images. What several classes share can not be divided again, and networks
stay as they were trained: `what_remains` says so, method by method. A class that was forgotten may be learned again.
"""

from typing import Any, Self

from ictrl.errors import InputError
from ictrl.methods.base import Kept, Learner
from ictrl.methods.inference import check_can_learn
from ictrl.methods.labels import listed, number_of
from ictrl.methods.threads import learns

IN_THE_WEIGHTS = "what the class has taught the networks: their weights are as they were"
IN_THE_FIRST_WEIGHTS = (
    "what the class has taught the networks, if it was in the first task: later ones leave them as they are"
)
POOLED = "its share of the spread that is kept of all classes together, though not its mean"


class ForgettingLearner(Learner[Kept]):
    """Can forget a class: a method says what is kept of the others."""

    # what a method may write

    def kept_without(self, row: int) -> Kept:
        """What is kept of all classes but the one in this place of the order of learning; there are others."""
        kept: Any = self.kept
        if kept is not None and not hasattr(kept, "without"):
            raise InputError(
                f"Expected a method that can forget but {self.recipe.method.name} does not say what it keeps without a "
                "class: write kept_without."
            )
        return None if kept is None else kept.without(row)  # type: ignore[return-value]

    def what_remains(self) -> list[str]:
        """What may be left of a class once it is forgotten, each as part of a sentence."""
        return [IN_THE_WEIGHTS]

    def drop_row(self, row: int) -> None:
        """Take the class in this place of the order of learning out of the networks, where it has a part of its own."""

    # what it gets

    @learns
    def forget(self, label: int | str) -> Self:
        """Take a class out of memory; it is never predicted again, and may be learned anew.

        It succeeds or leaves the learner as it was. `what_remains` says what is not undone.
        """
        check_can_learn(self, "forget")
        number = number_of(label, self.class_names, self._by_name)
        if number not in self.labels:
            known = f"learned are {listed(sorted(self.labels))}" if self.labels else "nothing is learned"
            raise InputError(f"Expected a class that was learned but got {number}; {known}.")
        row, others = self.labels.index(number), [other for other in self.labels if other != number]
        kept = self.kept_without(row) if others else self.kept_from([], {})
        self.drop_row(row)
        self.kept, self.labels = kept, others
        self.class_names = {other: name for other, name in self.class_names.items() if other != number}
        return self
