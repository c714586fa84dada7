"""Fixtures of the data room."""

from pathlib import Path

import pytest
from official import Official


@pytest.fixture
def official(tmp_path: Path) -> Official:
    return Official(tmp_path)
