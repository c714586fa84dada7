"""Who may ask, by which name, from which page."""

from collections.abc import Callable
from pathlib import Path

import pytest
from serve_support import Client, form, line_of, of

from ictrl import InputError
from ictrl.serve.access import check_token, is_loopback

Serve = Callable[..., Client]
TOKEN = "correct-horse-battery"


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        *(("localhost", True), ("LOCALHOST:8642", True), ("127.0.0.1:80", True), ("[::1]:8642", True), ("[::1]", True)),
        *(
            ("evil.example", False),
            ("127.0.0.1.evil.example", False),
            ("localhost.evil.example:8642", False),
            ("", False),
        ),
        *(("evil.example:127", False), ("192.168.0.7:8642", False)),
    ],
)
def test_on_this_machine_it_is_called_by_a_name_of_this_machine(
    wide: Path, serve: Serve, host: str, allowed: bool
) -> None:
    """A page whose name was made to lead here (DNS rebinding) reads nothing."""
    answer = serve(wide).get("/classes", headers={"host": host})
    assert answer.status_code == (200 if allowed else 403)
    assert allowed or "--public-name" in line_of(answer)


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"origin": "http://localhost"}, True),
        ({"origin": "https://localhost"}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "http://localhost:8000"}, False),
        ({"origin": "null"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
    ],
)
def test_pages_of_others_change_nothing(wide: Path, serve: Serve, headers: dict[str, str], allowed: bool) -> None:
    client, before = serve(wide), wide.read_bytes()
    answer = client.delete("/classes/cat", headers=headers)
    assert answer.status_code == (200 if allowed else 403)
    assert (wide.read_bytes() == before) is not allowed
    asked = client.post("/predict", files=form(a=of(1, 1)), headers=headers)
    assert asked.status_code == (200 if allowed else 403)


def test_with_a_token_only_health_and_the_page_are_open(wide: Path, serve: Serve) -> None:
    client = serve(wide, token=TOKEN)
    assert client.get("/healthz").status_code == 200
    assert client.get("/").status_code == 200
    assert client.get("/static/index.html").status_code == 200
    for path in ("/classes", "/metrics", "/openapi.json", "/versions", "/classes/cat/samples", "/nothing", "/healthz/"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
        assert TOKEN not in line_of(answer)
    good = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/classes", headers=good).status_code == 200
    assert client.post("/predict", files=form(a=of(0, 1)), headers=good).status_code == 200
    for wrong in (f"bearer  {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer", f"Bearer {TOKEN[:-1]}", "Bearer \xff\xfe"):
        sent = [(b"authorization", wrong.encode("latin-1"))]
        assert client.get("/classes", headers=sent).status_code == 401, wrong
    twice = [(b"authorization", f"Bearer {TOKEN}".encode())] * 2
    assert client.get("/classes", headers=twice).status_code == 401
    evil = {**good, "origin": "http://evil.example"}
    assert client.delete("/classes/cat", headers=evil).status_code == 403  # a token does not excuse a foreign page


def test_a_public_name(wide: Path, serve: Serve) -> None:
    client = serve(wide, token=TOKEN, names=("localhost", "pictures.example.org"))
    good = {
        "authorization": f"Bearer {TOKEN}",
        "host": "pictures.example.org",
        "origin": "https://pictures.example.org",
    }
    assert client.delete("/classes/cat", headers=good).status_code == 200
    assert client.get("/classes", headers={**good, "host": "other.example.org"}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/healthz", "/classes", "/nothing", "/static/nothing"])
def test_every_answer_has_the_security_headers(wide: Path, serve: Serve, path: str) -> None:
    headers = serve(wide).get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy  # no outside request
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


def test_the_page_asks_nobody_else(wide: Path, serve: Serve) -> None:
    client = serve(wide)
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "<script>" not in page.text  # what the policy would not let run
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2f..%2fapp.py", "/static//etc/passwd"):
        assert client.get(path).status_code == 404, path
    for path in ("/static/%00", "/classes/%01", "/a%0d%0ab"):
        assert (client.get(path).status_code, bool(line_of(client.get(path)))) == (400, True), path


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods(wide: Path, serve: Serve, method: str) -> None:
    client = serve(wide)
    for path in ("/classes", "/predict", "/classes/cat/samples"):
        answer = client.request(method, path)
        assert (answer.status_code, bool(answer.headers["allow"])) == (405, True)
        line_of(answer)


def test_tokens_that_could_be_guessed_are_refused() -> None:
    check_token(TOKEN)
    for token in ("", "short", "x" * 15, "with spaces in it at all", "é" * 20, "line\nbreak" * 3):
        with pytest.raises(InputError, match="at least 16 printable ASCII"):
            check_token(token)


def test_which_addresses_are_this_machine() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "localhost", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.org", "localhost.example.org", "")))
