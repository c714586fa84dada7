"""Carrying out a study: each run once, several at once on request, what begins alike learned once.

A run that fails, whatever the reason, holds up no other: an exception, a process that was killed, files of an earlier
time that cannot be read.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from ictrl.errors import ConfigError, InputError, NonFiniteError, RunsFailedError, UserError, lacks_memory
from ictrl.experiment import first_tasks
from ictrl.experiment.crew import Crew, Processes, RunEndedError, do, do_several
from ictrl.experiment.run import Listener
from ictrl.experiment.study import Planned, Study
from ictrl.experiment.study_table import results_of, table
from ictrl.files import make_folder, remove_unfinished, write_atomically
from ictrl.recipes.reader import read_resolved
from ictrl.recipes.tables import beginning, differences

TABLE = "table.md"
KILLED = "its process was killed, perhaps because memory ran out"


def carry_out(
    study: Study,
    planned: list[Planned],
    out: Path,
    *,
    only: Sequence[Planned] | None = None,
    jobs: int = 1,
    crew: Crew | None = None,
    listener: Callable[[Planned], Listener] = lambda item: Listener(),
    finished: Callable[[Planned], None] = lambda item: None,
    failed: Callable[[Planned, Exception], None] = lambda item, error: None,
    glance: Callable[[], None] = lambda: None,
    stop: Callable[[], bool] = lambda: False,
    said: Callable[[str], None] = lambda line: None,
) -> None:
    """Do the runs that are still to be done, `jobs` at once or by a crew of one's own, and write the table after each.

    With `only` no others are done here, perhaps because other processes do them in the same folder; the table has all.
    One after another they are watched by listeners; several at once by `glance`, which is called now and then. A run
    that fails holds up no other; an error in the end says which did. `said` is told what could not be read, and counts
    as not done.
    """
    check_planned(planned)
    make_folder(out)
    remove_unfinished(out)
    for line in (*(item.damage for item in planned), *first_tasks.clear(out)):
        if line:
            said(line)
    alike = Counter(beginning(item.recipe) for item in planned)
    shared = {
        text: first_tasks.place_of(out, item.recipe) for item in planned if alike[text := beginning(item.recipe)] > 1
    }
    own = planned if only is None else only
    todo = [item for item in own if not item.finished]
    failures, unwritten = dict[str, Exception](), dict[str, Exception]()
    done = len(own) - len(todo)

    def tabled() -> None:
        try:
            found = results_of(planned)
            write_atomically(out / TABLE, (table(study, found) + "\n").encode())
            if (read := sum(map(len, found.values()))) < done:  # one that cannot be read is not left out quietly
                raise InputError(f"Expected the results of {done} runs but could read those of {read}.")
        except Exception as error:
            unwritten[TABLE] = error
        else:
            unwritten.pop(TABLE, None)

    def ended(item: Planned, result: Callable[[], Any]) -> None:
        nonlocal done
        try:
            result()
        except Exception as error:  # of whatever kind: the others have nothing to do with it
            failures[item.folder.name] = error
            failed(item, error)
            return
        done += 1
        tabled()
        try:
            finished(item)
        except Exception as error:  # its results are good, but not everywhere where they should be
            unwritten[item.folder.name] = error

    if crew is None and jobs == 1:
        for item in todo:
            ended(item, lambda: do(item, shared.get(beginning(item.recipe)), listener(item), stop))  # noqa: B023
    else:
        do_several(todo, shared, crew or Processes(jobs), ended, glance, stop)
    if not todo or TABLE in unwritten:
        tabled()
    if errors := [*failures.values(), *unwritten.values()]:
        lines = [f"Expected every run to come to its end but {len(failures)} of {len(own)} did not."] * bool(failures)
        lines += [f"{name}: {told(error)}" for name, error in failures.items()]
        lines += ["Expected to write all that was found but could not."] * bool(unwritten)
        lines += [f"{name}: {told(error)}" for name, error in unwritten.items()]
        mistakes = all(isinstance(error, UserError) for error in errors)
        raise (InputError if mistakes else RunsFailedError)(" ".join(lines))


def told(error: Exception) -> str:
    """An error in one line; of one that nobody foresaw also what it is."""
    if isinstance(error, BrokenProcessPool):
        return f"{KILLED}."
    if where := lacks_memory(error):
        return f"Expected enough memory for this but {where} has too little left: free some, or ask for less."
    foreseen = isinstance(error, UserError | NonFiniteError | RunEndedError)
    line = " ".join(str(error).split())
    return line if foreseen else f"{type(error).__name__}: {line}"


def check_planned(planned: list[Planned]) -> None:
    """A folder from another time holds a run of this very recipe, or is in the way."""
    for item in planned:
        config = item.folder / "config.toml"
        try:
            changed = differences(read_resolved(config), item.recipe) if config.exists() else []
        except ConfigError:
            continue  # a matter of this run alone, which says so when its turn comes
        if changed:
            raise InputError(
                f"Expected {item.folder} to be a run of this study but it was begun with another recipe "
                f"({'; '.join(changed)}): remove it, or choose another --out."
            )
