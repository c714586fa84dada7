"""The service as a process: its socket, uvicorn around it, and an end in good order."""

import errno
import logging
import signal
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from ictrl.errors import InputError
from ictrl.serve.access import MOST_HEADERS
from ictrl.serve.app import Service
from ictrl.serve.protocol import patient

GRACE = 30  # seconds for requests that are being answered when the server is stopped


def bound(host: str, port: int) -> socket.socket:
    """A socket at that address; one that is taken is refused."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, number)
    except OSError as error:
        raise InputError(
            f"Expected --host to be an address of this machine but got {host!r}: {error.strerror}."
        ) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(1024)
        return listening
    except OverflowError:
        listening.close()
        raise InputError(f"Expected --port from 0 to 65535 but got {port}.") from None
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"Expected port {port} to be free but another program listens there: choose one with --port."
            ) from None
        raise InputError(f"Expected to listen at {host} port {port} but could not: {error.strerror}.") from None


class _Server(uvicorn.Server):
    """Cancels teaching as soon as it is to end, and lets signals end it without a traceback."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._ready = service, ready
        self.stopped_by: int | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.core.teacher.cancel()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {which: signal.signal(which, self._stop) for which in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)

    def _stop(self, which: int, frame: object) -> None:
        self.force_exit = self.should_exit and which == signal.SIGINT
        self.should_exit, self.stopped_by = True, which


def serve(service: Service, listening: socket.socket, ready: Callable[[], None], connections: int = 1024) -> int | None:
    """Answer until a signal ends it; returns that signal."""
    config = uvicorn.Config(
        service,
        http=patient(service.core.limits.body_timeout, connections),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level=logging.ERROR,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=MOST_HEADERS,
    )
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # its clients are told what they did wrong
    # about odd metadata; where pictures are decoded they are ignored too, but only one thread at a time can do that
    warnings.filterwarnings("ignore", module="PIL")
    server = _Server(config, service, ready)
    server.run([listening])
    return server.stopped_by
