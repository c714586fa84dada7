"""Whatever goes wrong becomes one line with a status; the log has a line for what is the server's own fault."""

import logging
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ictrl.errors import UserError
from ictrl.serve.access import refuse
from ictrl.serve.refusals import RefusedError, no_path

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)
OTHER_METHOD = "Expected another method at this path: GET /openapi.json lists them."


class Caught:
    """Answers for an application that raises."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def sending(message: "Message") -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            return
        except Exception as error:
            refusal = as_refusal(error)
            if refusal.status == 500:
                logger.error("%s %s failed: %s", scope["method"], scope.get("ictrl.route", "other"), refusal.line)
            if not begun:
                await refuse(refusal, send)


def as_refusal(error: Exception) -> RefusedError:
    """A status and a line for whatever was raised."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, HTTPException):
        if error.status_code == 404:
            return no_path()
        line = OTHER_METHOD if error.status_code == 405 else str(error.detail)
        return RefusedError(error.status_code, line, dict(error.headers or {}))
    if isinstance(error, UserError):
        return RefusedError(409 if "another process" in str(error) else 400, str(error))
    if isinstance(error, OSError) and error.strerror:
        return RefusedError(500, f"Expected to read and write the learner but could not: {error.strerror}.")
    return RefusedError(500, f"Expected an answer but got {type(error).__name__}: {error}")
