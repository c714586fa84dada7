"""`ictrl report`: what it prints, what it writes, and how it refuses."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import call


def test_the_command(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("report", "run") == 0
    assert capsys.readouterr().out == f"12 figures in {Path('run/figures')}.\nReport: {Path('run/report.html')}\n"
    shutil.copytree(run, tmp_path / "second")
    assert call("report", "run", "second") == 0
    assert capsys.readouterr().out == "Report: report.html\n"
    assert call("report", "run", "-o", "page.html", "--figures", "drawn") == 0
    assert (tmp_path / "page.html").stat().st_size < 5_000_000
    assert (tmp_path / "drawn" / "blocks.svg").exists()


def test_mistakes_are_one_line_and_exit_code_2(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, begun = tmp_path / "empty", tmp_path / "begun"
    empty.mkdir()
    begun.mkdir()
    shutil.copy(run / "config.toml", begun)
    spoiled = Path(shutil.copytree(run, tmp_path / "spoiled"))
    (spoiled / "results.json").write_text("{")
    unread = Path(shutil.copytree(run, tmp_path / "unread"))
    (unread / "review.json").write_text("[]")
    lost = Path(shutil.copytree(run, tmp_path / "lost"))
    (lost / "results.json").unlink()
    file = tmp_path / "file"
    file.write_text("")
    mistakes: dict[tuple[str | Path, ...], str] = {
        (): "Expected at least one run but got none",
        (tmp_path / "none",): "Expected a run folder but",
        (empty,): "has no config.toml",
        (begun,): "Expected a run with a task learned but",
        (spoiled,): "Expected what ictrl wrote in",
        (unread,): "Expected what ictrl wrote in",
        (lost,): "writes it.",
        (run, run / ".." / "run"): "is named twice: leave one out.",
        (run, "-o", tmp_path / "report.pdf"): "Expected --out to be a file that ends in .html but got",
        (run, "-o", file / "report.html"): "but could not: ",
        (run, "--figures", file): "but could not: ",
    }
    for arguments, said in mistakes.items():
        assert call("report", *arguments) == 2, arguments
        captured = capsys.readouterr()
        assert said in captured.err
        assert captured.err.startswith("error: ")
        assert captured.err.count("\n") == 1
        assert captured.out == ""
    assert call("report", run, "--colour", "red") == 2


def test_a_full_disk_is_a_failure_and_no_mistake(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert call("report", run) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: Expected to read and write {run / 'report.html'} but could not: No space left")
    assert said.count("\n") == 1
