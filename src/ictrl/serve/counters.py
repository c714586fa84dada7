"""What is counted for Prometheus: requests by route and status, seconds, batches, the queue, the learner."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = ("GET", "HEAD", "POST", "DELETE")
OTHER = "other"  # every route that there is not, every method that is not used: labels are few whatever comes
ROUTE = "ictrl.route"  # of a request's scope: the route's template, once it is known
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Counters:
    """A registry of its own, so that two services in one process do not mix."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        labels = ["method", "route", "status"]
        self.requests = Counter("ictrl_requests", "Requests that were answered.", labels, registry=registry)
        self.seconds = Histogram(
            "ictrl_request_seconds", "Time to the end of the answer.", ["route"], buckets=SECONDS, registry=registry
        )
        self.predictions = Counter("ictrl_predictions", "Pictures that were predicted.", registry=registry)
        sizes = (1, 2, 4, 8, 16, 32, 64, 128, 256)
        self.batches = Histogram("ictrl_batch_pictures", "Pictures per batch.", buckets=sizes, registry=registry)
        self.lessons = Histogram(
            "ictrl_teaching_seconds", "Time that teaching took.", buckets=(1, 3, 10, 30, 100, 300, 1000, 3000),
            registry=registry,
        )  # fmt: skip

    def gauge(self, name: str, what: str, read: Callable[[], float]) -> None:
        """A number that is read when it is asked for."""
        Gauge(f"ictrl_{name}", what, registry=self.registry).set_function(read)

    def batch(self, n: int) -> None:
        """A batch of so many pictures goes to the learner."""
        self.predictions.inc(n)
        self.batches.observe(n)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class Counted:
    """Counts every request, whatever becomes of it."""

    def __init__(self, app: "ASGIApp", counters: Counters) -> None:
        self._app, self._counters = app, counters

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 499  # if it is never answered: the client has gone

        async def sending(message: "Message") -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._count(scope, status, time.perf_counter() - begun)

    def _count(self, scope: Any, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in METHODS else OTHER
        route = scope.get(ROUTE, OTHER)
        self._counters.requests.labels(method, route, str(status)).inc()
        self._counters.seconds.labels(route).observe(seconds)
