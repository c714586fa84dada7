"""The main job, end to end: ten digits in five tasks from memory alone."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ictrl import ICTRL, InputError, load_recipe
from ictrl.config import DataConfig, GameConfig
from ictrl.data import load_dataset, split_tasks
from ictrl.experiment.run import Listener, run


def test_the_split_is_fixed() -> None:
    digits = load_dataset(DataConfig(), 16, 1)
    assert (len(digits.images), len(digits.test_images)) == (1433, 364)
    assert torch.bincount(digits.test_labels).tolist() == [36, 37, 36, 37, 37, 37, 37, 36, 35, 36]
    assert digits.images.shape[1:] == (1, 16, 16)
    assert digits.images.dtype == torch.uint8
    assert int(digits.images.max()) > 240
    again = load_dataset(DataConfig(), 16, 1)
    assert torch.equal(digits.test_images, again.test_images)


def test_tasks_share_nothing_and_miss_nothing() -> None:
    digits = load_dataset(DataConfig(), 8, 1)
    tasks = split_tasks(digits, DataConfig(tasks=5))
    assert [task.classes for task in tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    for task in tasks:
        assert sorted(set(task.labels.tolist())) == sorted(set(task.test_labels.tolist())) == list(task.classes)
    assert sum(len(task.images) for task in tasks) == len(digits.images)
    assert sum(len(task.test_images) for task in tasks) == len(digits.test_images)


def test_wrong_streams_are_refused() -> None:
    with pytest.raises(InputError, match="divides the 10 classes of digits but got 3"):
        split_tasks(load_dataset(DataConfig(), 8, 1), DataConfig(tasks=3))
    with pytest.raises(InputError, match=r"network\.channels to be 1 or 3, or the 1 of the images, but got 2"):
        load_dataset(DataConfig(), 8, 2)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], ICTRL]:
    out = tmp_path_factory.mktemp("runs") / "digits"
    return out, *run(load_recipe("digits"), out)


def test_digits_are_remembered(finished: tuple[Path, dict[str, Any], ICTRL]) -> None:
    _, results, _ = finished
    assert results["memory"]["last"] >= 0.94
    assert results["memory"]["average"] >= 0.96
    assert results["reencoded"]["last"] >= 0.95
    assert results["replay"][-1] >= 0.8


def test_results_hold_the_contract(finished: tuple[Path, dict[str, Any], ICTRL]) -> None:
    out, results, learner = finished
    assert json.loads((out / "results.json").read_text()) == results
    for protocol in ("memory", "reencoded", "floor", "frozen"):
        extra = {"confusion"} if protocol in ("memory", "reencoded") else set()
        assert set(results[protocol]) == {"seen", "last", "average", "forgetting", "matrix"} | extra
        assert [[a is not None for a in row] for row in results[protocol]["matrix"]] == [
            [j <= t for j in range(5)] for t in range(5)
        ]
    for protocol in ("memory", "reencoded"):
        confusion = torch.tensor(results[protocol]["confusion"])
        assert confusion.sum(1).tolist() == [36, 37, 36, 37, 37, 37, 37, 36, 35, 36]
        assert int(confusion.diagonal().sum()) / 364 == pytest.approx(results[protocol]["last"], abs=1e-6)
    assert results["class_names"] == {str(label): str(label) for label in range(10)}
    assert results["complete"] is True
    assert results["measured_on"] == "test images"
    assert results["tasks"] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert results["memory_bytes"] == learner.memory.nbytes
    assert results["image_bytes"] == 1433 * 16 * 16
    assert results["memory_bytes"] < results["image_bytes"]
    assert results["parameters"] == learner.parameters
    assert results["seed"] == 0
    assert set(results["versions"]) == {"ictrl", "python", "torch", "numpy"}
    assert set(results["seconds"]) == {"learn", "evaluate", "floor"}
    assert all(seconds > 0 for seconds in results["seconds"].values())
    assert results["recipe"]["name"] == "digits"


def test_the_run_folder_is_complete(finished: tuple[Path, dict[str, Any], ICTRL]) -> None:
    out, _, learner = finished
    assert load_recipe(out / "config.toml") == load_recipe("digits")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    game = load_recipe("digits").game
    assert len(lines) == game.first_epochs + 4 * game.epochs
    assert (lines[0]["task"], lines[0]["epoch"], lines[-1]["task"], lines[-1]["epoch"]) == (1, 1, 5, game.epochs)
    assert "encoder.anchor_replayed" in lines[-1]
    images = load_dataset(DataConfig(), 16, 1).test_images
    assert torch.equal(
        ICTRL.load(out / "checkpoint" / "after-task-005.safetensors", device="cpu").predict(images),
        learner.predict(images),
    )


def short(tasks: int = 5) -> Any:
    recipe = load_recipe("digits")
    game = GameConfig(epochs=1, first_epochs=1, learning_rate=1e-3, averaged=0.0)
    return replace(recipe, device="cpu", game=game, data=replace(recipe.data, tasks=tasks))


def test_ten_tasks_of_one_class(tmp_path: Path) -> None:
    results, learner = run(short(tasks=10), tmp_path / "run")
    assert len(results["memory"]["seen"]) == 10
    assert results["memory"]["matrix"][0][0] == 1.0
    assert learner.classes_.tolist() == list(range(10))


def test_what_was_done_before_a_stop_stays(tmp_path: Path) -> None:
    class Stop(Listener):
        def on_task(self, index: int, total: int, task: object) -> None:
            if index == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(short(), tmp_path / "run", Stop())
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["complete"] is False
    assert len(results["memory"]["seen"]) == 2
    assert ICTRL.load(
        tmp_path / "run" / "checkpoint" / "after-task-002.safetensors", device="cpu"
    ).classes_.tolist() == [0, 1, 2, 3]


def test_a_folder_in_use_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(InputError, match="Expected a new or empty folder for the run but .* is not"):
        run(short(), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["precious.txt"]


def test_the_floor_is_the_untrained_network(tmp_path: Path) -> None:
    """Whatever is learned, the floor of a seed stays: it is measured before learning."""
    floors = []
    for epochs in (1, 2):
        recipe = short()
        recipe = replace(recipe, game=replace(recipe.game, first_epochs=epochs))
        results, _ = run(recipe, tmp_path / str(epochs))
        floors.append(results["floor"])
    assert floors[0] == floors[1]


def test_frozen_is_the_encoder_after_its_first_task(tmp_path: Path) -> None:
    """Its first number is that of the trained encoder; what later tasks learn does not move the others."""
    frozen = []
    for epochs in (1, 2):
        recipe = short()
        results, _ = run(replace(recipe, game=replace(recipe.game, epochs=epochs)), tmp_path / str(epochs))
        frozen.append(results["frozen"])
        assert results["frozen"]["matrix"][0] == results["reencoded"]["matrix"][0]
        assert results["frozen"] != results["floor"]
    assert frozen[0] == frozen[1]


def test_a_validation_run_never_sees_the_test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = short(tasks=2)
    recipe = replace(recipe, data=replace(recipe.data, validation=0.2))
    results, _ = run(recipe, tmp_path / "run")
    assert results["measured_on"] == "validation images"
    assert sum(results["test_images"]) == pytest.approx(0.2 * 1433, abs=5)

    def blank(*arguments: Any) -> Any:
        dataset = load_dataset(*arguments)
        return replace(dataset, test_images=torch.zeros_like(dataset.test_images))

    monkeypatch.setattr("ictrl.experiment.run.load_dataset", blank)
    again, _ = run(recipe, tmp_path / "blank")
    assert {k: v for k, v in again.items() if k != "seconds"} == {k: v for k, v in results.items() if k != "seconds"}
