"""docs/serve.md says what is true: its examples run, its defaults are the defaults, its routes are the routes."""

import io
import re
import shlex
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve_support import Client, encoded, form, of
from support import ROOT, call, pictures, script

from ictrl.serve.bounds import Limits

PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8642"
Serve = Callable[..., Client]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def here(wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the pictures that the page speaks of."""
    monkeypatch.chdir(tmp_path)
    for name, label in (("cat", 0), ("dog", 1)):
        Path(f"{name}.png").write_bytes(encoded(pictures([label], each=1, seed=4)[0][0]))
    for i, content in enumerate(of(3, 20)):
        Path(f"fox-{i + 1}.png").write_bytes(content)
    return tmp_path


def curl(client: Client, command: str) -> httpx.Response:
    """What curl would send."""
    words, sent, files, headers = iter(shlex.split(command)), {}, [], {}
    url = ""
    assert next(words) == "curl"
    for word in words:
        if word == "-F":
            name, _, file = next(words).partition("=@")
            files.append((name, (file, Path(file).read_bytes(), "image/png")))
        elif word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        elif word == "--data-binary":
            sent["content"] = Path(next(words).removeprefix("@")).read_bytes()
        elif word != "-N":
            assert word.startswith(ADDRESS), word
            url = word.removeprefix(ADDRESS)
    how: dict[str, Any] = {**sent, "headers": headers, **({"files": files} if files else {})}
    return client.request("POST" if files or sent else "GET", url, **how)


def test_the_commands(here: Path, wide: Path, serve: Serve) -> None:
    client = serve(wide)
    asked, taught = (block.strip().splitlines() for block in blocks("bash"))
    for command, n in zip(asked, (1, 2, 1, 0), strict=True):
        answer = curl(client, command)
        assert answer.status_code == 200, answer.text
        assert len(answer.json().get("predictions", [])) == n
    found = curl(client, asked[1]).json()["predictions"]
    assert [(one["class"], one["unknown"], len(one["classes"])) for one in found] == [
        ("cat", False, 3),
        ("dog", False, 3),
    ]
    command = taught[0].replace(" …", "".join(f" -F fox=@fox-{i}.png" for i in range(3, 21)))
    assert "event: done" in curl(client, command).text


def test_the_python(
    here: Path, wide: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = serve(wide)
    code, own = blocks("python")

    class Here(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            headers = {name: value for name, value in request.headers.items() if name != "host"}
            answer = client.request(
                request.method, request.url.raw_path.decode(), content=request.read(), headers=headers
            )
            return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    real = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **how: real(**how, transport=Here()))
    exec(compile(code, "docs/serve.md", "exec"), {"open": lambda name, mode: io.BytesIO(Path(name).read_bytes())})
    lines = capsys.readouterr().out.splitlines()
    assert "'name': 'fox', 'images': 16, 'held_out': 4" in lines[0]
    assert lines[1:] == ["cat", "['forgot a class', 'taught fox', 'as it was found']"]
    assert [row["name"] for row in client.get("/classes").json()["classes"]][-1] == "fox"
    names: dict[str, Any] = {}
    exec(compile(own, "docs/serve.md", "exec"), names)
    assert names["application"].core.host.now.version == 2


def test_the_defaults() -> None:
    section = PAGE.partition("## Limits")[2].partition("\n## ")[0]
    found: dict[str, str] = {}
    for row in re.findall(r"^\| (`--.*)$", section, flags=re.MULTILINE):
        options, defaults = row.split(" | ")[:2]
        names = re.findall(r"`--([a-z-]+)`", options)
        found |= dict(zip(names, defaults.split(", "), strict=True))
    own = {field.name.replace("_", "-"): f"{getattr(Limits(), field.name):,g}" for field in fields(Limits)}
    assert found == {**own, "max-teaching-pictures": "20,000", "max-connections": "1,024", "threads": "all cores"}


def test_forgetting_by_command_names_the_versions_that_are_kept(
    wide: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    client = serve(wide)
    assert "event: done" in client.post("/teach", files=form(fox=of(3))).text
    capsys.readouterr()
    assert call("forget", wide, "fox", "--yes") == 0
    kept = wide.with_suffix(".versions")
    assert f"- all of fox, in 1 version that `ictrl serve` keeps in {kept}\n" in capsys.readouterr().out


def test_what_was_measured_is_what_the_files_say() -> None:
    publish = script("publish_serve")
    assert publish.with_measured(PAGE) == PAGE
    assert publish.measured() in PAGE
