"""What a request is refused with: a status and one line."""

from collections.abc import Mapping
from types import MappingProxyType

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class RefusedError(Exception):
    """A request that is not carried out: the status it is answered with, and one line that says why."""

    def __init__(self, status: int, line: str, headers: Mapping[str, str] = NO_HEADERS) -> None:
        super().__init__(" ".join(line.split()))
        self.status, self.headers = status, dict(headers)

    @property
    def line(self) -> str:
        return str(self)


def busy(line: str, seconds: int = 1) -> RefusedError:
    """A refusal for now: come again after some seconds."""
    return RefusedError(503, line, {"Retry-After": str(seconds)})


def no_path() -> RefusedError:
    """A refusal of a path that is none."""
    return RefusedError(404, "Expected a path of this server but there is no such one: GET /openapi.json lists them.")
