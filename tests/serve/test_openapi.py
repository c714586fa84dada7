"""The service's own description is true: every route, and what really comes back."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serve_support import Client, events, form, of

from ictrl.serve.app import ENDPOINTS
from ictrl.serve.class_routes import ROUTES
from ictrl.serve.openapi import described
from ictrl.serve.schemas import EXAMPLES, SCHEMAS

Serve = Callable[..., Client]
KINDS: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def valid(value: Any, schema: dict[str, Any], where: str = "") -> None:
    """As much of JSON Schema as is used; unknown words are refused."""
    assert set(schema) <= {"type", "properties", "required", "additionalProperties", "items", "anyOf", "$ref"}, where
    if "$ref" in schema:
        return valid(value, SCHEMAS[schema["$ref"].removeprefix("#/components/schemas/")], where)
    if "anyOf" in schema:
        for one in schema["anyOf"]:
            try:
                return valid(value, one, where)
            except AssertionError:
                continue
        raise AssertionError(f"{where}: {value!r} is none of {schema['anyOf']}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if schema["type"] in ("integer", "number"):
        assert number, f"{where}: {value!r}"
        assert schema["type"] == "number" or isinstance(value, int), f"{where}: {value!r}"
        return None
    assert isinstance(value, KINDS[schema["type"]]), f"{where}: {value!r} is no {schema['type']}"
    if isinstance(value, list):
        for i, item in enumerate(value):
            valid(item, schema["items"], f"{where}[{i}]")
    if isinstance(value, dict):
        assert set(schema.get("required", ())) <= set(value), f"{where}: {sorted(value)}"
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            assert inner, f"{where}: {key} is not described"
            valid(item, inner, f"{where}.{key}")
    return None


def test_every_route_is_there_and_no_other() -> None:
    routes = {(path, method) for path, endpoints in ENDPOINTS for method in endpoints if "rest" not in path}
    routes |= {(f"/classes/{{name}}{'/' + what if what else ''}", method) for method, what in ROUTES}
    found = described()["paths"]
    assert {(path, method.upper()) for path, methods in found.items() for method in methods} == routes


def test_examples_are_what_they_are_examples_of() -> None:
    assert set(EXAMPLES) == set(SCHEMAS)
    for name, example in EXAMPLES.items():
        valid(example, SCHEMAS[name], name)
    with pytest.raises(AssertionError, match="version"):
        valid({**EXAMPLES["Forgotten"], "version": "9"}, SCHEMAS["Forgotten"])
    with pytest.raises(AssertionError, match="more is not described"):
        valid({**EXAMPLES["Forgotten"], "more": 1}, SCHEMAS["Forgotten"])


def test_references_lead_somewhere_and_parameters_of_paths_are_there() -> None:
    document = described()
    for name in re.findall(r"#/components/schemas/(\w+)", str(document)):
        assert name in SCHEMAS
    for path, methods in document["paths"].items():
        for route in methods.values():
            there = {one["name"] for one in route["parameters"] if one["in"] == "path"}
            assert there == set(re.findall(r"{(\w+)}", path))
            assert "200" in route["responses"]


def test_what_comes_back_is_as_described(drawing: Path, wide: Path, serve: Serve) -> None:
    client = serve(drawing)
    document = client.get("/openapi.json").json()
    assert document == described()

    def check(path: str, template: str = "", method: str = "get", status: int = 200, **how: Any) -> Any:
        answer = client.request(method.upper(), path, **how)
        assert answer.status_code == status, answer.text
        about = document["paths"][template or path.partition("?")[0]][method]["responses"][str(status)]
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in about["content"], path
        if kind == "application/json":
            schema = about["content"][kind]["schema"]
            if schema != {"type": "object"}:
                valid(answer.json(), schema, path)
        return answer

    for path in ("/", "/healthz", "/metrics", "/openapi.json", "/classes", "/versions", "/affinity", "/teaching"):
        check(path)
    check("/predict?reconstruct=1", method="post", files=form(a=[of(0, 1)[0], b"none"]))
    check("/predict", method="post", status=400, files=form(a=[b"none"]))
    check("/predict", method="post", status=415, content=b"x", headers={"content-type": "text/plain"})
    check("/predict?unknown=0.05", method="post", status=409, files=form(a=of(0, 1)))
    said = events(check("/teach", method="post", files=form(newt=of(3))).text)
    for kind, data in said:
        valid(data, SCHEMAS[kind.capitalize()], kind)
    assert {kind for kind, _ in said} == {"begin", "progress", "done"}
    check("/teaching")  # with the last one
    check("/teaching", method="delete", status=409)
    check("/classes/cat/samples", "/classes/{name}/samples")
    check("/classes/cat/samples?n=2", "/classes/{name}/samples", headers={"accept": "application/json"})
    check("/classes/cat/earlier", "/classes/{name}/earlier")
    check("/classes/nobody/earlier", "/classes/{name}/earlier", status=404)
    check("/classes/cat/directions", "/classes/{name}/directions")
    check("/classes/cat/picture?at=1,-2", "/classes/{name}/picture")
    check("/classes/nobody/picture", "/classes/{name}/picture", status=404)
    check("/classes/newt", "/classes/{name}", "delete")
    check("/versions/1", "/versions/{version}", "post")
    check("/versions/77", "/versions/{version}", "post", status=404)
    client = serve(wide)
    check("/predict?unknown=0.05", method="post", files=form(a=of(0, 1)))
    check("/affinity")
