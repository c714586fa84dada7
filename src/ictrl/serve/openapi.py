"""The description of the service that it gives itself (GET /openapi.json), route by route."""

from functools import cache
from typing import Any

import ictrl
from ictrl.serve.drawings import FURTHEST, MOST_SAMPLES
from ictrl.serve.queries import MOST_SEED
from ictrl.serve.schemas import EXAMPLES, SCHEMAS, Schema, named
from ictrl.serve.served import HELD_OUT

ABOUT = """A learner that predicts, is taught new classes while it predicts, forgets, and goes back to kept versions.

An error is `{"error": "one line"}`. 400 and 415: what was sent; 401 and 403: access; 404: no such path, class or
version; 405: another method; 408: the body came too slowly; 409: this learner cannot do that, or not now; 413: too
large, and the line names the option of `ictrl serve` that says how large it may be; 503: too much at once, with
Retry-After; 500: a failure of the server."""
BINARY: Schema = {"type": "string", "format": "binary"}
SHARE: Schema = {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
COUNT: Schema = {"type": "integer", "minimum": 1}
SEED: Schema = {"type": "integer", "minimum": 0, "maximum": MOST_SEED, "default": 0}
ALWAYS = (400, 401, 403, 405, 500, 503)  # of every route but those that need no token


def _json(schema: str, about: str) -> dict[str, Any]:
    content = {"application/json": {"schema": named(schema), "example": EXAMPLES[schema]}}
    return {"description": about, "content": content}


def _text(kind: str, about: str) -> dict[str, Any]:
    return {"description": about, "content": {kind: {"schema": {"type": "string"}}}}


def _png(about: str) -> dict[str, Any]:
    return {"description": about, "content": {"image/png": {"schema": BINARY}}}


def _in(where: str, name: str, schema: Schema, about: str, required: bool = False) -> dict[str, Any]:
    return {"in": where, "name": name, "schema": schema, "description": about, "required": required or where == "path"}


def _route(
    about: str, answer: dict[str, Any], *parameters: dict[str, Any], errors: tuple[int, ...] = (), **more: Any
) -> dict[str, Any]:
    failed = _json("Error", "refused, or failed")
    answers = {"200": answer, **{str(status): failed for status in sorted({*ALWAYS, *errors})}}
    return {"summary": about, "parameters": list(parameters), "responses": answers, **more}


def _form(about: str) -> dict[str, Any]:
    return {
        "schema": {"type": "object", "additionalProperties": {"type": "array", "items": BINARY}, "description": about}
    }


EVENTS = (
    "server-sent events: `begin` (Begin), `progress` (Progress) after each epoch, then one of `done` (Done), "
    "`error` (Error), `cancelled` ({})"
)
NAME = _in("path", "name", {"type": "string"}, "the name of a class, percent-encoded; a slash in it is %2F")
POINT = f"standard deviations along the directions, such as 1.5,0,-2, up to {FURTHEST:g}; none is the mean"
SAMPLES = _png("pictures row by row, about as many rows as columns")
SAMPLES["content"] |= _json("Pictures", "")["content"]
TOO_BIG = (408, 413, 415)


@cache
def described() -> dict[str, Any]:
    """The whole document."""
    predict_body = {
        "required": True,
        "content": {
            "image/*": {"schema": BINARY},
            "application/octet-stream": {"schema": BINARY},
            "multipart/form-data": _form("each file is a picture; names of fields do not matter"),
        },
    }
    teach_body = {
        "required": True,
        "content": {"multipart/form-data": _form("each file is a picture, and the name of its field its class")},
    }
    predictions = _json("Predictions", "pictures that cannot be read have an error, as long as one can be")
    unread = {"400": _json("Predictions", "no picture could be read, or something else is wrong (Error)")}
    unread["400"]["content"]["application/json"]["schema"] = {"anyOf": [named("Predictions"), named("Error")]}
    predict = _route(
        "Say which class each picture shows",
        predictions,
        _in("query", "reconstruct", {"type": "boolean"}, "add each picture as the network gets it, and as it draws it"),
        _in("query", "unknown", SHARE, "tell strangers, at this rate of false alarms (above 0)"),
        _in("query", "top", COUNT, "list no more than so many classes; all by default"),
        errors=(*TOO_BIG, 409),
        requestBody=predict_body,
    )
    predict["responses"] |= unread
    told = _text("text/event-stream", EVENTS)
    paths: dict[str, Any] = {
        "/": {"get": _route("The page", _text("text/html", "HTML"), security=[])},
        "/healthz": {"get": _route("Whether it answers", _json("Health", "it does"), security=[])},
        "/metrics": {"get": _route("Numbers for Prometheus", _text("text/plain", "its text format"))},
        "/openapi.json": {
            "get": _route(
                "This document",
                {"description": "OpenAPI 3.1", "content": {"application/json": {"schema": {"type": "object"}}}},
            )
        },
        "/classes": {"get": _route("What the learner knows and can do", _json("Learner", "its classes"))},
        "/predict": {"post": predict},
        "/teach": {
            "post": _route(
                "Learn new classes; it goes on if the client goes away",
                told,
                _in("query", "held_out", {**SHARE, "default": HELD_OUT}, "share of each class that is measured on"),
                _in("query", "seed", SEED, "chooses the pictures that are held out"),
                errors=(*TOO_BIG, 409),
                requestBody=teach_body,
            )
        },
        "/teaching": {
            "get": _route("What is being taught, and how the last teaching ended", _json("Teaching", "its state")),
            "delete": _route("Cancel it: the learner is as it was", _json("Teaching", "its state"), errors=(409,)),
        },
        "/classes/{name}": {
            "delete": _route(
                "Forget a class",
                _json("Forgotten", "and what may remain of it"),
                NAME,
                _in("query", "versions", {"enum": ["keep", "remove"], "default": "keep"}, "kept versions that know it"),
                errors=(404, 409),
            )
        },
        "/classes/{name}/samples": {
            "get": _route(
                "Pictures of a class, replayed from memory; as JSON with `Accept: application/json`",
                SAMPLES,
                NAME,
                _in("query", "n", {**COUNT, "maximum": MOST_SAMPLES, "default": 16}, "how many"),
                _in("query", "direction", {"type": "integer", "minimum": 0}, "along one principal direction only"),
                _in("query", "seed", SEED, "the same pictures for the same number"),
                _in(
                    "query", "of", {"type": "string"}, "an earlier learner, by its id, instead of that which is served"
                ),
                errors=(404, 409),
            )
        },
        "/classes/{name}/earlier": {
            "get": _route(
                "The learners of earlier tasks and kept versions that knew the class, the oldest first",
                _json("Earlier", "each with the id by which samples asks for it"),
                NAME,
                errors=(404, 409),
            )
        },
        "/classes/{name}/directions": {
            "get": _route(
                "The directions in which a class varies, the widest first, with standard deviations",
                _json("Directions", "as many as there are"),
                NAME,
                errors=(404, 409),
            )
        },
        "/classes/{name}/picture": {
            "get": _route(
                "The picture of one point of a class, brought back to the unit sphere before it is decoded",
                _png("the picture, as small as the network draws it"),
                NAME,
                _in("query", "at", {"type": "string"}, POINT),
                errors=(404, 409),
            )
        },
        "/versions": {"get": _route("The kept versions", _json("Versions", "newest first"))},
        "/versions/{version}": {
            "post": _route(
                "Make a kept version the learner",
                _json("Learner", "as GET /classes"),
                _in("path", "version", {"type": "integer"}, "its number"),
                errors=(404, 409),
            )
        },
        "/affinity": {
            "get": _route(
                "How every two classes lie to each other", _json("Affinity", "a row per class"), errors=(409,)
            )
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "ictrl serve", "version": ictrl.__version__, "description": ABOUT},
        "security": [{}, {"token": []}],
        "components": {"schemas": SCHEMAS, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": paths,
    }
