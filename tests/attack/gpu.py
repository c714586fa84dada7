"""`python -m attack.gpu`: plays the tests of learning that need a GPU, and writes what came of them."""

import argparse
import json
import sys
import time
from pathlib import Path

import pytest
import torch

from attack import report

FILES = (
    "tests/methods/test_learning_aside.py",
    "tests/training/test_graphs.py",
    "tests/methods/test_recorded_steps.py",
)
PLAIN = ("-q", "-o", "addopts=", "-o", "filterwarnings=default", "-p", "no:cacheprovider", "--durations=8")
"""pytest with no plugin that a machine with a GPU may lack."""


class Counted:
    """What tests came to; none is begun after the limit."""

    def __init__(self, limit: float) -> None:
        self.end, self.all = time.monotonic() + limit, 0
        self.passed, self.skipped, self.failed = 0, 0, list[str]()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Those of a CPU are played elsewhere."""
        items[:] = [item for item in items if "[cpu" not in item.name]
        self.all = len(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed
        self.skipped += report.skipped
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if time.monotonic() > self.end:
            item.session.shouldstop = "the time is over"
            pytest.skip("the time is over")


def main() -> int:
    """0 if all passed or there is no GPU, 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m attack.gpu", description=__doc__)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which no further test is begun")
    parser.add_argument("--out", type=Path, default=report.GPU, help="the file that is written")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("No GPU here: nothing was played.", file=sys.stderr)
        return 0
    begun, counted = time.monotonic(), Counted(given.limit)
    pytest.main([*PLAIN, f"--rootdir={report.ROOT}", *(str(report.ROOT / name) for name in FILES)], plugins=[counted])
    found = {
        "tests": counted.all,
        "passed": counted.passed,
        "failed": counted.failed,
        "not_played": counted.all - counted.passed - len(counted.failed),
        "seconds": round(time.monotonic() - begun, 1),
        "device": torch.cuda.get_device_name(),
        "versions": report.versions(),
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if given.out == report.GPU:
        report.write_section()
    return 1 if counted.failed or not counted.passed else 0


if __name__ == "__main__":
    sys.exit(main())
