"""One learner, several threads: many may read it at once, one learns, and nobody sees half a task.

Reading is to predict, to draw, to save. Who reads while another thread learns is answered by the learner as it was
before that task: a copy of it, made when the first such reader comes, from the state that is put back if the task
fails. On a GPU, where a step may be being recorded, a reader waits for the end of the task instead; so it does where
no copy can be made. A thread that wants to learn while another does waits for its turn. The thread that learns sees its
own networks as they are, in its progress callback.
"""

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch

if TYPE_CHECKING:
    from ictrl.methods.base import Learner

Method = TypeVar("Method", bound=Callable[..., Any])


class Gate:
    """Lets readers and one who learns at a time to a learner."""

    def __init__(self) -> None:
        self._turn, self._changed = threading.RLock(), threading.Condition()
        self._readers = 0
        self._who: int | None = None  # thread that learns
        self._before: Callable[[], Learner[Any] | None] = lambda: None

    def __reduce__(self) -> tuple[type["Gate"], tuple[()]]:
        """A copy of a learner has a gate of its own."""
        return Gate, ()

    @contextmanager
    def reading(self, learner: "Learner[Any]") -> Iterator["Learner[Any]"]:
        """The learner to read: the one given, or while another thread learns, a copy of it as it was before."""
        with self._changed:
            while self._who not in (None, threading.get_ident()):
                if (before := self._before()) is not None:
                    break
                self._changed.wait()
            else:
                before = None
                self._readers += 1
        if before is not None:
            yield before
            return
        try:
            yield learner
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def learning(self, learner: "Learner[Any]") -> Iterator[None]:
        """Networks and optimisers as they were, if anything goes wrong; what is kept is changed last."""
        with self._turn:
            state, before = learner._state, learner._state.copy()
            try:
                with self._changed:
                    self._who, self._before = threading.get_ident(), _once_copied(learner, before)
                    self._changed.wait_for(lambda: not self._readers)  # new ones already read the copy
                yield
            except BaseException:  # Ctrl-C too: half a task, its drift unaccounted for, is worth less than none
                learner._state = state
                state.restore(before)
                raise
            finally:
                with self._changed:
                    self._who, self._before = None, lambda: None
                    self._changed.notify_all()


def reads(method: Method) -> Method:
    """Of a learner's method: it reads, and may be called from any thread."""

    @wraps(method)
    def reading(self: "Learner[Any]", *args: Any, **kwargs: Any) -> Any:
        with self._gate.reading(self) as learner:
            return method(learner, *args, **kwargs)

    return cast(Method, reading)


def _once_copied(learner: "Learner[Any]", before: list[Any]) -> Callable[[], "Learner[Any] | None"]:
    """A function that gives the learner as it is now, whatever happens to it afterwards; None where it cannot."""
    kept, labels, found = learner.kept, learner.labels, list["Learner[Any] | None"]()

    def copied() -> "Learner[Any] | None":
        if not found:
            found.append(_copy(learner, before, kept, labels) if learner.device.type == "cpu" else None)
        return found[0]

    return copied


def _copy(learner: "Learner[Any]", before: list[Any], kept: Any, labels: list[int]) -> "Learner[Any] | None":
    if (twin := rebuilt(learner, len(labels))) is not None:
        twin._state.restore(before)
        twin.kept, twin.labels = kept, labels
    return twin


def rebuilt(learner: "Learner[Any]", classes: int, **changes: Any) -> "Learner[Any] | None":
    """A learner with new networks for so many classes, and other attributes; None if they are the very same ones."""
    twin = copy.copy(learner)
    twin._gate, twin.labels = Gate(), []
    own = {name: copy.deepcopy(value) for name, value in vars(learner).items() if name.startswith("_own")}
    for name, value in {**own, **changes}.items():  # networks that were given to the learner are its own
        setattr(twin, name, value)
    twin._state = twin.build(torch.Generator().manual_seed(learner.seed))
    twin.resize(classes)
    used = {id(weight) for network in learner._state.networks.values() for weight in network.parameters()}
    shared = any(id(weight) in used for network in twin._state.networks.values() for weight in network.parameters())
    return None if shared else twin
