"""Who may ask: the token, the names by which the server may be called, and pages of others that may not use it."""

import hmac
import json
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING

from ictrl.errors import InputError
from ictrl.serve.refusals import RefusedError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEAST_TOKEN = 16  # characters
MOST_HEADERS = 32_768  # bytes
LOOPBACK = ("localhost", "127.0.0.1", "::1")
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
OPEN = ("/", "/healthz")  # and /static/: the page asks for the token itself
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
SECURITY = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


def is_loopback(host: str) -> bool:
    """Whether a server that listens there can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_token(token: str) -> None:
    """Refuse a token that could be guessed, or that no header can hold."""
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"Expected a token of at least {LEAST_TOKEN} printable ASCII characters without spaces but got "
            f"{len(token)} characters: leave --token and ICTRL_TOKEN out, and one is made."
        )


class Guard:
    """Lets through what is allowed, with the security headers on every answer."""

    def __init__(self, app: "ASGIApp", token: str | None, names: Sequence[str], any_name: bool = False) -> None:
        self._app, self._any_name = app, any_name
        self._token = None if token is None else token.encode()
        self._names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: "Message") -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *SECURITY]
            await send(message)

        try:
            self._check(scope)
        except RefusedError as refusal:
            await refuse(refusal, sending)
            return
        await self._app(scope, receive, sending)

    def _check(self, scope: "Scope") -> None:
        path = scope["path"]
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in path) or "\ufffd" in path:
            raise RefusedError(400, "Expected a path of printable characters in UTF-8 but got others.")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADERS:
            raise RefusedError(431, f"Expected headers of at most {MOST_HEADERS} bytes but got more.")
        hosts = _values(scope, b"host")
        host = hosts[0] if len(hosts) == 1 else ""
        if not self._any_name and _name(host) not in self._names:
            raise RefusedError(
                403,
                f"Expected a request to {' or '.join(sorted(self._names))} but its Host is another: to be called by "
                "another name, start with --public-name NAME.",
            )
        if scope["method"] in CHANGING:
            self._check_origin(scope, host)
        if self._token is not None and path not in OPEN and not path.startswith("/static/"):
            self._check_token(scope)

    def _check_origin(self, scope: "Scope", host: str) -> None:
        """A page of another site may make a browser ask, but not have it carried out."""
        origins, sites = _values(scope, b"origin"), _values(scope, b"sec-fetch-site")
        own = all(origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower()) for origin in origins)
        if not own or (not origins and any(site not in ("same-origin", "none") for site in sites)):
            raise RefusedError(
                403, "Expected a request of this server's own page or of a program but its Origin is another."
            )

    def _check_token(self, scope: "Scope") -> None:
        assert self._token is not None
        given = _values(scope, b"authorization")
        kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        good = hmac.compare_digest(token.strip().encode("latin-1"), self._token)
        if kind.lower() != "bearer" or not good:
            raise RefusedError(
                401, "Expected `Authorization: Bearer TOKEN` with this server's token but got none that is right.",
                {"WWW-Authenticate": "Bearer"},
            )  # fmt: skip


def _values(scope: "Scope", name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _name(host: str) -> str:
    """A Host header without its port."""
    name, colon, port = host.rpartition(":")
    if not colon or "]" in port:
        name = host
    return name.strip("[]").lower()


async def refuse(refusal: RefusedError, send: "Send") -> None:
    """Answer with a refusal."""
    content = json.dumps({"error": refusal.line}, ensure_ascii=False).encode()
    headers = [(name.lower().encode(), value.encode()) for name, value in refusal.headers.items()]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
