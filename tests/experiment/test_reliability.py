"""The calibration error of a run: measured after the last task of methods that give probabilities, and reported."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from run_support import quick

import ictrl
from ictrl import Results
from ictrl.experiment.run_data import stream_of
from ictrl.report import write_report
from ictrl.theory.metrics import reliability

RECIPE = quick(
    "wide",
    method={"calibration": {"held_out": 0.3}, "reading": {"pool": 1}},
    stream={"task_sizes": [5, 5], "limit": 30},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wide") / "run"
    ictrl.run(RECIPE, out)
    return out


def test_the_calibration_error_is_that_of_all_test_images(folder: Path) -> None:
    results = Results.read(folder / "results.json")
    learner: Any = ictrl.load_learner(folder / "checkpoint" / "after-task-002.safetensors", device="cpu")
    _, tasks = stream_of(RECIPE)
    images, labels = (torch.cat(parts) for parts in zip(*((task.test_images, task.test_labels) for task in tasks)))
    expected = reliability(learner.predict_proba(images), labels)  # ten digits: a label is its own row
    assert results.calibration is not None
    assert results.calibration.ece == pytest.approx(expected.ece, abs=1e-6)
    assert results.calibration.temperature == pytest.approx(learner.temperature(), abs=1e-6)
    assert [entry[0] for entry in results.calibration.reliability] == expected.images
    assert len(expected.images) == 15


def test_measured_again_it_is_the_same(folder: Path) -> None:
    assert ictrl.evaluate(folder, device="cpu").calibration == Results.read(folder / "results.json").calibration


def test_a_file_without_it_is_read(folder: Path) -> None:
    table = json.loads((folder / "results.json").read_text())
    del table["calibration"]
    assert Results.from_table(table).calibration is None


def test_other_methods_have_none(tmp_path: Path) -> None:
    assert ictrl.run(quick("finetune"), tmp_path / "run").results.calibration is None


def test_the_report_draws_it(folder: Path, tmp_path: Path) -> None:
    written = write_report([folder], tmp_path / "page.html", tmp_path / "figures")
    found = Results.read(folder / "results.json").calibration
    assert found is not None
    assert "reliability" in {path.stem for path in written.figures}
    page = written.page.read_text(encoding="utf-8")
    assert f"expected calibration error {found.ece:.3f}, temperature {found.temperature:.2f}" in page
    assert 'data-key="calibration.ece"' in page
