"""What stands behind the question mark, checked."""

import math
from collections.abc import Collection

from starlette.requests import Request

from ictrl.serve.refusals import RefusedError

MOST_SEED = 2**63 - 1
YES_NO = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": True}


class Query:
    """The parameters of a request; unknown ones and those given twice are refused."""

    def __init__(self, request: Request, known: Collection[str]) -> None:
        items = request.query_params.multi_items()
        self._given = dict(items)
        for name in self._given:
            if name not in known:
                some = ", ".join(known) or "none"
                raise RefusedError(400, f"Expected the parameters {some} but got {name[:50]!r}.")
        if len(items) > len(self._given):
            raise RefusedError(400, "Expected each parameter once but got one of them again.")

    def flag(self, name: str) -> bool:
        given = self._given.get(name, "0").lower()
        if given not in YES_NO:
            raise RefusedError(400, f"Expected {name} to be 1 or 0 but got {given[:50]!r}.")
        return YES_NO[given]

    def whole(self, name: str, default: int | None, least: int, most: int) -> int | None:
        if name not in self._given:
            return default
        given = self._given[name]
        if not (given.isascii() and given.lstrip("-").isdecimal() and len(given) < 20 and least <= int(given) <= most):
            raise RefusedError(
                400, f"Expected {name} to be a whole number from {least} to {most} but got {given[:50]!r}."
            )
        return int(given)

    def share(self, name: str, default: float | None, zero: bool) -> float | None:
        """A number below 1, and above 0 or at least 0."""
        if name not in self._given:
            return default
        value = _number(self._given[name])
        if value is None or not (0 <= value < 1) or (value == 0 and not zero):
            least = "at least 0" if zero else "above 0"
            raise RefusedError(400, f"Expected {name} to be {least} and below 1 but got {self._given[name][:50]!r}.")
        return value

    def numbers(self, name: str, most: float) -> list[float]:
        """Numbers with commas between them, each between −most and most."""
        parts = self._given.get(name, "").split(",")
        values = [_number(part) for part in parts] if parts != [""] else []
        if any(value is None or abs(value) > most for value in values):
            raise RefusedError(
                400, f"Expected {name} to be numbers from -{most:g} to {most:g} with commas between them."
            )
        return [value for value in values if value is not None]

    def text(self, name: str) -> str | None:
        return self._given.get(name)

    def one_of(self, name: str, choices: Collection[str], default: str) -> str:
        given = self._given.get(name, default)
        if given not in choices:
            raise RefusedError(400, f"Expected {name} to be {' or '.join(choices)} but got {given[:50]!r}.")
        return given


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
