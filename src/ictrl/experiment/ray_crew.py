"""Runs on a Ray cluster: each on a seat of its own, their files fetched into one place as they grow.

Nothing is asked of the machines but what a run itself needs: they need not share a disk with this one. A seat whose
process or machine dies is replaced, and its run goes on from the last checkpoint that was fetched; one that dies again
and again without getting further is given up.
"""

import re
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ictrl import __version__
from ictrl.errors import InputError, RunsFailedError
from ictrl.experiment.crew import GLANCE, RunEndedError
from ictrl.experiment.ray_cluster import INSTALL, Cluster, ray_module
from ictrl.experiment.ray_seat import AT_ONCE, VERSIONS, Seat, pack_run
from ictrl.experiment.run_folder import RunFolder
from ictrl.experiment.study import Planned
from ictrl.experiment.travel import Parcel, pack, unpack
from ictrl.files import make_folder

AHEAD = 2  # runs that wait for a seat on the cluster, so that none stays empty and a cluster that can grow does
DEATHS = 3  # of one run, without a checkpoint in between
SILENCE = 30  # seconds without a seat before it is said


@dataclass
class _Going:
    """A run on its seat."""

    item: Planned
    shared: Path | None
    one_task: bool
    future: Future[Any]
    held: ExitStack
    """its folder's lock, for as long as it is going"""
    seat: Any = None
    done: Any = None
    news: Any = None
    begun: bool = False
    deaths: int = 0
    reached: list[str] = field(default_factory=list)
    """checkpoints there were when it died last"""


class RayCrew:
    """A crew on a cluster. `said` is told of seats that died, and of runs that wait."""

    def __init__(self, cluster: Cluster, out: Path, said: Callable[[str], None] = lambda line: None) -> None:
        self.cluster, self.out, self.said = cluster, out, said
        self.ray = ray_module()
        self.going: list[_Going] = []
        self.idle: list[Any] = []
        self.ended_early: list[Future[None]] = []
        self.waiting_since: float | None = None
        self.stopping = False

    @property
    def room(self) -> int:
        return max(0, self.cluster.slots + AHEAD - len(self.going))

    def begin(self, item: Planned, shared: Path | None, one_task: bool = False) -> Future[Any]:
        future: Future[Any] = Future()
        going = _Going(item, shared, one_task, future, ExitStack())
        try:
            make_folder(item.folder)
            going.held.enter_context(RunFolder(item.folder).locked())
            RunFolder(item.folder).remove_unfinished()
            self._seat(going)
        except Exception as error:  # of this run alone: its folder cannot be used
            going.held.close()
            future.set_exception(error)
            self.ended_early.append(future)
        else:
            self.going.append(going)
        return future

    def ended(self, seconds: float) -> Collection[Future[Any]]:
        early, self.ended_early = self.ended_early, []
        self._free(self.idle)  # nobody wanted them: others may
        if self.going:
            refs = [going.done for going in self.going]
            done = set(self.ray.wait(refs, num_returns=1, timeout=0 if early else seconds)[0])
            for going in list(self.going):
                self._look_at(going, going.done in done)
            self._say_if_none_begins()
        over = [going for going in self.going if going.future.done()]
        self.going = [going for going in self.going if not going.future.done()]
        for going in over:
            going.held.close()
        return [*early, *(going.future for going in over)]

    def _seat(self, going: _Going) -> None:
        """Begin a run on a seat that is free, or a new one, from what its folder holds."""
        folder = pack(self.out, [going.item.folder])
        first_task = Parcel()
        if going.shared is not None and not folder.whole and going.shared.exists():
            first_task = pack(self.out, [going.shared.parent])
        going.seat, going.begun, going.news = self.idle.pop() if self.idle else self._new_seat(), False, None
        what = pack_run(going.item, self.out, going.shared, going.one_task)
        going.done = going.seat.run.remote(what, VERSIONS, folder, first_task)

    def _new_seat(self) -> Any:
        """Another actor, wherever there is room for one."""
        cpus, gpus = self.cluster.cpus, self.cluster.gpus
        actor = self.ray.remote(Seat).options(num_cpus=cpus, num_gpus=gpus, max_concurrency=AT_ONCE, max_restarts=0)
        return actor.remote(max(1, int(cpus)), gpus, self.cluster.started)

    def _look_at(self, going: _Going, done: bool) -> None:
        """Fetch what is new of a run, and its end."""
        errors = self.ray.exceptions
        try:
            if going.news is not None and (done or self._there(going.news)):
                with suppress(errors.RayActorError, errors.ObjectLostError) if done else ExitStack():
                    unpack(self.out, self.ray.get(going.news))
                going.begun, going.news = True, None
            if done:
                self._over(going, self.ray.get(going.done))
            elif going.news is None:
                going.news = going.seat.news.remote()
        except (errors.RayActorError, errors.ObjectLostError) as error:
            self._died(going, error)
        except Exception as error:
            self.ray.kill(going.seat)
            cause = getattr(error, "cause", None)
            going.future.set_exception(cause if isinstance(cause, Exception) else error)

    def _there(self, ref: Any) -> bool:
        return bool(self.ray.wait([ref], timeout=0)[0])

    def _over(self, going: _Going, outcome: Any) -> None:
        unpack(self.out, outcome.last)
        self._pass_on(going.seat)
        if outcome.stopped:
            going.future.set_exception(RunEndedError("it was stopped."))
        elif outcome.error is not None:
            going.future.set_exception(outcome.error)
        else:
            going.future.set_result(None)

    def _pass_on(self, seat: Any) -> None:
        """A seat that is free goes to a run that still waits for one of its own, which it would wait for in vain."""
        self.idle.append(seat)
        waits = next((going for going in self.going if not going.begun and not going.future.done()), None)
        if waits is not None and waits.seat is not seat and not self.stopping:
            self._free([waits.seat])
            self._seat(waits)

    def _free(self, seats: list[Any]) -> None:
        for seat in seats:
            with suppress(Exception):
                self.ray.kill(seat)
        seats.clear()

    def _died(self, going: _Going, error: Exception) -> None:
        """Once more on another seat, unless that has led nowhere before."""
        if self.stopping:
            going.future.set_exception(RunEndedError("its worker died as it stopped."))
            return
        if "No module named" in (why := str(error)):
            missing = re.search(r"No module named '?([\w.]+)", why)
            going.future.set_exception(
                InputError(
                    f"Expected ictrl {__version__} on every machine of the cluster but one of them has no "
                    f"{missing[1] if missing else 'ictrl'}: {INSTALL} there."
                )
            )
            return
        reached = sorted(path.name for path in (going.item.folder / "checkpoint").glob("*.safetensors"))
        going.deaths = 1 if reached != going.reached else going.deaths + 1
        going.reached = reached
        if going.deaths > DEATHS:
            going.future.set_exception(
                RunEndedError(
                    f"its worker died {going.deaths} times at the same place, perhaps because memory ran out."
                )
            )
            return
        on = "it goes on from its last checkpoint" if reached else "it begins anew"
        self.said(f"{going.item.folder.name}: its worker died; {on} on another.")
        self._seat(going)

    def _say_if_none_begins(self) -> None:
        """Better said than waited for in silence: others may have all that the cluster has."""
        if not self.going or any(going.begun for going in self.going):
            self.waiting_since = None
        elif self.waiting_since is None:
            self.waiting_since = time.monotonic()
        elif 0 < self.waiting_since < time.monotonic() - SILENCE:
            self.waiting_since = float("inf")
            if self.cluster.slots:
                self.said(f"no run has begun for {SILENCE} s: others use what the cluster has. Waiting; Ctrl-C stops.")
            elif self.cluster.started:
                raise RunsFailedError("Expected Ray to go on but it died on this machine: the same command goes on.")
            else:
                self.said(f"no machine of the cluster has had what a run takes for {SILENCE} s. Waiting; Ctrl-C stops.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                self._stop()
        finally:
            for going in self.going:
                going.held.close()
            self._free([*self.idle, *(going.seat for going in self.going)])

    def _stop(self) -> None:
        """Every run that has begun stops after its epoch, and is fetched; the others are not begun."""
        self.stopping = True
        for going in self.going:
            if going.begun:
                going.seat.ask_to_stop.remote()
            else:
                self.ray.kill(going.seat)
                going.held.close()
        self.going = [going for going in self.going if going.begun]
        while self.going:
            self.ended(GLANCE)
