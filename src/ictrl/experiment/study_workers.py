"""Carrying out a study: each run once, several at once on request, what begins alike learned once."""

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from hashlib import sha256
from multiprocessing import get_context, parent_process
from multiprocessing.synchronize import Event
from pathlib import Path
from threading import Thread

import torch

from ictrl.errors import InputError, NonFiniteError, UserError
from ictrl.experiment.results import Results
from ictrl.experiment.run import Listener, resume, run
from ictrl.experiment.study import Planned, Study
from ictrl.experiment.study_table import results_of, table
from ictrl.files import make_folder, write_atomically
from ictrl.recipes.reader import read_resolved
from ictrl.recipes.tables import beginning, differences

GLANCE = 0.5  # seconds between looks at whether to stop, and at whose first task is done


def carry_out(
    study: Study,
    planned: list[Planned],
    out: Path,
    *,
    jobs: int = 1,
    listener: Callable[[Planned], Listener] = lambda item: Listener(),
    finished: Callable[[Planned], None] = lambda item: None,
    failed: Callable[[Planned, Exception], None] = lambda item, error: None,
    glance: Callable[[], None] = lambda: None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Do the runs that are still to be done, `jobs` at once, and write the table after each.

    One after another they are watched by listeners; several at once by `glance`, which is called now and then. A run
    that fails holds up no other; an error in the end says which did.
    """
    check_planned(planned)
    make_folder(out)
    alike = Counter(beginning(item.recipe) for item in planned)
    shared = {
        text: out / "first-tasks" / sha256(text.encode()).hexdigest()[:16] / "learner.safetensors"
        for text in alike
        if alike[text] > 1
    }
    failures: dict[str, Exception] = {}

    def ended(item: Planned, result: Callable[[], None]) -> None:
        try:
            result()
        except Exception as error:  # of whatever kind: the others have nothing to do with it
            failures[item.folder.name] = error
            failed(item, error)
        else:
            write_atomically(out / "table.md", (table(study, results_of(planned)) + "\n").encode())
            finished(item)

    todo = [item for item in planned if not item.finished]
    if jobs == 1:
        for item in todo:
            ended(item, lambda: _do(item, shared.get(beginning(item.recipe)), listener(item), stop))  # noqa: B023
    else:
        _do_several(todo, shared, jobs, ended, glance, stop)
    if not todo:
        write_atomically(out / "table.md", (table(study, results_of(planned)) + "\n").encode())
    if failures:
        reasons = " ".join(f"{name}: {told(error)}" for name, error in failures.items())
        raise InputError(
            f"Expected every run to come to its end but {len(failures)} of {len(planned)} did not. {reasons}"
        )


def told(error: Exception) -> str:
    """An error in one line; of one that nobody foresaw also what it is."""
    foreseen = isinstance(error, UserError | NonFiniteError)
    line = " ".join(str(error).split())
    return line if foreseen else f"{type(error).__name__}: {line}"


def check_planned(planned: list[Planned]) -> None:
    """A folder from another time holds a run of this very recipe, or is in the way."""
    for item in planned:
        config = item.folder / "config.toml"
        changed = differences(read_resolved(config), item.recipe) if config.exists() else []
        if changed:
            raise InputError(
                f"Expected {item.folder} to be a run of this study but it was begun with another recipe "
                f"({'; '.join(changed)}): remove it, or choose another --out."
            )


def _do(
    item: Planned,
    shared: Path | None,
    listener: Listener | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    listener = listener or Listener()
    if (item.folder / "config.toml").exists():
        given = item.recipe.run
        resume(item.folder, listener=listener, stop=stop, device=given.device, keep_pictures=given.keep_pictures)
        return
    if shared is not None and shared.exists():
        run(item.recipe, item.folder, listener=listener, stop=stop, first_task=shared)
    else:
        run(item.recipe, item.folder, listener=_KeepFirst(listener, item.folder, shared), stop=stop)


def _do_several(
    todo: list[Planned],
    shared: Mapping[str, Path],
    jobs: int,
    ended: Callable[[Planned, Callable[[], None]], None],
    glance: Callable[[], None],
    stop: Callable[[], bool],
) -> None:
    """Runs in processes of their own. Of those that begin alike one goes first, the others once its first task is done.

    Whatever ends this early, all runs stop after their epoch and are written down.
    """
    context = get_context("spawn")
    asked, threads = context.Event(), max(1, torch.get_num_threads() // jobs)
    waiting, going = list(todo), dict[Future[None], Planned]()
    first: dict[str, Planned] = {}
    for item in todo:
        first.setdefault(beginning(item.recipe), item)

    def ready(item: Planned) -> bool:
        text = beginning(item.recipe)
        leader = first[text]
        return (
            leader is item or text not in shared or shared[text].exists() or leader not in (*waiting, *going.values())
        )

    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare_process, initargs=(asked, threads)) as pool:
        try:
            while waiting or going:
                for item in [item for item in waiting if ready(item)][: jobs - len(going)]:
                    waiting.remove(item)
                    with _signals_unheard():
                        going[pool.submit(_do_in_process, item, shared.get(beginning(item.recipe)))] = item
                for future in wait(going, timeout=GLANCE, return_when=FIRST_COMPLETED).done:
                    ended(going.pop(future), future.result)
                glance()
                if stop():
                    raise KeyboardInterrupt
        except BaseException:
            asked.set()
            raise


_asked: Event | None = None  # in a process of its own: set once its run shall stop


def _prepare_process(asked: Event, threads: int) -> None:
    global _asked
    _asked = asked
    torch.set_num_threads(threads)  # processes that fight for the same cores are many times slower
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """A study that is killed leaves nobody behind."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _signals_unheard() -> Iterator[None]:
    """Ctrl-C reaches all processes of a terminal; those begun in here do not hear it: the study says when to stop."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _do_in_process(item: Planned, shared: Path | None) -> None:
    assert _asked is not None
    _do(item, shared, stop=_asked.is_set)


class _KeepFirst(Listener):
    """Puts the learner aside after its first task, for runs that begin alike."""

    def __init__(self, listener: Listener, folder: Path, first_task: Path | None) -> None:
        self.on_begin, self.on_task, self.on_epoch = (  # type: ignore[method-assign]
            listener.on_begin,
            listener.on_task,
            listener.on_epoch,
        )
        self.listener, self.folder, self.first_task = listener, folder, first_task

    def on_measured(self, results: Results) -> None:
        if self.first_task is not None and results.done == 1:
            make_folder(self.first_task.parent)
            checkpoint = self.folder / "checkpoint" / "after-task-001.safetensors"
            for source, to in ((self.folder / "metrics.jsonl", "metrics.jsonl"), (checkpoint, self.first_task.name)):
                copy = self.first_task.with_name(f"{self.folder.name}-{to}")
                shutil.copyfile(source, copy)
                copy.replace(self.first_task.with_name(to))  # whole or not at all, also with several runs at once
        self.listener.on_measured(results)
