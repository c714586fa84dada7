"""One learner, several threads; and a task that succeeds or leaves no trace, wherever it is interrupted.

Learning never touches the learner that others see. It goes on *aside*: in a copy with networks, optimisers and random
numbers of its own, which takes the learner's place in a single assignment once everything has succeeded. Until then
whoever reads (predicts, draws, saves) is answered by the learner as it was, and needs no lock. A task that fails, for
whatever reason and at whatever bytecode, has nothing to undo: its copy is dropped. All that it could leave behind are
modes of the thread, and these are put back.

One thread learns at a time, and others that want to wait for their turn. On a GPU, where a step may be being recorded,
readers wait as well. The thread that learns sees its own networks
as they are, in its progress callback. A process that was forked has a gate that is open, whoever learned in its parent.
"""

import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakSet

from ictrl.errors import InputError
from ictrl.nets.families import copy_of
from ictrl.nets.modes import undisturbed

if TYPE_CHECKING:
    from ictrl.methods.base import Learner

Method = TypeVar("Method", bound=Callable[..., Any])
Result = TypeVar("Result")
Some = TypeVar("Some", bound="Learner[Any]")

SHARED = (
    *("recipe", "device", "kept", "labels", "class_names"),
    *("_gate", "_given", "_own_encoder", "_own_networks", "_classifier", "_display_generator"),
)
"""Attributes that learning replaces and never changes in place: a learner's copy has the same."""

_gates: "WeakSet[Gate]" = WeakSet()


class Gate:
    """Lets one thread at a time learn."""

    def __init__(self) -> None:
        self.turn = threading.RLock()
        # who learns, and its copy; means nothing where the turn is not taken
        self._going_on: tuple[Learner[Any], Learner[Any]] | None = None
        _gates.add(self)

    def __reduce__(self) -> tuple[type["Gate"], tuple[()]]:
        """A copy of a learner has a gate of its own."""
        return Gate, ()

    def reading(self, learner: Some, method: Callable[[Some], Result]) -> Result:
        """Call a method on the learner as it is now, whoever learns; in the thread that learns, on its copy."""
        if (aside := self.aside(learner)) is not None:
            return method(cast(Some, aside))
        if learner.device.type == "cpu":
            return method(still(learner))
        with self.turn:  # while a GPU records a step, nothing else may ask it for memory
            return method(still(learner))

    def learning(self, learner: "Learner[Any]", method: Callable[["Learner[Any]"], Any]) -> Any:
        """Call a method on a copy of the learner, which becomes the learner if the method returns."""
        if self.aside(learner) is not None:
            raise InputError(
                "Expected one task at a time but this learner is learning: begin the next once learn has returned."
            )
        with self.turn:  # taken and given back within one bytecode each
            outer, before = self._going_on, vars(learner).copy()
            try:
                aside = copied(learner)
                self._going_on = learner, aside
                found = method(aside)
                aside._state.settle()
                # what others have set meanwhile is theirs
                meanwhile = {name: value for name, value in vars(learner).items() if before.get(name) is not value}
                learner.__dict__ = {**vars(aside), **meanwhile}  # all of the task, or nothing
            finally:
                self._going_on = outer
        return learner if found is aside else found

    def aside(self, learner: "Learner[Any]") -> "Learner[Any] | None":
        """The copy in which this very thread teaches this learner."""
        going_on = self._going_on if self._is_mine() else None
        return going_on[1] if going_on is not None and going_on[0] is learner else None

    def _is_mine(self) -> bool:
        return bool(self.turn._is_owned())  # type: ignore[attr-defined]

    def forked(self) -> None:
        """Open, unless it is the thread that learns that has forked: no other one lives on in the new process."""
        if not self._is_mine():
            self.turn, self._going_on = threading.RLock(), None


def _all_forked() -> None:
    for gate in _gates:
        gate.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_all_forked)


def reads(method: Method) -> Method:
    """Of a learner's method: it reads, and may be called from any thread."""

    @wraps(method)
    def reading(self: "Learner[Any]", *args: Any, **kwargs: Any) -> Any:
        return undisturbed(lambda: self._gate.reading(self, lambda learner: method(learner, *args, **kwargs)))

    return cast(Method, reading)


def shows(getter: Method) -> Method:
    """Of a learner's property: it is a network, and the thread that learns gets its own."""

    @wraps(getter)
    def showing(self: "Learner[Any]") -> Any:
        return getter(self._gate.aside(self) or self)

    return cast(Method, showing)


def learns(method: Method) -> Method:
    """Of a learner's method: it changes the learner, and succeeds or leaves it as it was."""

    @wraps(method)
    def learning(self: "Learner[Any]", *args: Any, **kwargs: Any) -> Any:
        return undisturbed(lambda: self._gate.learning(self, lambda aside: method(aside, *args, **kwargs)))

    return cast(Method, learning)


def still(learner: Some) -> Some:
    """The learner as it is now, and stays: its attributes are those of this moment, and none is changed in place."""
    seen = object.__new__(type(learner))
    seen.__dict__ = vars(learner)
    return seen


def copied(learner: Some) -> Some:
    """A learner that shares with this one what is never changed in place, and has copies of all else."""
    attributes, twin = vars(learner).copy(), object.__new__(type(learner))
    memo: dict[int, Any] = {id(attributes[name]): attributes[name] for name in SHARED if name in attributes}
    memo[id(learner)] = twin
    twin.__dict__ = {name: copy_of(value, f"the learner's {name}", memo) for name, value in attributes.items()}
    return twin
