"""The alarm: a process that dies is missed at once, whatever the others are waiting for.

A sum over processes never ends if one of them is gone; a GPU waits for it in a way that no signal interrupts. So each
process holds a line to the first one, and a thread listens. Who leaves says why: in order, or with an error, which the
first process tells. A line that breaks without a word is that of a process that was killed. Then whoever does not end
by itself within some seconds is ended.
"""

import os
import secrets
import selectors
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from ictrl.errors import ProcessesError
from ictrl.parallel.sharing import Group

GRACE = 3.0  # seconds in which a process may end by itself
CONNECT = 60.0  # seconds to connect
IN_ORDER = "0 "


class Alarm:
    """Lines between the processes of a group, until this one leaves."""

    def __init__(self, group: Group, advice: Callable[[], str]) -> None:
        self.group, self.advice = group, advice
        self.lost = threading.Event()
        """set when another process is gone, not in order"""
        self.reason, self.code = "", 1
        self.speaks = group.rank == 0
        """whether it is for this process to tell: the first one, or the next one if that has died without a word"""
        self.lines: dict[socket.socket, int] = {}  # to whom
        self._said: dict[socket.socket, bytes] = {}
        self._left, self._closed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def connect(self, share: Callable[[tuple[str, int, bytes]], tuple[str, int, bytes]]) -> None:
        """Hold the lines; `share` gives all processes what the first one has."""
        try:
            self._connect(share)
        except OSError as error:
            raise ProcessesError(
                f"Expected process {self.group.rank} and the first one to reach each other but they could not "
                f"({error}): let machines that learn together connect to each other, on any port."
            ) from None
        for line in self.lines:
            line.settimeout(None)
            _keep_alive(line)
        self._thread = threading.Thread(target=self._listen, name="alarm", daemon=True)
        self._thread.start()

    def _connect(self, share: Callable[[tuple[str, int, bytes]], tuple[str, int, bytes]]) -> None:
        if self.group.rank == 0:
            with _server(self.group.size) as server:
                server.settimeout(CONNECT)
                word = secrets.token_bytes(16)
                share((os.environ.get("MASTER_ADDR", "localhost"), server.getsockname()[1], word))
                while len(self.lines) < self.group.size - 1:
                    line, _ = server.accept()
                    line.settimeout(CONNECT)
                    hello = _received(line, len(word) + 4)
                    if hello[:-4] == word:
                        self.lines[line] = int.from_bytes(hello[-4:], "little")
                    else:
                        line.close()  # a stranger
        else:
            host, port, word = share(("", 0, b""))
            line = socket.create_connection((host, port), timeout=CONNECT)
            line.sendall(word + self.group.rank.to_bytes(4, "little"))
            self.lines[line] = 0

    def leave(self, code: int = 0, why: str = "") -> None:
        """Say that this process ends, and why."""
        self._left.set()
        for line in self.lines:
            with suppress(OSError):
                line.sendall(f"{code} {why}\n".encode())
                line.shutdown(socket.SHUT_WR)

    def linger(self) -> None:
        """Wait until the others have left too, or the first one, to which there is a line: torchrun ends all as soon as
        one has failed, and the first one is to say why."""
        if self._closed.wait(GRACE) and self._thread is not None:
            self._thread.join()  # it would not survive the interpreter's end

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            for line in self.lines:
                selector.register(line, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    heard, said = key.fileobj, b""
                    assert isinstance(heard, socket.socket)
                    with suppress(OSError):
                        said = heard.recv(65536)
                    self._said[heard] = self._said.get(heard, b"") + said
                    if not said:
                        selector.unregister(heard)
                        self._ended(self.lines[heard], self._said[heard].decode(errors="replace"))
        self._closed.set()
        for line in self.lines:
            line.close()

    def _ended(self, rank: int, said: str) -> None:
        """A line has broken, after these words."""
        if said.startswith(IN_ORDER) or self._left.is_set() or self.lost.is_set():
            return
        code, _, why = said.strip().partition(" ")
        self.code = int(code) if code.isdigit() else 1
        self.reason = why if said else f"Expected {self.group.size} processes but process {rank} has died."
        self.speaks |= not said and rank == 0 and self.group.rank == 1
        self.lost.set()
        threading.Thread(target=self._end, name="alarm: the end", daemon=True).start()

    def _end(self) -> None:
        """The main thread may wait for ever, where nothing can reach it."""
        if not self._left.wait(GRACE):
            if self.speaks:
                shown = "\x1b[?25h" if sys.stderr.isatty() else ""  # bars may have hidden the cursor
                os.write(2, f"{shown}error: {self.line()}\n".encode(errors="replace"))
            os._exit(self.code)

    def line(self) -> str:
        """What has happened and how to go on."""
        return f"{self.reason} {self.advice()}".strip()


def _server(lines: int) -> socket.socket:
    """On a port that the system chooses, by whichever protocol there is."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, backlog=lines, dualstack_ipv6=True)
    return socket.create_server(("", 0), backlog=lines)


def _received(line: socket.socket, n: int) -> bytes:
    found = b""
    while len(found) < n and (part := line.recv(n - len(found))):
        found += part
    return found


def _keep_alive(line: socket.socket) -> None:
    """A machine that loses its power says nothing: after a minute without an answer the line counts as broken."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
