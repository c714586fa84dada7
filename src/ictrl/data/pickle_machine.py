"""A machine for pickles of numbers, texts and uint8 arrays, which knows no more than these need.

A pickle is a small program for a machine with a stack, which Python's own reader runs whatever it asks for. The one
here has the instructions that build lists, tuples, dictionaries, numbers and texts, and can name the four functions
that stand for NumPy's arrays; anything else ends it. Nothing is called that a file names, and a file takes no more
steps and memory than the limits (`ictrl.limits`) let it.
"""

import codecs
import struct
from collections.abc import Callable
from typing import Any

from ictrl.data.pickled_arrays import RefusedError, called, function_named, give_state
from ictrl.limits import PICKLE_STEPS, RATIO, UNPACKED_BYTES

WHOLE_NUMBER_BYTES = 8  # of the longest that a data set needs


class Mark:
    """What lies on the stack where a list, tuple or dictionary begins."""


class Machine:
    """Runs the instructions of one pickle."""

    def __init__(self, program: bytes) -> None:
        self.program = program
        self.position = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.room = max(UNPACKED_BYTES.value, RATIO * len(program))  # bytes that may still be made anew

    def run(self) -> Any:
        """What the pickle holds."""
        steps = PICKLE_STEPS.value
        for _ in range(steps):
            instruction = self.take(1)
            if instruction == b".":
                return self.pop()
            if instruction not in INSTRUCTIONS:
                raise RefusedError(f"the instruction {instruction!r}, which no dataset needs and which is not run")
            INSTRUCTIONS[instruction](self)
        raise RefusedError(PICKLE_STEPS.exceeded(steps + 1))

    # the program

    def take(self, count: int) -> bytes:
        """The next bytes of the program."""
        end = self.position + count
        if end > len(self.program):
            raise RefusedError("its end too early")
        taken = self.program[self.position : end]
        self.position = end
        return taken

    def number(self, kind: str) -> int:
        """The next bytes as a whole number, of a kind that `struct` knows."""
        found: int = struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))[0]
        return found

    def line(self) -> bytes:
        """The program until the end of the line."""
        end = self.program.find(b"\n", self.position)
        return self.take(end - self.position + 1)[:-1] if end >= 0 else self.take(len(self.program) + 1)

    # the stack

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack:
            raise RefusedError("more values asked for than there are")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        """The uppermost value, which stays."""
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise RefusedError(f"no {kind.__name__} where one is needed")
        return self.stack[-1]

    def since_mark(self) -> list[Any]:
        """The values above the uppermost mark, which are taken away with it."""
        for place in range(len(self.stack) - 1, -1, -1):
            if isinstance(self.stack[place], Mark):
                values = self.stack[place + 1 :]
                del self.stack[place:]
                return values
        raise RefusedError("no mark where one is needed")

    def last(self, count: int) -> list[Any]:
        return [self.pop() for _ in range(count)][::-1]

    # what is made

    def text(self, raw: bytes, encoding: str = "utf-8") -> None:
        self.push(raw.decode(encoding, "surrogatepass" if encoding == "utf-8" else "strict"))

    def whole(self, size: int) -> None:
        if not 0 <= size <= WHOLE_NUMBER_BYTES:
            raise RefusedError("a whole number of more than 64 bits")
        self.push(int.from_bytes(self.take(size), "little", signed=True))

    def written(self, line: bytes) -> None:
        """A whole number in decimals."""
        if len(line) > 20:
            raise RefusedError("a whole number of more than 64 bits")
        self.push({b"00": False, b"01": True}[line] if line in (b"00", b"01") else int(line.rstrip(b"L")))

    def quoted(self, line: bytes) -> None:
        if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
            raise RefusedError("a text without quotes")
        decoded: bytes = codecs.escape_decode(line[1:-1])[0]
        self.push(decoded)

    def named(self, module: Any, name: Any) -> None:
        self.push(function_named(module, name))

    def put(self, place: int) -> None:
        self.memo[place] = self.top(object)

    def get(self, place: int) -> None:
        if place not in self.memo:
            raise RefusedError("a value that was not kept")
        self.push(self.memo[place])

    def append(self, values: list[Any]) -> None:
        self.top(list).extend(values)

    def dictionary(self, pairs: list[Any]) -> None:
        self.push({})
        self.set(pairs)

    def set(self, pairs: list[Any]) -> None:
        into = self.top(dict)
        if len(pairs) % 2 or not all(isinstance(key, str | bytes) for key in pairs[::2]):
            raise RefusedError("a dictionary with keys that are no texts")
        into.update(zip(pairs[::2], pairs[1::2]))

    def call(self) -> None:
        """What stands for a function that NumPy's arrays are made by."""
        function, given = self.last(2)
        made = called(function, given)
        if isinstance(made, bytes):  # the same text can be asked for again and again
            self.room -= len(made)
            if self.room < 0:
                raise RefusedError(UNPACKED_BYTES.exceeded(UNPACKED_BYTES.value - self.room))
        self.push(made)

    def build(self) -> None:
        state = self.pop()
        give_state(self.top(object), state)


Step = Callable[[Machine], object]
INSTRUCTIONS: dict[bytes, Step] = {
    # of the program itself
    b"\x80": lambda m: m.take(1),
    b"\x95": lambda m: m.take(8),
    # marks and what they enclose
    b"(": lambda m: m.push(Mark()),
    b"0": lambda m: m.pop(),
    b"1": lambda m: m.since_mark(),
    b"]": lambda m: m.push([]),
    b"}": lambda m: m.push({}),
    b")": lambda m: m.push(()),
    b"l": lambda m: m.push(m.since_mark()),
    b"t": lambda m: m.push(tuple(m.since_mark())),
    b"\x85": lambda m: m.push(tuple(m.last(1))),
    b"\x86": lambda m: m.push(tuple(m.last(2))),
    b"\x87": lambda m: m.push(tuple(m.last(3))),
    b"d": lambda m: m.dictionary(m.since_mark()),
    b"a": lambda m: m.append(m.last(1)),
    b"e": lambda m: m.append(m.since_mark()),
    b"s": lambda m: m.set(m.last(2)),
    b"u": lambda m: m.set(m.since_mark()),
    # constants and numbers
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"K": lambda m: m.push(m.number("B")),
    b"M": lambda m: m.push(m.number("H")),
    b"J": lambda m: m.push(m.number("i")),
    b"I": lambda m: m.written(m.line()),
    b"L": lambda m: m.written(m.line()),
    b"\x8a": lambda m: m.whole(m.number("B")),
    b"\x8b": lambda m: m.whole(m.number("i")),
    # texts and bytes
    b"S": lambda m: m.quoted(m.line()),
    b"U": lambda m: m.push(m.take(m.number("B"))),
    b"T": lambda m: m.push(m.take(m.number("I"))),
    b"C": lambda m: m.push(m.take(m.number("B"))),
    b"B": lambda m: m.push(m.take(m.number("I"))),
    b"\x8e": lambda m: m.push(m.take(m.number("Q"))),
    b"\x96": lambda m: m.push(m.take(m.number("Q"))),
    b"V": lambda m: m.text(m.line(), "raw-unicode-escape"),
    b"X": lambda m: m.text(m.take(m.number("I"))),
    b"\x8c": lambda m: m.text(m.take(m.number("B"))),
    b"\x8d": lambda m: m.text(m.take(m.number("Q"))),
    # what was kept
    b"p": lambda m: m.put(int(m.line()[:20])),
    b"q": lambda m: m.put(m.number("B")),
    b"r": lambda m: m.put(m.number("I")),
    b"\x94": lambda m: m.put(len(m.memo)),
    b"g": lambda m: m.get(int(m.line()[:20])),
    b"h": lambda m: m.get(m.number("B")),
    b"j": lambda m: m.get(m.number("I")),
    # functions
    b"c": lambda m: m.named(m.line().decode("latin1"), m.line().decode("latin1")),
    b"\x93": lambda m: m.named(*m.last(2)),
    b"R": lambda m: m.call(),
    b"b": lambda m: m.build(),
}
