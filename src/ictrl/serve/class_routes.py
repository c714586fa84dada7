"""Routes of one class, whose name is percent-encoded in the path and may contain a slash; and of all: /affinity."""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ictrl.serve import drawings, earlier
from ictrl.serve.core import Core
from ictrl.serve.counters import ROUTE
from ictrl.serve.forgotten import forget_class
from ictrl.serve.png import data_url, png
from ictrl.serve.queries import MOST_SEED, Query
from ictrl.serve.refusals import RefusedError, no_path
from ictrl.serve.served import Served

BEFORE = b"/classes/"


async def of_class(core: Core, request: Request) -> Response:
    """Whichever route it is."""
    raw = request.scope.get("raw_path", b"").partition(b"?")[0]
    parts = raw.removeprefix(BEFORE).split(b"/")
    what = b"/".join(parts[1:]).decode("latin-1")
    there = {method: endpoint for (method, path), endpoint in ROUTES.items() if path == what}
    if not raw.startswith(BEFORE) or not there:
        raise no_path()
    request.scope[ROUTE] = "/classes/{name}" + (f"/{what}" if what else "")
    if (endpoint := there.get(request.method.replace("HEAD", "GET"))) is None:
        only = next(iter(there))
        raise RefusedError(405, f"Expected {only} here but got {request.method}.", {"Allow": only})
    try:
        name = unquote_to_bytes(parts[0]).decode("utf-8")
    except UnicodeDecodeError:
        raise RefusedError(400, "Expected the name of a class in UTF-8 but got other bytes.") from None
    return await endpoint(core, request, core.host.now, name)


async def _forget(core: Core, request: Request, now: Served, name: str) -> Response:
    remove = Query(request, ("versions",)).one_of("versions", ("keep", "remove"), "keep") == "remove"
    now.need("forget", "forget")
    now.label_of(name)
    return JSONResponse(await asyncio.to_thread(forget_class, core.host, name, remove))


async def _samples(core: Core, request: Request, now: Served, name: str) -> Response:
    query = Query(request, ("n", "direction", "seed", "of"))
    n = query.whole("n", 16, 1, drawings.MOST_SAMPLES)
    direction, seed = query.whole("direction", None, 0, 10_000), query.whole("seed", 0, 0, MOST_SEED)
    of = query.text("of")
    now.need("draw", "draw")
    label = now.label_of(name)
    if of is None:
        pictures = await core.in_pool(drawings.samples, now, label, n, direction, seed)
    elif direction is None:
        pictures = await core.in_pool(earlier.samples, core.host, name, of, n, seed)
    else:
        raise RefusedError(400, "Expected either direction or of but got both.")
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse({"pictures": await core.in_pool(lambda: [data_url(picture) for picture in pictures])})
    return Response(await core.in_pool(drawings.sheet, pictures), media_type="image/png")


async def _earlier(core: Core, request: Request, now: Served, name: str) -> Response:
    Query(request, ())
    now.need("draw", "draw")
    now.label_of(name)
    found = await core.in_pool(earlier.earlier, core.host, name)
    return JSONResponse({"earlier": [one.described() for one in found]})


async def _directions(core: Core, request: Request, now: Served, name: str) -> Response:
    Query(request, ())
    now.need("directions", "walk through a class")
    return JSONResponse({"directions": await core.in_pool(drawings.directions, now, now.label_of(name))})


async def _picture(core: Core, request: Request, now: Served, name: str) -> Response:
    at = Query(request, ("at",)).numbers("at", drawings.FURTHEST)
    now.need("directions", "walk through a class")
    image = await core.in_pool(drawings.picture, now, now.label_of(name), at)
    return Response(await core.in_pool(png, image), media_type="image/png")


async def affinity(core: Core, request: Request) -> Response:
    """How every two classes lie to each other."""
    now = core.host.now
    now.need("compare", "compare its classes")
    return JSONResponse(await core.in_pool(drawings.affinity, now))


ROUTES: dict[tuple[str, str], Callable[[Core, Request, Served, str], Awaitable[Response]]] = {
    ("DELETE", ""): _forget,
    ("GET", "samples"): _samples,
    ("GET", "earlier"): _earlier,
    ("GET", "directions"): _directions,
    ("GET", "picture"): _picture,
}
"""by method, and what stands behind the name"""
