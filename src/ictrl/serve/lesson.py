"""Teaching over HTTP: one lesson at a time, in a thread of its own, which can be watched and cancelled."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

from ictrl.data.shelf import held_out_count
from ictrl.errors import NonFiniteError, UserError
from ictrl.experiment.checkpoints import Position
from ictrl.experiment.class_facts import now
from ictrl.experiment.teaching import TaughtClass, check_new_names, teach
from ictrl.serve.estimate import Accuracies, accuracy_from_memory
from ictrl.serve.host import LearnerHost
from ictrl.serve.refusals import RefusedError
from ictrl.serve.served import Served
from ictrl.shapes import UInt8
from ictrl.training.graphs import unrecorded
from ictrl.training.loop import EpochReport

ALIVE = 15  # seconds between signs of life to who watches, so that no proxy closes the connection
Pictures = Mapping[str, UInt8[Tensor, "_ c h w"]]
Event = tuple[str, dict[str, Any]]


class LessonCancelledError(Exception):
    """Raised within a lesson that is to end."""


@dataclass(eq=False)
class Lesson:
    """New classes that are being learned."""

    pictures: Pictures
    held_out: float
    seed: int
    classes: dict[str, int]
    """pictures of each"""
    begun: float = field(default_factory=time.monotonic)
    epoch: int = 0
    epochs: int | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    events: list[Event] = field(default_factory=list)
    ended: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self.begun, 3)


class Teacher:
    """Teaches the learner of a host, one lesson at a time."""

    def __init__(self, host: LearnerHost, timed: Callable[[float], None]) -> None:
        self._host, self._timed = host, timed
        self._taken = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.lesson: Lesson | None = None
        """the one that is being learned"""
        self.last: dict[str, Any] | None = None
        """how the last one ended"""

    @property
    def teaching(self) -> bool:
        return self.lesson is not None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Who wants to teach has the turn before it sends its pictures; another one meanwhile is refused."""
        if self._taken:
            raise RefusedError(409, "Expected one teaching at a time but another one is under way: see GET /teaching.")
        self._taken = True
        try:
            yield
        finally:
            self._taken = self.lesson is not None

    def begin(self, pictures: Pictures, held_out: float, seed: int) -> Lesson:
        """Start a lesson, within one's turn; pictures that cannot be taught are refused before."""
        check_teachable(self._host.now, pictures, held_out)
        counts = {name: len(images) for name, images in pictures.items()}
        self.lesson = lesson = Lesson(pictures, held_out, seed, counts)
        lesson.events.append(("begin", {"classes": counts}))
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._learn, args=(lesson,), name="teaching", daemon=True)
        self._thread.start()
        return lesson

    def cancel(self) -> bool:
        """Ask the lesson to end, which it does at the end of its epoch; False if there is none."""
        if self.lesson is None:
            return False
        self.lesson.cancelled.set()
        return True

    async def ended(self, seconds: float) -> bool:
        """Wait for the end of the lesson that is being learned, if there is one; False if it takes longer."""
        until = time.monotonic() + seconds
        while self.lesson is not None and time.monotonic() < until:
            await asyncio.sleep(0.02)
        return self.lesson is None

    def state(self) -> dict[str, Any]:
        """What GET /teaching answers."""
        lesson, last = self.lesson, {} if self.last is None else {"last": self.last}
        if lesson is None:
            return {"teaching": False, **last}
        progress = {"epoch": lesson.epoch, "epochs": lesson.epochs, "seconds": lesson.seconds}
        return {"teaching": True, "classes": lesson.classes, **progress, **last}

    async def watch(self, lesson: Lesson) -> AsyncIterator[Event | None]:
        """What happens in a lesson, from its beginning; None now and then while nothing does."""
        told = 0
        while True:
            lesson.changed.clear()
            for event in lesson.events[told:]:
                told += 1
                yield event
            if lesson.ended and told == len(lesson.events):
                return
            try:
                async with asyncio.timeout(ALIVE):
                    await lesson.changed.wait()
            except TimeoutError:
                yield None

    def _learn(self, lesson: Lesson) -> None:
        """In a thread: the very same as `ictrl teach`, and what became of it."""

        def work(position: Position) -> tuple[list[TaughtClass], Accuracies, Accuracies, str]:
            before, _ = accuracy_from_memory(position.learner)
            _stop(lesson)
            # on a GPU no step is recorded, for nothing else may run there meanwhile, and predictions do
            with unrecorded():
                taught = teach(
                    position, lesson.pictures, held_out=lesson.held_out, seed=lesson.seed, progress=self._report(lesson)
                )
            _stop(lesson)
            after, of = accuracy_from_memory(position.learner)
            _stop(lesson)
            return taught, before, after, of

        try:
            taught, before, after, of = self._host.change(work, lambda found: [new.label for new in found[0]])
            names = self._host.now.names
            compared = [
                {
                    "class": name,
                    "label": label,
                    "before": _rounded(before.get(label)),
                    "after": _rounded(after.get(label)),
                }
                for label, name in names.items()
            ]
            new = [asdict(one) for one in taught]
            done = {"version": self._host.now.version, "seconds": lesson.seconds, "taught": new}
            outcome: Event = ("done", {**done, "accuracy": compared, "accuracy_of": of})
        except LessonCancelledError:
            outcome = ("cancelled", {})
        except Exception as error:  # nothing has changed: whatever it was, this is all there is to say
            outcome = ("error", {"error": _line(error)})
        lesson.pictures = {}
        self._timed(lesson.seconds)
        self._tell(lambda: self._end(lesson, outcome))

    def _report(self, lesson: Lesson) -> Callable[[EpochReport], None]:
        def progress(report: EpochReport) -> None:
            _stop(lesson)
            lesson.epoch, lesson.epochs = report.epoch, report.epochs
            said = {"epoch": report.epoch, "epochs": report.epochs, "seconds": lesson.seconds}
            self._tell(lambda: self._say(lesson, ("progress", said)))

        return progress

    def _say(self, lesson: Lesson, event: Event) -> None:
        lesson.events.append(event)
        lesson.changed.set()

    def _end(self, lesson: Lesson, outcome: Event) -> None:
        self.last = {"outcome": outcome[0], "at": now(), "classes": lesson.classes, **outcome[1]}
        self.lesson, self._taken, lesson.ended = None, False, True
        self._say(lesson, outcome)

    def _tell(self, what: Callable[[], None]) -> None:
        """In the server's thread."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the server has ended
            return


def check_teachable(served: Served, pictures: Pictures, held_out: float) -> None:
    """Refuse before anything is learned what `teach` would refuse, known classes and too few pictures."""
    if not pictures:
        raise RefusedError(400, "Expected pictures of at least one new class but got none.")
    check_new_names(pictures, dict(served.names))
    for name, images in pictures.items():
        held = held_out_count(len(images), held_out) if held_out else 0
        if (left := len(images) - held) < served.least_images:
            apart = f" ({held} more are held out: held_out=0 learns from them too)" if held else ""
            raise RefusedError(
                400,
                f"Expected at least {served.least_images} pictures of each class to learn from but got {left} of class "
                f"{name}{apart}.",
            )


def _stop(lesson: Lesson) -> None:
    if lesson.cancelled.is_set():
        raise LessonCancelledError


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"Expected to write the learner but could not: {error.strerror}. It is as it was."
    if isinstance(error, UserError | NonFiniteError | RefusedError):
        return " ".join(str(error).split())
    return (
        f"Expected to learn but got {type(error).__name__}: {' '.join(str(error).split())}. The learner is as it was."
    )
