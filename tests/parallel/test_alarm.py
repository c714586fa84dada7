"""Who leaves in order alarms nobody; who is gone, or says what went wrong, is heard by the others."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue

import pytest

from ictrl.errors import ConfigError, InputError, NonFiniteError, ProcessesError
from ictrl.parallel.alarm import Alarm
from ictrl.parallel.joining import ToldElsewhere, _told
from ictrl.parallel.sharing import Group

Address = tuple[str, int, bytes]
SOON = 5.0


@contextmanager
def connected(stranger: bool = False) -> Iterator[tuple[Alarm, Alarm]]:
    """The ends of the line between two processes."""
    address: Queue[Address] = Queue()
    first, second = (Alarm(Group(rank, 2), lambda: "Go on.") for rank in (0, 1))

    def tell(mine: Address) -> Address:
        address.put(("localhost", mine[1], mine[2]))
        return mine

    accepting = threading.Thread(target=first.connect, args=(tell,))
    accepting.start()
    there = address.get()
    if stranger:
        with socket.create_connection(there[:2]) as line:
            line.sendall(b"x" * 20)
            second.connect(lambda _: there)
    else:
        second.connect(lambda _: there)
    accepting.join()
    yield first, second
    for end in (first, second):
        end.leave()


def test_who_leaves_in_order_alarms_nobody() -> None:
    with connected() as (first, second):
        second.leave()
        assert first._closed.wait(SOON)
        assert not first.lost.is_set()


@pytest.mark.parametrize("dead", [0, 1])
def test_a_line_that_breaks_without_a_word_is_that_of_the_dead(dead: int) -> None:
    with connected() as ends:
        gone, other = ends[dead], ends[1 - dead]
        for line in gone.lines:
            line.shutdown(socket.SHUT_WR)
        assert other.lost.wait(SOON)
        assert other.line() == f"Expected 2 processes but process {dead} has died. Go on."
        assert other.code == 1
        assert other.speaks  # the second one too, where the first has died


def test_what_went_wrong_is_passed_on() -> None:
    with connected() as (first, second):
        told = _told(second, NonFiniteError("It became NaN."))
        assert isinstance(told, ToldElsewhere)
        assert first.lost.wait(SOON)
        assert first.reason == "Process 1 has failed: It became NaN."
        found = _told(first, ProcessesError("One does not go on."))
        assert isinstance(found, ProcessesError)
        assert str(found) == "Process 1 has failed: It became NaN. Go on."


def test_a_mistake_stays_one() -> None:
    with connected() as (first, second):
        assert _told(second, ConfigError("Expected less.")).args == (2,)
        assert first.lost.wait(SOON)
        found = _told(first, ProcessesError("One does not go on."))
        assert isinstance(found, InputError)
        assert str(found) == "Expected less."


def test_the_first_process_says_its_own_error_and_the_others_nothing() -> None:
    with connected() as (first, second):
        mine = NonFiniteError("It became NaN.")
        assert _told(first, mine) is mine
        assert second.lost.wait(SOON)
        assert not second.speaks
        assert isinstance(_told(second, ProcessesError("One does not go on.")), ToldElsewhere)


def test_a_stranger_is_not_let_in() -> None:
    with connected(stranger=True) as (first, second):
        assert list(first.lines.values()) == [1]
        assert list(second.lines.values()) == [0]


def test_a_first_process_that_cannot_be_reached() -> None:
    with socket.create_server(("localhost", 0)) as server:
        closed = server.getsockname()[1]
    with pytest.raises(ProcessesError, match="let machines that learn together connect to each other"):
        Alarm(Group(1, 2), str).connect(lambda _: ("localhost", closed, b""))
