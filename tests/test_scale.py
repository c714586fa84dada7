"""What is said about scale: the cost model counts what there is to do, and its benchmarks run."""

import json
from pathlib import Path

import pytest
import torch
from support import script

from ictrl.config import NetworkConfig
from ictrl.data.image_file import open_arrays
from ictrl.memory.wide_memory import nothing_yet

MODEL, COST, STREAMING = script("cost_model"), script("cost"), script("streaming")
PUBLISH = script("publish_scale")


def test_a_pass_is_counted_as_by_hand() -> None:
    found = MODEL.pass_of(NetworkConfig(image_size=32, width=64, feature_dim=128))
    assert found.flops == 2 * (256 * 48 * 64 + 64 * 1024 * 128 + 16 * 2048 * 256 + 4096 * 128)
    assert found.parameters == 1_183_488


def test_constants_that_made_times_are_found_again() -> None:
    work = [[1.0, n * 10.0**9, n * d**2.0] for n in (1, 4, 9) for d in (10, 30)]
    seconds = [MODEL.cost(row, [2e-3, 3e-12, 5e-6]) for row in work]
    assert MODEL.fitted(work, seconds) == pytest.approx([2e-3, 3e-12, 5e-6], rel=1e-6)


def test_no_kind_of_work_takes_less_than_no_time() -> None:
    assert min(MODEL.fitted([[1.0, 2.0], [1.0, 4.0]], [2.0, 1.0])) == 0


def test_more_gpus_share_what_grows_with_images() -> None:
    run = MODEL.WideRun(NetworkConfig(), 5, 1000, 100, 2, epochs=10, batch=100, D=64, views=2)
    trunk, reading = [1e-3, 1e-12, 0.0], [1e-12, 0.0, 0.0, 1e-9]
    one, eight = (MODEL.wide_seconds(run, trunk, reading, gpus) for gpus in (1, 8))
    steps = 10 * 10
    assert eight["first task"] - steps * 1e-3 == pytest.approx((one["first task"] - steps * 1e-3) / 8)
    assert eight["reading"] > 5 * 64**3 * 1e-9  # a covariance is factorised by each


def test_test_images_are_read_once_as_far_as_they_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    run = MODEL.WideRun(NetworkConfig(), 5, 1000, 100, 2, epochs=1, batch=100, D=64, views=2)
    assert MODEL.judged_images(run) == 500
    monkeypatch.setattr(MODEL.ReadBefore, "most", 2 * 100 * 64 * 4)
    assert MODEL.judged_images(run) == 100 * (1 + 1 + 3 + 2 + 1)  # tasks 3, 4 and 5 after each task from their own on
    monkeypatch.setattr(MODEL.ReadBefore, "most", 0)
    assert MODEL.judged_images(run) == 100 * 15


def test_bytes_kept_are_those_of_a_memory() -> None:
    phi = torch.randn(60, 12, generator=torch.Generator().manual_seed(0))
    memory = nothing_yet(phi.device).with_classes(phi, torch.arange(60) % 3)
    kept = sum(tensor.numel() * tensor.element_size() for tensor in memory.tensors().values())
    assert MODEL.wide_kept_bytes(3, 12) == kept + 3 * 8  # and a label of each class


def test_the_game_is_predicted_from_other_steps() -> None:
    """As the page has it: within a quarter."""
    speed = json.loads((Path(COST.DOCS) / "speed.json").read_text())
    for check in COST.game(speed)["checks"]:
        assert check["predicted"] == pytest.approx(check["measured"], rel=0.25)


def test_the_cost_benchmark_measures_and_compares() -> None:
    trunks = [COST.trunk_row(32, 4, batch, "cpu") for batch in (10, 30)]
    readings = [COST.reading_row(32, 4, 1, 0, n, "cpu") for n in (60, 120)]
    known = COST.constants(trunks, readings)
    assert sum(known["trunk"]) > 0
    ((name, run),) = COST.SMALL.runs.items()
    found = COST.checked(COST.measured_run(name, run, "cpu"), known)
    assert set(found["measured"]) == set(found["predicted"])
    assert found["measured"]["whole"] > found["measured"]["learn"] > 0


def test_images_in_a_file_are_timed_beside_those_in_memory(tmp_path: Path) -> None:
    STREAMING.write_images(tmp_path / "images", 30)
    assert open_arrays(tmp_path / "images")["images"].shape == (30, 3, 64, 64)
    STREAMING.UNSETTLED = 1
    STREAMING.SPEED["best-imagenet50"]["network"] = {"width": 2}
    found = STREAMING.speed(n=100, epochs=2, device="cpu", recipes=["best-imagenet50"])["best-imagenet50"]
    assert 0 < found["ratio"] < 10
    assert found["streamed_images_per_second"] > 0


def test_memory_of_a_run_is_watched() -> None:
    settings = STREAMING.SMALL | {"method.network.width": 2, "method.reading.pool": 1}
    (row,) = STREAMING.memory([400], "always", "pictures", settings)
    assert row["pictures"] == 400
    assert 0.1 < row["in_use_gigabytes"] < 2
    assert row["last"] > 0.05


def test_the_pages_are_those_of_the_files() -> None:
    text = PUBLISH.LARGE.read_text("utf-8")
    assert PUBLISH.with_measured(text) == text, "run python experiments/publish_scale.py"
    assert PUBLISH.PAGE.read_text("utf-8") == PUBLISH.page(), "run python experiments/publish_scale.py"


def test_what_is_measured_of_the_model_becomes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = {"trunk": [1e-3, 1e-14, 1e-12], "reading": [1e-14, 1e-12, 1e-14, 1e-13], "bytes_per_activation": 8.0}
    run = MODEL.WideRun(NetworkConfig(), 5, 1000, 100, 2, epochs=10, batch=100, D=64, views=2)
    parts = MODEL.wide_seconds(run, constants["trunk"], constants["reading"])
    learned = parts["first task"] + parts["reading"]
    measured = {"learn": learned / 1.1, "measure": 1.0, "whole": sum(parts.values()), "gigabytes": 0.0}
    predicted = {"learn": learned, "measure": 1.0, "whole": sum(parts.values()), "gigabytes": 0.0}
    found = {
        "device": "cuda, some GPU",
        "versions": {"torch": "2", "ictrl": "0"},
        "constants": constants,
        "checks": [{"name": "a run", "measured": measured, "predicted": predicted}],
        "game": COST.game(json.loads((Path(COST.DOCS) / "speed.json").read_text())),
    }
    (tmp_path / "cost.json").write_text(json.dumps(found))
    monkeypatch.setattr(PUBLISH, "RESULTS", tmp_path)
    page = PUBLISH.page()
    assert "| a run: learning |" in page
    assert "| +10 % |" in page
    assert "ImageNet-1k in 100 tasks: by the model, not run" in page
    assert "64 | " in page
    (tmp_path / "cost-cpu.json").write_text(json.dumps({**found, "device": "cpu, some CPU"}))
    page = PUBLISH.page()
    assert page.count("| a run: learning |") == 2
    assert page.count("| the game in five tasks |") == 1
    (tmp_path / "cost.json").unlink()
    page = PUBLISH.page()
    assert page.count("| a run: learning |") == 1
    assert "benchmarks/cost.py --out docs/results/scale/cost.json" in page
    assert "by the model, not run" not in page  # nothing is said of GPUs by what a CPU did
    predicted["learn"] *= 2
    (tmp_path / "cost.json").write_text(json.dumps(found))
    with pytest.raises(AssertionError, match="the model is off by"):
        PUBLISH.page()
