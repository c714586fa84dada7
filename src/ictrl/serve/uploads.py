"""Bodies of requests, read as they come, in memory alone and never beyond their limits.

`multipart/form-data` is parsed as it streams, and a part is held until it is handed on. Web frameworks put larger parts
into temporary files; here nothing is put into files.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from ictrl.serve.bounds import MB, Limits
from ictrl.serve.refusals import RefusedError, busy

SLOWEST = 50_000  # bytes a second
FIELD = 1000  # bytes of a field that is no file


class Budget:
    """Bytes of undecoded pictures in memory, over all requests."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0

    @contextmanager
    def share(self) -> Iterator["Share"]:
        """What one request holds, until it is answered."""
        share = Share(self)
        try:
            yield share
        finally:
            share.hold(0)


class Share:
    """Bytes that one request holds."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._held = budget, 0

    def hold(self, n: int) -> None:
        more = n - self._held
        if more > 0 and self._budget.taken + more > self._budget.most:
            raise busy("Expected fewer uploads at once but too many are in memory (--max-upload): come again.")
        self._budget.taken += more
        self._held = n


@dataclass
class Part:
    """A file of a form."""

    name: str
    """of its field"""
    file: str | None
    content: bytearray = field(default_factory=bytearray)
    is_file: bool = True


async def chunks(request: Request, most: int, option: str, seconds: float) -> AsyncIterator[bytes]:
    """A body as it comes: no larger than so many MB, and not too slowly."""
    too_large = RefusedError(413, f"Expected a body of at most {most} MB ({option}) but got a larger one.")
    if (length := request.headers.get("content-length", "")).isdecimal() and int(length) > most * MB:
        raise too_large
    received, begun = 0, time.monotonic()
    stream = request.stream()
    while True:
        left = begun + seconds + received / SLOWEST - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, left)):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise RefusedError(
                408, f"Expected the whole body but got {received} bytes of it in time (--body-timeout)."
            ) from None
        except ClientDisconnect:
            raise RefusedError(400, "Expected the whole body but the connection was closed.") from None
        if chunk is None:
            return
        received += len(chunk)
        if received > most * MB:
            raise too_large
        if chunk:
            yield chunk


async def whole(request: Request, limits: Limits, share: Share) -> bytes:
    """A body that is one picture."""
    content = bytearray()
    async for chunk in chunks(request, limits.max_body, "--max-body", limits.body_timeout):
        content += chunk
        share.hold(len(content))
    if not content:
        raise RefusedError(400, "Expected a picture but got an empty body.")
    return bytes(content)


class Form:
    """Parses a form; files that are complete wait in `parts`."""

    def __init__(self, content_type: str, most: int, option: str) -> None:
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not (boundary := options.get(b"boundary")):
            raise RefusedError(415, "Expected multipart/form-data with a boundary but got a form without one.")
        self.parts: deque[Part] = deque()
        self.held = 0
        """bytes of the part that is being read"""
        self._most, self._option, self._files, self._fields = most, option, 0, 0
        self._part: Part | None = None
        self._headers: dict[str, str] = {}
        self._name, self._value, self._ended = b"", b"", False
        callbacks: Any = {
            "on_part_begin": self._begin,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_end,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._whole,
        }
        try:
            self._parser = MultipartParser(boundary, callbacks)
        except ValueError as error:
            raise _not_a_form(error) from None

    def write(self, chunk: bytes) -> None:
        """Parse the next bytes."""
        try:
            self._parser.write(chunk)
        except ValueError as error:
            raise _not_a_form(error) from None

    def finish(self) -> None:
        """Refuse a form that broke off."""
        if not self._ended:
            raise RefusedError(400, "Expected multipart/form-data but it ends in the middle.")

    def _begin(self) -> None:
        self._headers, self._part, self.held = {}, None, 0

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._name.decode("latin-1").lower()] = self._value.decode("latin-1")
        self._name = self._value = b""

    def _headers_end(self) -> None:
        kind, options = parse_options_header(self._headers.get("content-disposition"))
        if kind != b"form-data" or b"name" not in options:
            raise RefusedError(400, "Expected parts of a form, each with its name, but got one without.")
        file = options.get(b"filename")
        is_file = file is not None or self._headers.get("content-type", "text/plain").partition("/")[0] != "text"
        self._part = Part(_text(options[b"name"]), _text(file) if file is not None else None, is_file=is_file)
        self._files += is_file
        self._fields += not is_file
        if self._files > self._most:
            raise RefusedError(
                413, f"Expected at most {self._most} pictures in a request ({self._option}) but got more."
            )
        if self._fields > 10:
            raise RefusedError(400, "Expected pictures as files of the form but got many fields that are none.")

    def _data(self, data: bytes, start: int, end: int) -> None:
        assert self._part is not None
        self._part.content += data[start:end]
        self.held = len(self._part.content)
        if not self._part.is_file and self.held > FIELD:
            raise RefusedError(400, "Expected pictures as files of the form but got a long field that is none.")

    def _end(self) -> None:
        assert self._part is not None
        if not self._part.is_file:
            raise RefusedError(
                400,
                f"Expected pictures as files of the form but field {self._part.name[:50]!r} is none: with curl, "
                "`-F name=@file`.",
            )
        self.parts.append(self._part)
        self._part, self.held = None, 0

    def _whole(self) -> None:
        self._ended = True


async def files(
    request: Request, limits: Limits, share: Share, most: int, option: str, size: tuple[int, str]
) -> AsyncIterator[Part]:
    """The files of a form, one by one, each as soon as it is there; at most so many, in a body of at most `size` MB."""
    form = Form(request.headers.get("content-type", ""), most, option)
    async for chunk in chunks(request, *size, limits.body_timeout):
        form.write(chunk)
        if form.held > limits.max_body * MB:
            raise RefusedError(
                413, f"Expected a picture of at most {limits.max_body} MB (--max-body) but got a larger one."
            )
        share.hold(form.held + sum(len(part.content) for part in form.parts))
        while form.parts:
            yield form.parts.popleft()
    form.finish()


def _text(value: bytes) -> str:
    """A name as browsers and curl send it: UTF-8, a quotation mark as %22."""
    try:
        return value.decode("utf-8").replace("%22", '"')
    except UnicodeDecodeError:
        raise RefusedError(400, "Expected names of fields and files in UTF-8 but got other bytes.") from None


def _not_a_form(error: Exception) -> RefusedError:
    return RefusedError(400, f"Expected multipart/form-data but could not parse it: {error}.")
