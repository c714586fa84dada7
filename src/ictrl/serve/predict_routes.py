"""POST /predict."""

from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from torch import Tensor

from ictrl.errors import InputError
from ictrl.serve.answers import NOTHING, Asked
from ictrl.serve.core import Core
from ictrl.serve.queries import Query
from ictrl.serve.refusals import RefusedError
from ictrl.serve.uploads import Part, Share, files, whole


async def predict(core: Core, request: Request) -> Response:
    """What the learner makes of one or many pictures."""
    query, now = Query(request, ("reconstruct", "unknown", "top")), core.host.now
    asked = Asked(query.share("unknown", None, zero=False), query.flag("reconstruct"))
    top = query.whole("top", None, 1, 1_000_000)
    if asked.unknown is not None:
        now.need("unknown", "tell unknown pictures")
    if asked.reconstruct:
        now.need("draw", "draw")
    found: list[tuple[dict[str, Any], int | None]] = []  # each with its place among those that could be read
    images: list[Tensor] = []
    with core.batches.coming(), core.budget.share() as share:
        async for part in _pictures(core, request, share):
            try:
                images.append(await core.decoded(part.content, now))
                found.append(({"file": part.file, "error": None}, len(images) - 1))
            except InputError as error:
                found.append(({"file": part.file, "error": " ".join(str(error).split()), **NOTHING}, None))
    if not found:
        raise RefusedError(400, "Expected at least one picture but got none.")
    if not images:
        unread = [answer for answer, _ in found]
        content = {"error": unread[0]["error"], "version": now.version, "predictions": unread}
        return JSONResponse(content, status_code=400)
    served, predicted = await core.batches.predict(images, asked)
    answers = []
    for answer, place in found:
        said = answer if place is None else {**answer, **predicted[place]}
        answers.append({**said, "classes": said["classes"][:top]})
    return JSONResponse({"version": served.version, "predictions": answers})


async def _pictures(core: Core, request: Request, share: Share) -> AsyncIterator[Part]:
    """The pictures of a request: its body, or the files of its form."""
    limits = core.limits
    kind = request.headers.get("content-type", "application/octet-stream").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        size = (limits.max_body, "--max-body")
        async for part in files(request, limits, share, limits.max_pictures, "--max-pictures", size):
            yield part
    elif kind.startswith("image/") or kind == "application/octet-stream":
        yield Part("", None, bytearray(await whole(request, limits, share)))
    else:
        raise RefusedError(
            415,
            f"Expected a picture as image/…, application/octet-stream or multipart/form-data but got {kind[:50]!r}: "
            "with curl, `-F picture=@file`.",
        )
