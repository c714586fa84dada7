"""The script that measures how well strangers are told, on digits against noise."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_support import quick

import ictrl

SCRIPT = Path(__file__).parents[2] / "experiments" / "unknown.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("script_unknown", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_digits_against_noise(script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = {"calibration": {"held_out": 0.3}, "reading": {"pool": 2}}  # 16 features: enough to tell noise by
    ictrl.run(quick("wide", method=changes, stream={"task_sizes": [5, 5], "limit": 60}), tmp_path / "run")
    noise = np.random.default_rng(0).integers(0, 256, (50, 8, 8), dtype=np.uint8)
    labels = np.arange(50) % 2
    np.savez(tmp_path / "noise.npz", images=noise, labels=labels, test_images=noise, test_labels=labels)
    where = ["--strangers-root", str(tmp_path / "noise.npz"), "--device", "cpu", "--out", str(tmp_path / "out.json")]
    script.main([str(tmp_path / "run"), "--strangers", "npz", *where])
    found = json.loads((tmp_path / "out.json").read_text())
    assert "AUROC" in capsys.readouterr().out
    assert found["auroc"] > 0.9
    assert found["detections"] > found["false_alarms"]
    assert 0 <= found["ece"] <= 1
    assert 0 <= found["false_alarms"] < 0.3
    assert (found["asked_false_alarms"], found["stranger_images"], found["measured_on"]) == (0.05, 50, "test images")
    assert len(found["auroc_of_others"]) == 5
    assert all(0 <= value <= 1 for value in found["auroc_of_others"].values())
    assert {"seed", "device", "versions", "recipe", "temperature", "accuracy"} <= set(found)
    assert found["recipe"]["method"]["name"] == "wide"


def test_a_method_that_gives_no_probabilities_is_refused(script: Any, tmp_path: Path) -> None:
    ictrl.run(quick("finetune"), tmp_path / "run")
    with pytest.raises(ictrl.InputError, match="a method that can give probabilities"):
        script.main([str(tmp_path / "run"), "--strangers", "digits", "--out", str(tmp_path / "out.json")])
    assert not (tmp_path / "out.json").exists()
