"""HTTP/1.1 by uvicorn and h11, with patience that ends: for headers that do not come, and bodies nobody reads.

uvicorn waits for ever for the first bytes of a request, and takes the rest of a body that was refused to its end.
"""

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ictrl.serve.access import SECURITY

LINGER = 2.0  # seconds that a client has to read a refusal while it still sends
PHRASES = {400: b"Bad Request", 408: b"Request Timeout", 503: b"Service Unavailable"}


def patient(seconds: float, most: int) -> type[asyncio.Protocol]:
    """A protocol that waits so long for the head of a request, on so many connections at once."""
    return type("Patient", (_Patient,), {"seconds": seconds, "most": most})


class _Patient(H11Protocol):
    seconds: float
    most: int
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self._say(503, "Expected fewer connections but there are too many (--max-connections): come again.")
        else:
            self._wait(self.seconds, self._too_late)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.cycle is not before:
            self._stop_waiting()
        elif self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._wait(self.seconds, self._too_late)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and self.conn.their_state is h11.SEND_BODY:
            self._wait(LINGER, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._stop_waiting()
        self._say(400, "Expected an HTTP request but got something else.")

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing to say: the request is answered as any other."""

    def _too_late(self) -> None:
        if self.transport.is_closing():
            return
        if self.conn.trailing_data[0]:
            self._say(408, "Expected the head of a request in time but it did not come (--body-timeout).")
        else:
            self.transport.close()

    def _say(self, status: int, line: str) -> None:
        """A refusal past h11, whose state may be anything; and the connection is closed."""
        content = json.dumps({"error": line}).encode()
        headers = [*SECURITY, (b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        headers += [(b"connection", b"close"), *([(b"retry-after", b"1")] if status == 503 else [])]
        lines = b"".join(b"%s: %s\r\n" % header for header in headers)
        self.transport.write(b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (status, PHRASES[status], lines, content))
        self.transport.close()

    def _wait(self, seconds: float, what: Any) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, what)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
