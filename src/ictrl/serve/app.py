"""The ASGI application: its routes, and what stands around them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from ictrl.serve.access import LOOPBACK, Guard
from ictrl.serve.bounds import Limits
from ictrl.serve.class_routes import affinity, of_class
from ictrl.serve.core import Core
from ictrl.serve.counters import ROUTE, Counted
from ictrl.serve.failures import Caught
from ictrl.serve.host import LearnerHost
from ictrl.serve.learner_routes import classes, go_to, healthz, metrics, openapi, versions
from ictrl.serve.predict_routes import predict
from ictrl.serve.refusals import busy, no_path
from ictrl.serve.teach_routes import cancel, teach, teaching

PAGE = Path(__file__).parent / "page"
Endpoint = Callable[[Core, Request], Awaitable[Response]]


async def index(core: Core, request: Request) -> Response:
    """The page."""
    return FileResponse(PAGE / "index.html", media_type="text/html")


ENDPOINTS: list[tuple[str, dict[str, Endpoint]]] = [
    ("/", {"GET": index}),
    ("/healthz", {"GET": healthz}),
    ("/metrics", {"GET": metrics}),
    ("/openapi.json", {"GET": openapi}),
    ("/classes", {"GET": classes}),
    ("/predict", {"POST": predict}),
    ("/teach", {"POST": teach}),
    ("/teaching", {"GET": teaching, "DELETE": cancel}),
    ("/versions", {"GET": versions}),
    ("/versions/{version}", {"POST": go_to}),
    ("/affinity", {"GET": affinity}),
    ("/classes/{rest:path}", {"GET": of_class, "DELETE": of_class}),
]
"""by path and method; those of one class are told apart in `class_routes`"""


class Service:
    """A learner as an ASGI application; its lifespan starts and stops it.

    `names` are those that it may be called by in a request's `Host`, and `token` is what a request must bring.
    """

    def __init__(
        self,
        host: LearnerHost,
        limits: Limits | None = None,
        token: str | None = None,
        names: Sequence[str] = LOOPBACK,
        any_name: bool = False,
    ) -> None:
        self.core = Core(host, limits or Limits())
        self._requests = 0
        routes = [self._route(path, endpoints) for path, endpoints in ENDPOINTS]
        router = Router([*routes, Mount("/static", _Page())], False, _no_route, lifespan=self._lifespan)
        self._app: ASGIApp = Counted(Guard(Caught(router), token, names, any_name), self.core.counters)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope["app"] = self  # so that routes raise what they refuse
        await self._app(scope, receive, send)

    def _route(self, path: str, endpoints: dict[str, Endpoint]) -> Route:
        most = self.core.limits.max_requests

        async def endpoint(request: Request) -> Response:
            request.scope[ROUTE] = path
            if self._requests >= most:
                raise busy("Expected fewer requests at once but there are too many (--max-requests): come again.")
            self._requests += 1
            try:
                return await endpoints[request.method.replace("HEAD", "GET")](self.core, request)
            finally:
                self._requests -= 1

        return Route(path, endpoint, methods=list(endpoints))

    @asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        async with self.core.running():
            yield


class _Page(StaticFiles):
    """Files of the page; all of them count as one route."""

    def __init__(self) -> None:
        super().__init__(directory=PAGE)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope[ROUTE] = "/static"
        await super().__call__(scope, receive, send)


async def _no_route(scope: Any, receive: Any, send: Any) -> None:
    raise no_path()
