"""JSON that is read back: bounded, typed, and what is wrong with it in one line with its place."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from ictrl.errors import InputError, UserError
from ictrl.typed_json import check_plain, noted, parse_json, read_json, typed


@dataclass(frozen=True)
class Inner:
    share: float
    names: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outer:
    inner: Inner | None
    rows: list[list[float | None]]
    kind: Literal["a", "b"] = "a"


def test_a_table_becomes_a_dataclass() -> None:
    found = typed({"inner": {"share": 1, "names": {"-3": "three"}}, "rows": [[1, None]]}, Outer)
    assert found == Outer(Inner(1.0, {-3: "three"}), [[1.0, None]])
    assert typed({"inner": None, "rows": []}, Outer).inner is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "expected a table but got a list"),
        ({"rows": []}, "inner: expected an entry but got none"),
        ({"inner": None, "rows": [], "more": 1}, "more: expected no such entry"),
        ({"inner": {"share": "x"}, "rows": []}, "inner.share: expected a number but got a text"),
        ({"inner": {"share": True}, "rows": []}, "inner.share: expected a number but got true or false"),
        ({"inner": 3, "rows": []}, "inner: expected a table or null but got a whole number"),
        (
            {"inner": {"share": 1, "names": {"x": ""}}, "rows": []},
            "inner.names.x: expected the key to be a",
        ),
        ({"inner": {"share": 1, "names": {"9" * 40: ""}}, "rows": []}, "expected the key to be a whole number"),
        ({"inner": None, "rows": [[1], [None, "x"]]}, "rows.1.1: expected a number or null but got a text"),
        ({"inner": None, "rows": {}}, "rows: expected a list but got a table"),
        ({"inner": None, "rows": [], "kind": "c"}, "kind: expected 'a' or 'b' but got a text"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        typed(value, Outer)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "more than 64 deep"),
        ("[" * 66 + "]" * 66, "more than 64 deep"),
        (f"[{2**63}]", "a whole number of more than 64 bits"),
        (f"[{'9' * 5000}]", "."),
        ("[1e999]", "a number that is not finite"),
        ("[NaN]", "NaN, which is no number in JSON"),
        ("[-Infinity]", "-Infinity, which is no number in JSON"),
        ("[1,]", "."),
        (b"\xff\xfe\xfd", "no UTF-8|."),
        ("", "."),
    ],
)
def test_what_is_no_json_of_ours_is_refused_in_a_line(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse_json(text)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, UserError)


def test_as_deep_and_as_large_as_anything_of_ours() -> None:
    assert parse_json("[" * 60 + "]" * 60)
    assert parse_json(f"[{2**63 - 1}, {-(2**63)}]") == [2**63 - 1, -(2**63)]
    check_plain([float("nan")], finite=False)


def test_files_are_regular_and_within_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text('{"a": 1}')
    assert read_json(tmp_path / "a.json") == {"a": 1}
    monkeypatch.setenv("ICTRL_MAX_TEXT_BYTES", "7")
    with pytest.raises(InputError, match=r"could not read it: 8 bytes of text, above .*ICTRL_MAX_TEXT_BYTES"):
        read_json(tmp_path / "a.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InputError, match=r"could not read it: a pipe, and no regular file\."):
        read_json(tmp_path / "pipe.json")
    with pytest.raises(InputError, match="could not read it: No such file"):
        read_json(tmp_path / "absent.json")


def test_notes_are_read_by_their_types() -> None:
    assert noted({"names": '{"3": "cat"}'}, "names", dict[int, str], {}) == {3: "cat"}
    assert noted({}, "names", dict[int, str], {}) == {}
    for text in ("[]", '{"3": 4}', "{", '{"x": "cat"}', "[" * 9999):
        with pytest.raises(InputError, match=r"its 'names' has "):
            noted({"names": text}, "names", dict[int, str], {})


@pytest.mark.parametrize("end", ["\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
def test_an_error_is_one_line_whatever_name_it_quotes(end: str) -> None:
    line = str(InputError(f"Expected a class but got cat{end}error: dog."))
    assert len(line.splitlines()) == 1
    assert len(str(InputError("x" * 100_000))) < 11_000
