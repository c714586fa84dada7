"""Runs side by side: those that differ in nothing but their seed are one group, of which charts show the mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ictrl.recipes.tables import differences
from ictrl.report.palette import method_colour, method_shape
from ictrl.report.record import RunRecord


@dataclass(frozen=True)
class Group:
    """One entry of a chart that compares: a run, or the same with several seeds."""

    runs: tuple[RunRecord, ...]

    @property
    def method(self) -> str:
        return self.runs[0].method

    @property
    def name(self) -> str:
        """What a legend calls it, the method first."""
        first = self.runs[0]
        name = first.name if len(self.runs) == 1 else f"{first.recipe.name}, {len(self.runs)} seeds"
        return name if name.startswith(self.method) else f"{self.method}: {name}"

    @property
    def colour(self) -> str:
        """Its name in the palette."""
        return method_colour(self.method)

    @property
    def shape(self) -> str:
        """Of the dots of its curve."""
        return method_shape(self.method)

    def mean(self, number: Callable[[RunRecord], float]) -> float:
        """Of a number that every run has."""
        return fmean(map(number, self.runs))

    def takes(self, run: RunRecord) -> bool:
        """Whether a run is one of these with another seed, on the same data and as far."""
        first = self.runs[0]
        seeded = replace(run.recipe, run=replace(run.recipe.run, seed=first.recipe.run.seed))
        return (
            run.recipe.run.seed not in {other.recipe.run.seed for other in self.runs}
            and run.results.test_images == first.results.test_images
            and run.done == first.done
            and not differences(first.recipe, seeded)
        )


def grouped(runs: Sequence[RunRecord]) -> list[Group]:
    """The runs in groups, in the order of the first of each."""
    groups: list[Group] = []
    for run in runs:
        for i, group in enumerate(groups):
            if group.takes(run):
                groups[i] = Group((*group.runs, run))
                break
        else:
            groups.append(Group((run,)))
    return groups


def mean_note(groups: Sequence[Group]) -> str:
    """What a caption says where there are several seeds."""
    return " Means over seeds." if any(len(group.runs) > 1 for group in groups) else ""
