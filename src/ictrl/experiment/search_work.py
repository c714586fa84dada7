"""Carrying out a search: trial after trial, several at once on request, each noted as soon as it ends.

A trial that fails is noted with the reason and holds up no other. One that was stopped goes on where it was.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from ictrl.errors import InputError, RunsFailedError, UserError
from ictrl.experiment import first_tasks
from ictrl.experiment.crew import GLANCE, Crew
from ictrl.experiment.results import Results
from ictrl.experiment.search import Search
from ictrl.experiment.search_record import write_record
from ictrl.experiment.search_trials import Trials
from ictrl.experiment.study import Planned
from ictrl.experiment.study_workers import check_planned, told

HOPELESS = 3  # trials that fail, and none that does not, before a search gives up


@dataclass
class Trial:
    """One that is going: its runs one after another, a seed each."""

    live: Any
    settings: dict[str, Any]
    runs: list[Planned]
    done: list[float] = field(default_factory=list)
    """the value of each run that is over"""

    @property
    def number(self) -> int:
        return int(self.live.number)

    @property
    def run(self) -> Planned:
        return self.runs[len(self.done)]


@dataclass
class SearchWork:
    """What a search needs to be carried out, and whom it tells."""

    search: Search
    trials: Trials
    out: Path
    root: str | None
    device: str | None
    prune: bool
    ended: Callable[[int, str], None] = lambda number, how: None

    def carry_out(self, total: int, crew: Crew, glance: Callable[[], None], stop: Callable[[], bool]) -> None:
        """Until so many trials are over. Whatever ends this early, all runs stop after their epoch."""
        going = dict[Future[Any], Trial]()
        shared = self.search.shares_first_task
        coming = self._coming(total, going)
        with crew:
            waiting: Trial | None = None
            while True:
                while crew.room > 0 and (waiting := waiting or next(coming, None)) is not None:
                    place = first_tasks.place_of(self.out, waiting.run.recipe) if shared else None
                    if place is not None and going and not place.exists():
                        break  # what another is learning is not learned twice
                    going[self._begin(crew, waiting, place)] = waiting
                    waiting = None
                if not going and waiting is None:
                    return
                for future in crew.ended(GLANCE):
                    trial = going.pop(future)
                    if self._goes_on(trial, future):
                        place = first_tasks.place_of(self.out, trial.run.recipe) if shared else None
                        going[self._begin(crew, trial, place)] = trial
                glance()
                if stop():
                    raise KeyboardInterrupt

    def _coming(self, total: int, going: dict[Future[Any], Trial]) -> Iterator[Trial]:
        """Trials that were begun before, and then new ones, as long as there are to be more."""
        for live in self.trials.begun():
            yield from self._prepared(live)
        while self.trials.over + len(going) < total:
            yield from self._prepared(self.trials.next())

    def _prepared(self, live: Any) -> Iterator[Trial]:
        """A trial that is to be learned; nothing of one whose settings go together ill, or were tried before."""
        settings = self.trials.settings(live)
        if (like := self.trials.like(live)) is not None:
            live.set_user_attr("same_as", like.number)
            self._over(live, like.value, f"the same settings as trial {like.number}")
            return
        try:
            runs = self.search.planned(live.number, settings, self.out, self.root, self.device)
        except UserError as error:
            self._failed(live, error)
            return
        check_planned(runs)
        yield Trial(live, settings, runs)

    def _begin(self, crew: Crew, trial: Trial, place: Path | None) -> Future[Any]:
        trial.live.set_user_attr("begun", time.time())
        return crew.begin(trial.run, place, self.prune)

    def _goes_on(self, trial: Trial, future: Future[Any]) -> bool:
        """What came of a trial's run, or of its next task; whether the trial goes on."""
        try:
            future.result()
            results = Results.read(trial.run.folder / "results.json")
        except Exception as error:  # of whatever kind: the others have nothing to do with it
            self._failed(trial.live, error)
            return False
        value = float(getattr(results.memory, self.search.maximise))
        if self.prune and not (results.complete and len(trial.done) + 1 == len(trial.runs)):
            step = len(trial.done) * len(results.tasks) + results.done
            if self.trials.reached(trial.live, step, fmean([*trial.done, value])):
                self.trials.prune(trial.live)
                self._clean(trial.runs)
                self._noted(trial.number, f"left off after {step} tasks at {value:.3f}")
                return False
        if not results.complete:
            return True
        trial.done.append(value)
        if len(trial.done) < len(trial.runs):
            return True
        by_seed = {str(item.seed): value for item, value in zip(trial.runs, trial.done)}
        trial.live.set_user_attr("by_seed", by_seed)
        self._clean(trial.runs)
        self._over(trial.live, fmean(trial.done))
        return False

    def _over(self, live: Any, value: float, why: str = "") -> None:
        self.trials.tell(live, value)
        best = self.trials.best(1)[0]
        standing = (
            "the best so far" if best.number == live.number else f"best so far {best.value:.3f}, trial {best.number}"
        )
        self._noted(live.number, f"{value:.3f} ({'; '.join(filter(None, (why, standing)))})")

    def _failed(self, live: Any, error: Exception) -> None:
        self.trials.fail(live, told(error))
        self._noted(live.number, f"failed ({told(error).rstrip('.')})")
        over = [trial for trial in self.trials.refresh() if trial.state.is_finished()]
        if len(over) >= HOPELESS and all("error" in trial.user_attrs for trial in over):
            kind = InputError if isinstance(error, UserError) else RunsFailedError
            raise kind(f"Expected trials that come to an end but the first {len(over)} failed: {told(error)}")

    def _noted(self, number: int, how: str) -> None:
        write_record(self.search, self.trials, self.out)
        self.ended(number, how)

    @staticmethod
    def _clean(runs: list[Planned]) -> None:
        """What was measured stays; learners of a trial are of no further use, and many take much space."""
        for item in runs:
            shutil.rmtree(item.folder / "checkpoint", ignore_errors=True)
