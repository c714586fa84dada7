"""What the service says of itself and its learner: /healthz, /metrics, /openapi.json, /classes, /versions."""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ictrl.serve.core import Core
from ictrl.serve.openapi import described
from ictrl.serve.refusals import RefusedError


async def healthz(core: Core, request: Request) -> Response:
    """That it answers; `trouble` says why what another program has written is not served."""
    now, trouble = core.host.now, {} if core.trouble is None else {"trouble": core.trouble}
    about = {"classes": len(now.names), "version": now.version, "teaching": core.teacher.teaching}
    return JSONResponse({"status": "ok", **about, **trouble})


async def metrics(core: Core, request: Request) -> Response:
    """Numbers for Prometheus."""
    return Response(core.counters.text(), media_type=core.counters.content_type)


async def openapi(core: Core, request: Request) -> Response:
    """The description of the whole service."""
    return JSONResponse(described())


async def classes(core: Core, request: Request) -> Response:
    """What the learner knows, and what it can do."""
    return JSONResponse(core.host.now.described())


async def versions(core: Core, request: Request) -> Response:
    """The versions that one can go back to."""
    current = core.host.now.version
    shown = [
        {
            "version": kept.version,
            "at": kept.at,
            "what": kept.what,
            "classes": kept.header.classes,
            "current": kept.version == current,
        }
        for kept in await core.in_pool(core.host.versions.kept)
    ]
    return JSONResponse({"version": current, "versions": shown})


async def go_to(core: Core, request: Request) -> Response:
    """Make a kept version the learner."""
    given = request.path_params["version"]
    if not (given.isascii() and given.isdecimal() and len(given) < 10):
        raise RefusedError(400, f"Expected the number of a version but got {given[:50]!r}.")
    served = await asyncio.to_thread(core.host.go_to, int(given))
    return JSONResponse(served.described())
