"""The routes: what is asked, in what form it is answered. What is behind them lies in the other files of this room."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import torch
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from torch import Tensor

from ictrl.errors import InputError
from ictrl.experiment.teaching import check_new_names
from ictrl.serve import drawings
from ictrl.serve.access import LOOPBACK, Guard
from ictrl.serve.answers import NOTHING, Asked
from ictrl.serve.batches import Batches
from ictrl.serve.counters import ROUTE, Counted, Counters
from ictrl.serve.failures import Caught
from ictrl.serve.forgotten import forget_class
from ictrl.serve.host import LearnerHost
from ictrl.serve.lesson import Event, Lesson, Teacher
from ictrl.serve.limits import MB, Limits
from ictrl.serve.openapi import described
from ictrl.serve.png import data_url, decode, png
from ictrl.serve.queries import MOST_SEED, Query
from ictrl.serve.refusals import RefusedError, busy
from ictrl.serve.served import HELD_OUT, Served
from ictrl.serve.uploads import Budget, Part, Share, files, whole

PAGE = Path(__file__).parent / "page"
LOOK = 1.0  # seconds between looks whether another program has written the learner
LONGEST_NAME = 200  # characters of a class's name
Result = TypeVar("Result")
Endpoint = Callable[[Request], Awaitable[Response]]


class Service:
    """A learner as an ASGI application. `start` and `stop` are called by its lifespan."""

    def __init__(
        self,
        host: LearnerHost,
        limits: Limits | None = None,
        token: str | None = None,
        names: Sequence[str] = LOOPBACK,
        any_name: bool = False,
    ) -> None:
        self.host, self.limits, self.counters = host, limits or Limits(), Counters()
        self.batches = Batches(lambda: host.now, self.limits, self.counters.batch)
        self.teacher = Teacher(host, self.counters.lessons.observe)
        self.budget = Budget(self.limits.max_upload * MB)
        self._pool = ThreadPoolExecutor(self.limits.decoders, "pictures")
        self._requests = 0
        self._look: asyncio.Task[None] | None = None
        for name, what, read in (
            ("queue_pictures", "Pictures that wait for the learner.", lambda: self.batches.waiting),
            ("classes", "Classes that the learner knows.", lambda: len(host.now.names)),
            ("version", "Version of the learner.", lambda: host.now.version),
            ("teaching", "Whether a class is being taught.", lambda: float(self.teacher.teaching)),
            ("upload_bytes", "Undecoded pictures in memory.", lambda: self.budget.taken),
        ):
            self.counters.gauge(name, what, read)
        router = Router(self._routes(), default=_no_route, lifespan=self._lifespan, redirect_slashes=False)
        guarded = Guard(Caught(router), token, names, any_name)
        self._app: ASGIApp = Counted(guarded, self.counters)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope["app"] = self  # so that routes raise what they refuse
        await self._app(scope, receive, send)

    def _routes(self) -> list[Route | Mount]:
        return [
            self._route("/", self._index),
            self._route("/healthz", self._healthz),
            self._route("/metrics", self._metrics),
            self._route("/openapi.json", self._openapi),
            self._route("/classes", self._classes),
            self._route("/predict", self._predict, "POST"),
            self._route("/teach", self._teach, "POST"),
            self._route("/teaching", self._teaching, "GET", "DELETE"),
            self._route("/versions", self._versions),
            self._route("/versions/{version}", self._go_to, "POST"),
            self._route("/affinity", self._affinity),
            self._route("/classes/{rest:path}", self._of_class, "GET", "DELETE"),
            Mount("/static", _Static(directory=PAGE)),
        ]

    def _route(self, path: str, endpoint: Endpoint, *methods: str) -> Route:
        async def counted(request: Request) -> Response:
            request.scope[ROUTE] = path
            if self._requests >= self.limits.max_requests:
                raise busy("Expected fewer requests at once but there are too many (--max-requests): come again.")
            self._requests += 1
            try:
                return await endpoint(request)
            finally:
                self._requests -= 1

        return Route(path, counted, methods=methods or ("GET",))

    @asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        self.batches.start()
        self._look = asyncio.create_task(self._keep_looking())
        try:
            yield
        finally:
            self._look.cancel()
            self.teacher.cancel()
            await self.teacher.ended()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self.batches.stop()

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            await self.refresh()

    async def refresh(self) -> None:
        """Serve what another program has written meanwhile; a file that cannot be read is left alone for now."""
        try:
            await asyncio.to_thread(self.host.refresh)
        except (InputError, OSError) as error:
            self.host.trouble = " ".join(str(error).split())

    async def _in_pool(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    # what there is

    async def _index(self, request: Request) -> Response:
        return FileResponse(PAGE / "index.html", media_type="text/html")

    async def _healthz(self, request: Request) -> Response:
        now = self.host.now
        return JSONResponse(
            {"status": "ok", "classes": len(now.names), "version": now.version, "teaching": self.teacher.teaching}
        )

    async def _metrics(self, request: Request) -> Response:
        return Response(self.counters.text(), media_type=self.counters.content_type)

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(described())

    async def _classes(self, request: Request) -> Response:
        return JSONResponse(self.host.now.described())

    # predicting

    async def _predict(self, request: Request) -> Response:
        query, now = Query(request, ("reconstruct", "unknown", "top")), self.host.now
        asked = Asked(query.share("unknown", None, zero=False), query.flag("reconstruct"))
        top = query.whole("top", None, 1, 1_000_000)
        if asked.unknown is not None:
            now.need("unknown", "tell unknown pictures")
        if asked.reconstruct:
            now.need("draw", "draw")
        found: list[dict[str, Any]] = []
        images: list[Tensor] = []
        with self.batches.coming(), self.budget.share() as share:
            async for part in self._pictures(request, share):
                answer: dict[str, Any] = {"file": part.file, "error": None, **NOTHING}
                try:
                    images.append(await self._in_pool(self._decoded, bytes(part.content), now))
                    answer["place"] = len(images) - 1
                except InputError as error:
                    answer["error"] = " ".join(str(error).split())
                found.append(answer)
            if not found:
                raise RefusedError(400, "Expected at least one picture but got none.")
        if not images:
            return JSONResponse(
                {"version": now.version, "predictions": found, "error": found[0]["error"]}, status_code=400
            )
        served, predicted = await self.batches.predict(torch.stack(images), asked)
        for answer in found:
            if (place := answer.pop("place", None)) is not None:
                answer |= predicted[place]
                answer["classes"] = answer["classes"][:top]
        return JSONResponse({"version": served.version, "predictions": found})

    async def _pictures(self, request: Request, share: Share) -> AsyncIterator[Part]:
        """The pictures of a request: its body, or the files of its form."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "multipart/form-data":
            size = (self.limits.max_body, "--max-body")
            async for part in files(request, self.limits, share, self.limits.max_pictures, "--max-pictures", size):
                yield part
        elif kind.startswith("image/") or kind in ("", "application/octet-stream"):
            yield Part("", None, bytearray(await whole(request, self.limits, share)))
        else:
            raise RefusedError(
                415,
                f"Expected a picture as image/…, application/octet-stream or multipart/form-data but got {kind[:50]!r}"
                ": with curl, `-F picture=@file`.",
            )

    def _decoded(self, content: bytes, served: Served) -> Tensor:
        return decode(content, served.image_size, served.channels, self.limits.max_pixels)

    # teaching

    async def _teach(self, request: Request) -> Response:
        query, now = Query(request, ("held_out", "seed")), self.host.now
        held_out = query.share("held_out", HELD_OUT, zero=True)
        seed = query.whole("seed", 0, 0, MOST_SEED)
        assert held_out is not None
        assert seed is not None
        now.need("learn", "learn")
        with self.teacher.turn():
            lesson = self.teacher.begin(await self._new_classes(request, now), held_out, seed)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._told(lesson), media_type="text/event-stream", headers=headers)

    async def _new_classes(self, request: Request, now: Served) -> dict[str, Tensor]:
        """The pictures of each class, decoded as they come; any that cannot be read refuses all."""
        limits, found = self.limits, dict[str, list[Tensor]]()
        size = (limits.max_teaching, "--max-teaching")
        with self.budget.share() as share:
            async for part in files(
                request, limits, share, limits.max_teaching_pictures, "--max-teaching-pictures", size
            ):
                if part.name not in found:
                    check_name(part.name)
                    check_new_names({part.name: ()}, now.names)
                try:
                    image = await self._in_pool(self._decoded, bytes(part.content), now)
                except InputError as error:
                    which = f"{part.name[:50]}/{(part.file or '')[:100]}"
                    raise RefusedError(400, f"{error} It was sent as {which}; nothing is learned.") from None
                found.setdefault(part.name, []).append(image)
        return {name: torch.stack(images) for name, images in found.items()}

    async def _told(self, lesson: Lesson) -> AsyncIterator[bytes]:
        """What happens in a lesson, as server-sent events."""
        async for event in self.teacher.watch(lesson):
            yield b": still learning\n\n" if event is None else sse(event)

    async def _teaching(self, request: Request) -> Response:
        if request.method == "DELETE" and not self.teacher.cancel():
            raise RefusedError(409, "Expected a teaching to cancel but there is none.")
        if request.method == "DELETE":
            await self.teacher.ended()
        return JSONResponse(self.teacher.state())

    # versions

    async def _versions(self, request: Request) -> Response:
        current = self.host.now.version
        kept = await self._in_pool(self.host.versions.kept)
        shown = [
            {
                "version": one.version,
                "at": one.at,
                "what": one.what,
                "classes": one.header.classes,
                "current": one.version == current,
            }
            for one in kept
        ]
        return JSONResponse({"version": current, "versions": shown})

    async def _go_to(self, request: Request) -> Response:
        given = request.path_params["version"]
        if not (given.isascii() and given.isdecimal() and len(given) < 10):
            raise RefusedError(400, f"Expected the number of a version but got {given[:50]!r}.")
        served = await asyncio.to_thread(self.host.go_to, int(given))
        return JSONResponse(served.described())

    # one class

    async def _of_class(self, request: Request) -> Response:
        """Routes of one class: its name is percent-encoded in the path, and may contain a slash."""
        raw = request.scope.get("raw_path", b"").partition(b"?")[0]
        if not raw.startswith(b"/classes/"):
            raise _not_found()
        parts = raw.removeprefix(b"/classes/").split(b"/")
        name, what = parts[0], b"/".join(parts[1:])
        known: dict[tuple[str, bytes], Callable[[Request, Served, str], Awaitable[Response]]] = {
            ("DELETE", b""): self._forget,
            ("GET", b"samples"): self._samples,
            ("GET", b"directions"): self._directions,
            ("GET", b"picture"): self._picture,
        }
        if (endpoint := known.get((request.method.replace("HEAD", "GET"), what))) is None or len(parts) > 2:
            there = [method for method, path in known if path == what]
            if not there or len(parts) > 2:
                raise _not_found()
            raise RefusedError(405, f"Expected {there[0]} here but got {request.method}.", {"Allow": there[0]})
        request.scope[ROUTE] = "/classes/{name}" + (f"/{what.decode()}" if what else "")
        try:
            text = unquote_to_bytes(name).decode("utf-8")
        except UnicodeDecodeError:
            raise RefusedError(400, "Expected the name of a class in UTF-8 but got other bytes.") from None
        return await endpoint(request, self.host.now, text)

    async def _forget(self, request: Request, now: Served, name: str) -> Response:
        remove = Query(request, ("versions",)).one_of("versions", ("keep", "remove"), "keep") == "remove"
        now.need("forget", "forget")
        now.label_of(name)
        return JSONResponse(await asyncio.to_thread(forget_class, self.host, name, remove))

    async def _samples(self, request: Request, now: Served, name: str) -> Response:
        query = Query(request, ("n", "direction", "seed"))
        n = query.whole("n", 16, 1, drawings.MOST_SAMPLES)
        direction, seed = query.whole("direction", None, 0, 10_000), query.whole("seed", 0, 0, MOST_SEED)
        now.need("draw", "draw")
        label = now.label_of(name)
        pictures = await self._in_pool(drawings.samples, now, label, n, direction, seed)
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse({"pictures": await self._in_pool(lambda: [data_url(picture) for picture in pictures])})
        return Response(await self._in_pool(drawings.sheet, pictures), media_type="image/png")

    async def _directions(self, request: Request, now: Served, name: str) -> Response:
        Query(request, ())
        now.need("directions", "walk through a class")
        return JSONResponse({"directions": await self._in_pool(drawings.directions, now, now.label_of(name))})

    async def _picture(self, request: Request, now: Served, name: str) -> Response:
        at = Query(request, ("at",)).numbers("at", drawings.FURTHEST)
        now.need("directions", "walk through a class")
        image = await self._in_pool(drawings.picture, now, now.label_of(name), at)
        return Response(await self._in_pool(png, image), media_type="image/png")

    async def _affinity(self, request: Request) -> Response:
        now = self.host.now
        now.need("compare", "compare its classes")
        return JSONResponse(await self._in_pool(drawings.affinity, now))


class _Static(StaticFiles):
    """Files of the page; all of them count as one route."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope[ROUTE] = "/static"
        await super().__call__(scope, receive, send)


def sse(event: Event) -> bytes:
    """One server-sent event."""
    return f"event: {event[0]}\ndata: {json.dumps(event[1], ensure_ascii=False)}\n\n".encode()


def check_name(name: str) -> None:
    """Refuse what is no name of a class."""
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise RefusedError(
            400,
            f"Expected the name of each file's field to be its class, of 1 to {LONGEST_NAME} printable characters, but "
            f"got {name[:50]!r}.",
        )


def _not_found() -> RefusedError:
    return RefusedError(404, "Expected a path of this server but there is no such one: GET /openapi.json lists them.")


async def _no_route(scope: Any, receive: Any, send: Any) -> None:
    raise _not_found()
