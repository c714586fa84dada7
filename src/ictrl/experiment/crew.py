"""Who carries out runs several at once: processes of this machine, or a cluster (`ray_crew`).

A crew takes one run after another while it has room. It gives a future per run, and a run that dies takes nothing with
it but its own future.
"""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from ictrl.experiment import first_tasks
from ictrl.experiment.results import Results
from ictrl.experiment.run import Listener, Stopped, resume, run
from ictrl.experiment.study import Planned
from ictrl.experiment.workers import Workers, shall_stop
from ictrl.recipes.tables import beginning

GLANCE = 0.5  # seconds between looks at whether to stop, and at whose first task is done


class RunEndedError(Exception):
    """A run that came to its end too soon somewhere else, and why, in a line."""


class Crew(Protocol):
    """For a `with` block: whatever ends it early asks all runs to stop after their epoch, and waits until they have."""

    @property
    def room(self) -> int:
        """How many runs may be begun now besides those that are going."""

    def begin(self, item: Planned, shared: Path | None, one_task: bool = False) -> Future[Any]:
        """Begin a run, or go on with it, to its end or for one task.

        `shared` is the place of the first task of all that begin alike.
        """

    def ended(self, seconds: float) -> Collection[Future[Any]]:
        """Runs that have come to an end, after so many seconds at the latest."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class Processes:
    """A crew of up to so many processes on this machine."""

    def __init__(self, jobs: int) -> None:
        self.jobs, self.workers = jobs, Workers(jobs)

    @property
    def room(self) -> int:
        return self.jobs - len(self.workers.busy)

    def begin(self, item: Planned, shared: Path | None, one_task: bool = False) -> Future[Any]:
        return self.workers.begin(_do_in_process, item, shared, one_task)

    def ended(self, seconds: float) -> Collection[Future[Any]]:
        return self.workers.ended(seconds)

    def __enter__(self) -> Self:
        self.workers.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.workers.__exit__(kind, error, traceback)


class Here:
    """A crew of this process alone, which is told by a listener how each run goes."""

    def __init__(self, listener: Callable[[Planned], Listener], stop: Callable[[], bool]) -> None:
        self.listener, self.stop = listener, stop
        self.over: list[Future[Any]] = []

    @property
    def room(self) -> int:
        return 0 if self.over else 1

    def begin(self, item: Planned, shared: Path | None, one_task: bool = False) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            do(item, shared, self.listener(item), self.stop, one_task)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        self.over.append(future)
        return future

    def ended(self, seconds: float) -> Collection[Future[Any]]:
        over, self.over = self.over, []
        return over

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


def do(
    item: Planned,
    shared: Path | None,
    listener: Listener | None = None,
    stop: Callable[[], bool] = lambda: False,
    one_task: bool = False,
) -> None:
    """One run of a study from wherever it stands to its end, or for one task, in this process."""
    step = _OneTask(listener or Listener(), one_task, stop)
    listener, stop = first_tasks.KeepFirst(step, item.folder, shared), step.shall_stop
    try:
        if (item.folder / "config.toml").exists():
            given = item.recipe.run
            resume(item.folder, listener=listener, stop=stop, device=given.device, keep_pictures=given.keep_pictures)
        elif shared is not None and shared.exists() and not first_tasks.damage(shared):
            run(item.recipe, item.folder, listener=listener, stop=stop, first_task=shared)
        else:
            run(item.recipe, item.folder, listener=listener, stop=stop)
    except Stopped:
        if not step.done:
            raise
    except SystemExit as error:  # of a method or a data set of somebody's own: not the end of the study
        raise RuntimeError(f"SystemExit {error}") from error


def do_several(
    todo: list[Planned],
    shared: Mapping[str, Path],
    crew: Crew,
    ended: Callable[[Planned, Callable[[], Any]], None],
    glance: Callable[[], None],
    stop: Callable[[], bool],
) -> None:
    """Runs of a crew. Of those that begin alike one goes first, the others once its first task is done.

    Whatever ends this early, all runs stop after their epoch and are written down.
    """
    waiting, going = list(todo), dict[Future[Any], Planned]()
    first: dict[str, Planned] = {}
    for item in todo:
        first.setdefault(beginning(item.recipe), item)

    def ready(item: Planned) -> bool:
        text = beginning(item.recipe)
        leader = first[text]
        return (
            leader is item or text not in shared or shared[text].exists() or leader not in (*waiting, *going.values())
        )

    with crew:
        while waiting or going:
            for item in [item for item in waiting if ready(item)][: crew.room]:
                waiting.remove(item)
                going[crew.begin(item, shared.get(beginning(item.recipe)))] = item
            for future in crew.ended(GLANCE):
                ended(going.pop(future), future.result)
            glance()
            if stop():
                raise KeyboardInterrupt


class _OneTask(Listener):
    """Stops a run after its next task, if asked for, as if somebody had stopped it."""

    def __init__(self, listener: Listener, wanted: bool, stop: Callable[[], bool]) -> None:
        self.on_begin, self.on_task, self.on_epoch = (  # type: ignore[method-assign]
            listener.on_begin,
            listener.on_task,
            listener.on_epoch,
        )
        self.listener, self.wanted, self.stop, self.done = listener, wanted, stop, False

    def on_measured(self, results: Results) -> None:
        self.done = self.wanted
        self.listener.on_measured(results)

    def shall_stop(self) -> bool:
        return self.done or self.stop()


def _do_in_process(item: Planned, shared: Path | None, one_task: bool) -> None:
    do(item, shared, stop=shall_stop, one_task=one_task)
