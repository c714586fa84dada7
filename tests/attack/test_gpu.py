"""What the tests on a GPU came to, as it is written and shown."""

import shutil
from pathlib import Path

import pytest

from attack import report
from attack.gpu import Counted

TESTS = """
import pytest

@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_device(device):
    pass

def test_fails():
    assert False

def test_skipped():
    pytest.skip("elsewhere")
"""


@pytest.mark.parametrize(("limit", "passed", "failed"), [(60.0, 1, 1), (-1.0, 0, 0)])
def test_tests_are_counted_until_the_time_is_over(limit: float, passed: int, failed: int, tmp_path: Path) -> None:
    counted = Counted(limit)
    (tmp_path / "test_some.py").write_text(TESTS)
    alone = ["-c", "/dev/null", "--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:jaxtyping"]
    pytest.main([*alone, str(tmp_path)], [counted])
    assert (counted.all, counted.passed, len(counted.failed)) == (3, passed, failed)


def test_the_page_says_what_was_seen_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(report.RESULTS, tmp_path / "results", ignore=lambda *_: [report.GPU.name])
    monkeypatch.setattr(report, "GPU", tmp_path / "results" / report.GPU.name)
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    rows = report.section()
    assert "On a GPU" not in rows
    report.GPU.write_text(
        '{"tests": 9, "passed": 7, "failed": ["a"], "not_played": 1, "device": "X", "versions": {"torch": "2"}}'
    )
    assert report.section().startswith(rows)
    assert "X, torch 2): of 9 tests" in report.section()
    assert "7 passed and 1 failed, 1 not played." in report.section()
