"""The trials of a search, as Optuna keeps them in a journal in the search's folder.

Each trial is drawn by a sampler that is seeded by the search's seed and the trial's number, so that a search that was
stopped draws the same trials as one that was not. The journal is a line per event; one that was being written when the
process was killed is cut off.
"""

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from ictrl.errors import InputError
from ictrl.experiment.search import Range, Search
from ictrl.recipes.tables import differences, recipe_from_table

INSTALL = "pip install 'ictrl[search]'"
JOURNAL = "journal.log"
FEW = 5  # trials before any is pruned


def optuna_module() -> Any:
    """Optuna, if it is installed."""
    try:
        import optuna
    except ImportError as error:
        raise InputError(f"Expected Optuna for a search but it cannot be imported ({error}): {INSTALL}.") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


class Trials:
    """Those that are done, those that were begun, and the next."""

    def __init__(self, search: Search, out: Path, seed: int) -> None:
        """The caller holds the folder's lock."""
        self.optuna, self.search, self.seed = optuna_module(), search, seed
        self.path = out / JOURNAL
        self._check_place(out)
        _cut_unfinished(self.path)
        try:
            with _unwarned():
                from optuna.storages import JournalStorage
                from optuna.storages.journal import JournalFileBackend

                lock: Any = _Held()
                storage = JournalStorage(JournalFileBackend(str(self.path), lock_obj=lock))
                self.study = self.optuna.create_study(
                    storage=storage,
                    study_name="search",
                    direction=self.optuna.study.StudyDirection.MAXIMIZE,
                    load_if_exists=True,
                    pruner=self.optuna.pruners.MedianPruner(n_startup_trials=FEW),
                )
                self.all = self.study.trials
        except Exception as error:
            if isinstance(error, OSError):
                raise
            reason = " ".join(f"{type(error).__name__} {error}".split())
            raise InputError(
                f"Expected the journal of a search in {self.path} but it cannot be read ({reason[:200]}): put it back, "
                "or choose another --out."
            ) from None
        self._check_same()

    def _check_place(self, out: Path) -> None:
        if not self.path.exists() and (left := sorted(out.glob("trial-*"))):
            raise InputError(
                f"Expected {self.path} beside the trials of an earlier search such as {left[0].name} but it is gone: "
                "put it back, or choose another --out."
            )

    def _check_same(self) -> None:
        """A folder from another time holds this very search."""
        now = {**self.search.written(), "seed": self.seed}
        before = self.study.user_attrs.get("search")
        if before is None:
            self.study.set_user_attr("search", now)
            return
        changed = differences(recipe_from_table(before["recipe"]), self.search.line.recipe)
        for key in ("seeds", "maximise", "seed"):
            if before[key] != now[key]:
                changed.append(f"{key}: {before[key]} → {now[key]}")
        if before["ranges"] != json.loads(json.dumps(now["ranges"])):
            changed.append("its ranges")
        if changed:
            raise InputError(
                f"Expected {self.path.parent} to be of this search but it was begun with another "
                f"({'; '.join(changed)}): remove it, or choose another --out."
            )

    def refresh(self) -> list[Any]:
        self.all = self.study.get_trials(deepcopy=False)
        return list(self.all)

    @property
    def over(self) -> int:
        """Trials that have come to an end, whatever it was."""
        return sum(trial.state.is_finished() for trial in self.refresh())

    def begun(self) -> list[Any]:
        """Trials that were stopped, or whose process died: to go on with."""
        running = self.optuna.trial.TrialState.RUNNING
        return [self._live(trial) for trial in self.refresh() if trial.state == running]

    def next(self) -> Any:
        """A new trial."""
        number = len(self.refresh())
        self._seed(number)
        with _unwarned():
            return self.study.ask()

    def settings(self, trial: Any) -> dict[str, Any]:
        """What it is to try; drawn now unless it was before."""
        self._seed(trial.number)
        with _unwarned():
            return {name: _suggested(trial, name, found) for name, found in self.search.ranges.items()}

    def like(self, trial: Any) -> Any:
        """An earlier trial of the very same settings that has its value; None if there is none."""
        complete = self.optuna.trial.TrialState.COMPLETE
        return next((x for x in self.refresh() if x.state == complete and x.params == trial.params), None)

    def reached(self, trial: Any, step: int, value: float) -> bool:
        """Note an accuracy on the way; whether the trial is worse there than most before it."""
        if step not in self.study.get_trials(deepcopy=False)[trial.number].intermediate_values:
            trial.report(value, step)
        return bool(trial.should_prune())

    def tell(self, trial: Any, value: float) -> None:
        self.study.tell(trial, value)

    def prune(self, trial: Any) -> None:
        self.study.tell(trial, state=self.optuna.trial.TrialState.PRUNED)

    def fail(self, trial: Any, why: str) -> None:
        trial.set_user_attr("error", why)
        self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)

    def best(self, many: int) -> list[Any]:
        """Complete trials, the best first; of equals the earliest."""
        complete = self.optuna.trial.TrialState.COMPLETE
        found = [trial for trial in self.refresh() if trial.state == complete]
        return sorted(found, key=lambda trial: (-trial.value, trial.number))[:many]

    def _live(self, trial: Any) -> Any:
        self._seed(trial.number)
        return self.optuna.trial.Trial(self.study, trial._trial_id)

    def _seed(self, number: int) -> None:
        own = int.from_bytes(sha256(f"{self.seed} {number}".encode()).digest()[:4])
        with _unwarned():
            self.study.sampler = self.optuna.samplers.TPESampler(seed=own, constant_liar=True)


class _Held:
    """The lock of the journal: whoever holds the search's folder has it."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


def value_of(found: Range, stored: Any) -> Any:
    """A setting's value by what the journal has: choices that are lists are texts there."""
    texts = {json.dumps(list(choice)): choice for choice in found.choices if isinstance(choice, list | tuple)}
    return texts.get(stored, stored) if isinstance(stored, str) else stored


def _suggested(trial: Any, name: str, found: Range) -> Any:
    if found.choices:
        stored = [json.dumps(list(x)) if isinstance(x, list | tuple) else x for x in found.choices]
        return value_of(found, trial.suggest_categorical(name, stored))
    if found.whole:
        return trial.suggest_int(name, found.low, found.high, step=found.step or 1, log=found.log)
    return trial.suggest_float(name, found.low, found.high, step=found.step, log=found.log)


def _cut_unfinished(path: Path) -> None:
    """The end of a journal whose process was killed in the middle of a line: nothing has counted on it yet."""
    if not path.is_file():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)


@contextmanager
def _unwarned() -> Iterator[None]:
    """Without what Optuna says of its own parts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
