"""Limits on what files may ask for, and regular files only."""

import os
import socket
import tracemalloc
from pathlib import Path

import pytest

from ictrl.errors import ConfigError, InputError
from ictrl.limits import LIMITS, PIXELS, open_regular, unpacks_too_much


def test_a_variable_overrides_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "ICTRL_MAX_PIXELS" in PIXELS.exceeded(50_000_001)
    monkeypatch.setenv("ICTRL_MAX_PIXELS", "100_000_000")
    assert PIXELS.exceeded(50_000_001) == ""
    monkeypatch.setenv("ICTRL_MAX_PIXELS", "")
    assert PIXELS.value == PIXELS.default


@pytest.mark.parametrize("given", ["many", "-1", "1e9", "٣", "9" * 5000])
def test_a_limit_that_is_no_number_is_refused_by_name(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICTRL_MAX_PIXELS", given)
    with pytest.raises(ConfigError, match="Expected ICTRL_MAX_PIXELS to be a whole number"):
        _ = PIXELS.value


def test_every_limit_has_a_variable_of_its_own() -> None:
    variables = [limit.variable for limit in LIMITS]
    assert len(set(variables)) == len(variables)
    assert all(variable.startswith("ICTRL_MAX_") for variable in variables)


def test_a_large_file_may_be_unpacked_to_more_than_a_small_one() -> None:
    assert "ICTRL_MAX_UNPACKED_BYTES" in unpacks_too_much(3_000_000, 3_000_000_000)
    assert unpacks_too_much(1_000_000_000, 3_000_000_000) == ""
    assert unpacks_too_much(1_000, 1_000_000) == ""


def test_only_regular_files_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    for name, what in {"pipe": "a pipe", "socket": "a socket", "/dev/zero": "a device"}.items():
        with pytest.raises(InputError, match=f"{what}, and no regular file"):
            open_regular(tmp_path / name)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "absent")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"content"


def test_the_table_of_limits_has_every_limit() -> None:
    page = (Path(__file__).parents[1] / "docs" / "untrusted-files.md").read_text("utf-8")
    for limit in LIMITS:
        assert f"| `{limit.variable}` | {limit.default:,} |" in page


def test_no_more_is_allocated_than_there_is_to_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(200_000))
    tracemalloc.start()
    try:
        with open_regular(tmp_path / "file") as file:
            assert len(file.read(3)) == 3
            assert len(file.read(2**33)) == 199_997
            assert file.read(2**33) == b""
            file.seek(0)
            assert len(file.read()) == 200_000
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
