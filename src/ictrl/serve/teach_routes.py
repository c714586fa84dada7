"""POST /teach, GET and DELETE /teaching."""

import json
from collections.abc import AsyncIterator

import torch
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from torch import Tensor

from ictrl.errors import InputError
from ictrl.experiment.teaching import check_new_names
from ictrl.serve.core import PATIENCE, Core
from ictrl.serve.lesson import Event, Lesson
from ictrl.serve.queries import MOST_SEED, Query
from ictrl.serve.refusals import RefusedError
from ictrl.serve.served import HELD_OUT, Served
from ictrl.serve.uploads import files

LONGEST_NAME = 200  # characters of a class's name


async def teach(core: Core, request: Request) -> Response:
    """Learn new classes; answered at once, with events as it goes on."""
    query, now = Query(request, ("held_out", "seed")), core.host.now
    held_out, seed = query.share("held_out", HELD_OUT, zero=True), query.whole("seed", 0, 0, MOST_SEED)
    assert held_out is not None
    assert seed is not None
    now.need("learn", "learn")
    with core.teacher.turn():
        lesson = core.teacher.begin(await _new_classes(core, request, now), held_out, seed)
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(_told(core, lesson), media_type="text/event-stream", headers=headers)


async def _new_classes(core: Core, request: Request, now: Served) -> dict[str, Tensor]:
    """The pictures of each class, decoded as they come; any that cannot be read refuses all."""
    limits, found = core.limits, dict[str, list[Tensor]]()
    size = (limits.max_teaching, "--max-teaching")
    with core.budget.share() as share:
        async for part in files(request, limits, share, limits.max_teaching_pictures, "--max-teaching-pictures", size):
            if part.name not in found:
                check_name(part.name)
                check_new_names({part.name: ()}, now.names)
            try:
                image = await core.decoded(part.content, now)
            except InputError as error:
                which = f"{part.name[:50]}/{(part.file or '')[:100]}"
                raise RefusedError(400, f"{error} It was sent as {which}; nothing is learned.") from None
            found.setdefault(part.name, []).append(image)
    return {name: torch.stack(images) for name, images in found.items()}


def check_name(name: str) -> None:
    """Refuse what is no name of a class."""
    if not name.strip() or name in (".", "..") or len(name) > LONGEST_NAME or not name.isprintable():
        raise RefusedError(
            400,
            f"Expected the name of each file's field to be its class, of 1 to {LONGEST_NAME} printable characters, but "
            f"got {name[:50]!r}.",
        )


async def _told(core: Core, lesson: Lesson) -> AsyncIterator[bytes]:
    """What happens in a lesson, as server-sent events."""
    async for event in core.teacher.watch(lesson):
        yield b": still learning\n\n" if event is None else sse(event)


def sse(event: Event) -> bytes:
    """One server-sent event."""
    return f"event: {event[0]}\ndata: {json.dumps(event[1], ensure_ascii=False)}\n\n".encode()


async def teaching(core: Core, request: Request) -> Response:
    """What is being taught, if anything is, and how the last teaching ended."""
    return JSONResponse(core.teacher.state())


async def cancel(core: Core, request: Request) -> Response:
    """End a teaching; the learner is as it was."""
    if not core.teacher.cancel():
        raise RefusedError(409, "Expected a teaching to cancel but there is none.")
    await core.teacher.ended(PATIENCE)
    return JSONResponse(core.teacher.state())
