"""Exceptions at chosen bytecodes: Ctrl-C as the interpreter delivers it, and errors as any bytecode may raise them.

Bytecodes are counted in the frames of chosen files, by tracing. At the one that is to be interrupted the flag is set
that a signal's handler in C sets; the interpreter then looks at it where it looks after real signals, and raises
KeyboardInterrupt there. Nothing else is different from Ctrl-C in a terminal, so that only what can really happen does.
"""

import ctypes
import dis
import signal
import sys
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

# called with frame, event and argument, as a trace function is; all are ignored
_set_flag = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.py_object, ctypes.py_object)(
    ("PyErr_SetInterrupt", ctypes.pythonapi)
)

CANNOT_FAIL = {
    *("NOP", "RESUME", "CACHE", "PRECALL", "KW_NAMES", "POP_TOP", "PUSH_NULL", "COPY", "SWAP", "LOAD_CONST"),
    *("LOAD_FAST", "STORE_FAST", "LOAD_CLOSURE", "LOAD_DEREF", "STORE_DEREF", "COPY_FREE_VARS", "MAKE_CELL"),
    *("RETURN_VALUE", "RETURN_CONST", "PUSH_EXC_INFO", "POP_EXCEPT", "RERAISE", "RETURN_GENERATOR", "EXTENDED_ARG"),
    *("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "POP_JUMP_FORWARD_IF_NONE", "BEFORE_WITH"),
    *("POP_JUMP_FORWARD_IF_NOT_NONE", "WITH_EXCEPT_START", "IS_OP", "END_FOR", "LOAD_FAST_CHECK", "LOAD_GLOBAL"),
}
"""Bytecodes that allocate nothing and call nothing of their own, so that no error can be theirs."""
CANNOT_FAIL_IN = {"_nesting"}
"""Functions that only move a counter of torch up and down."""


class Traced:
    """Counts the bytecodes of some files while a function runs, and interrupts it at chosen ones."""

    def __init__(self, files: Callable[[str], bool]) -> None:
        self.files = files
        self.count = 0
        self._wanted: dict[str, bool] = {}
        self._at: list[int] = []
        self._error: type[BaseException] | None = None
        self.delivered = 0
        self._late = False
        self.answer: Any = signal.default_int_handler
        self.install: Any = signal.signal

    def run(
        self, function: Callable[[], Any], at: Sequence[int] = (), error: type[BaseException] | None = None
    ) -> BaseException | None:
        """Call it, with Ctrl-C at the first of these bytecodes and then at so many more; returns what it raised.

        With an `error`, that is raised instead, once, at the first bytecode from there on that can raise one.
        """
        self.count, self.delivered, self._at, self._error, self._late = 0, 0, list(at), error, False
        self._victim: FrameType | None = None
        before = self.install(signal.SIGINT, self._interrupted)
        try:
            sys.settrace(self._called)
            try:
                function()
            finally:
                sys.settrace(None)
        except BaseException as raised:
            return raised
        finally:
            while True:
                try:
                    self.install(signal.SIGINT, before)
                    break
                except KeyboardInterrupt:  # one that was on its way
                    continue
        return None

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in self._wanted:
            self._wanted[name] = self.files(name)
        if not self._wanted[name]:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._bytecode

    def _bytecode(self, frame: FrameType, event: str, _: Any) -> Any:
        if event != "opcode":
            return self._bytecode
        self.count += 1
        if not self._late and (not self._at or self.count < self._at[0]):
            return self._bytecode
        if self._error is None:
            self._victim, self._late = frame, False
            frame.f_trace = _set_flag  # it is called before the next bytecode
            return _set_flag
        if can_fail(frame.f_code, frame.f_lasti):
            self._at, self.delivered = [], 1
            raise self._error("as asked for")
        return self._bytecode

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code in (Traced._bytecode.__code__, Traced._called.__code__):
            self._late = True  # it is not we who are to be interrupted: once more, at the next bytecode
            return
        if self._victim is None:  # the flag was set at the end of a case before, and is looked at only now
            return
        self._victim.f_trace = self._bytecode
        if not self._at:  # the flag was set once more before it was looked at
            return
        self.delivered += 1
        self._at = [self.count + more for more in self._at[1:2]] + self._at[2:]
        self.answer(number, frame)

    def handle(self, number: int, answer: Any) -> Any:
        """`signal.signal`, for code that handles Ctrl-C itself: from now on that is what the interrupts meet."""
        if number != signal.SIGINT:
            return signal.getsignal(number)
        before, self.answer = self.answer, answer
        return before


_failing: dict[CodeType, dict[int, bool]] = {}


def can_fail(code: CodeType, place: int) -> bool:
    """Whether the bytecode at this place may raise an error of its own: not one that only moves what is there.

    Nor the call by which a `with` statement leaves what it has entered: three constants and a call.
    """
    if code.co_name in CANNOT_FAIL_IN:
        return False
    if code not in _failing:
        found, before = dict[int, bool](), list[str]()
        for instruction in dis.get_instructions(code):
            leaving = instruction.opname in ("CALL", "PRECALL") and before[-3:] == ["LOAD_CONST"] * 3
            found[instruction.offset] = instruction.opname not in CANNOT_FAIL and not leaving
            if instruction.opname != "PRECALL":
                before.append(instruction.opname)
        _failing[code] = found
    return _failing[code].get(place, False)
