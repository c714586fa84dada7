"""The main job, end to end: ten digits in five tasks from memory alone."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from run_support import timeless

from ictrl import ICTRL, InputError, Recipe, Results, StreamConfig, load_dataset, load_recipe, split_tasks
from ictrl.experiment.run import Finished, Listener, run
from ictrl.recipes.tables import recipe_with
from ictrl.theory.metrics import Scores, confusion_table


def test_the_split_is_fixed() -> None:
    digits = load_dataset(StreamConfig(), 16, 1)
    assert (len(digits.images), len(digits.test_images)) == (1433, 364)
    assert torch.bincount(digits.test_labels).tolist() == [36, 37, 36, 37, 37, 37, 37, 36, 35, 36]
    assert digits.images.shape[1:] == (1, 16, 16)
    assert digits.images.dtype == torch.uint8
    assert int(digits.images.max()) > 240
    again = load_dataset(StreamConfig(), 16, 1)
    assert torch.equal(digits.test_images, again.test_images)


def test_tasks_share_nothing_and_miss_nothing() -> None:
    digits = load_dataset(StreamConfig(), 8, 1)
    tasks = split_tasks(digits, StreamConfig(tasks=5))
    assert [task.classes for task in tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    for task in tasks:
        assert sorted(set(task.labels.tolist())) == sorted(set(task.test_labels.tolist())) == list(task.classes)
    assert sum(len(task.images) for task in tasks) == len(digits.images)
    assert sum(len(task.test_images) for task in tasks) == len(digits.test_images)


def test_wrong_streams_are_refused() -> None:
    with pytest.raises(InputError, match="divides the 10 classes of digits but got 3"):
        split_tasks(load_dataset(StreamConfig(), 8, 1), StreamConfig(tasks=3))
    with pytest.raises(InputError, match=r"network\.channels to be 1 or 3, or the 1 of the images, but got 2"):
        load_dataset(StreamConfig(), 8, 2)


RECIPE = load_recipe("ictrl-digits")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    """The published recipe from its beginning to its end, as `make demo` runs it."""
    out = tmp_path_factory.mktemp("runs") / "digits"
    return out, run(RECIPE, out)


def test_digits_are_remembered(finished: tuple[Path, Finished]) -> None:
    results = finished[1].results
    assert results.memory.last >= 0.94
    assert results.memory.average >= 0.96
    assert results.reencoded is not None
    assert results.reencoded.last >= 0.95
    assert results.replay is not None
    assert results.replay[-1] >= 0.8


def test_results_hold_the_contract(finished: tuple[Path, Finished]) -> None:
    out, (results, learner) = finished[0], (finished[1].results, finished[1].learner)
    assert Results.read(out / "results.json") == results
    written = json.loads((out / "results.json").read_text())
    assert set(written) == {field.name for field in fields(Results)}
    for name in ("memory", "reencoded", "untrained", "frozen"):
        scores = getattr(results, name)
        assert set(written[name]) == {field.name for field in fields(Scores)}
        assert (scores.confusion is not None) == (name in ("memory", "reencoded"))
        assert [[a is not None for a in row] for row in scores.matrix] == [[j <= t for j in range(5)] for t in range(5)]
    for scores in results.protocols.values():
        assert scores.confusion is not None
        confusion = torch.from_numpy(confusion_table(scores.confusion))
        assert confusion.sum(1).tolist() == [36, 37, 36, 37, 37, 37, 37, 36, 35, 36]
        assert int(confusion.diagonal().sum()) / 364 == pytest.approx(scores.last, abs=1e-6)
    assert results.class_names == {label: str(label) for label in range(10)}
    assert results.complete is True
    assert results.measured_on == "test images"
    assert results.tasks == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert isinstance(learner, ICTRL)
    assert results.kept_bytes == learner.kept_bytes == learner.memory.nbytes
    assert results.image_bytes == 1433 * 16 * 16
    assert results.kept_bytes < 1433 * 16 * 16  # of the images as large as the recipe has them
    assert results.parameters == learner.parameter_count
    assert results.seed == 0
    assert set(results.versions) == {"ictrl", "python", "torch", "numpy"}
    assert set(results.seconds) == {"learn", "evaluate", "floors"}
    assert all(seconds > 0 for seconds in results.seconds.values())
    assert results.recipe.name == "ictrl-digits"


def test_the_run_folder_is_complete(finished: tuple[Path, Finished]) -> None:
    out, recipe = finished[0], RECIPE
    assert load_recipe(out / "config.toml") == recipe
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    first, later = recipe.method.first.epochs, recipe.method.later.epochs  # type: ignore[attr-defined]
    assert len(lines) == first + 4 * later
    assert (lines[0]["task"], lines[0]["epoch"], lines[-1]["task"], lines[-1]["epoch"]) == (1, 1, 5, later)
    assert "encoder.distill_replayed" in lines[-1]
    images = load_dataset(StreamConfig(), 16, 1).test_images
    assert torch.equal(
        ICTRL.load(out / "checkpoint" / "after-task-005.safetensors", device="cpu").predict(images),
        finished[1].learner.predict(images),
    )


def short(tasks: int = 5, **settings: Any) -> Recipe:
    """The same in a second: small images and networks, an epoch for each task."""
    stage = {"epochs": 1, "batch": 300, "learning_rate": 1e-3, "ema": 0.0}
    network = {"image_size": 8, "width": 4, "feature_dim": 16}
    memory = {"directions": 3, "neighbours": 5, "samples": 4}
    method = {"network": network, "memory": memory, "first": stage, "later": stage}
    recipe = recipe_with(
        load_recipe("ictrl-digits"), {"method": method, "stream": {"tasks": tasks}, "run": {"device": "cpu"}}
    )
    return recipe_with(recipe, settings)


def test_ten_tasks_of_one_class(tmp_path: Path) -> None:
    finished = run(short(tasks=10), tmp_path / "run")
    assert finished.results.done == len(finished.results.memory.seen) == 10
    assert finished.results.memory.matrix[0][0] == 1.0
    assert finished.learner.classes_.tolist() == list(range(10))


def test_what_was_done_before_a_stop_stays(tmp_path: Path) -> None:
    class Stop(Listener):
        def on_task(self, index: int, total: int, task: object) -> None:
            if index == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(short(), tmp_path / "run", listener=Stop())
    results = Results.read(tmp_path / "run" / "results.json")
    assert results.complete is False
    assert results.done == len(results.memory.seen) == 2
    assert ICTRL.load(
        tmp_path / "run" / "checkpoint" / "after-task-002.safetensors", device="cpu"
    ).classes_.tolist() == [0, 1, 2, 3]


def test_the_floor_is_the_untrained_network(tmp_path: Path) -> None:
    """Whatever is learned, the floor of a seed stays: it is measured before learning."""
    floors = []
    for epochs in (1, 2):
        recipe = short(tasks=2, method={"first": {"epochs": epochs}})
        floors.append(run(recipe, tmp_path / str(epochs)).results.untrained)
    assert floors[0] is not None
    assert floors[0] == floors[1]


def test_frozen_is_the_encoder_after_its_first_task(tmp_path: Path) -> None:
    """Its first number is that of the trained encoder; what later tasks learn does not move the others."""
    frozen = []
    for epochs in (1, 2):
        results = run(short(method={"later": {"epochs": epochs}}), tmp_path / str(epochs)).results
        assert results.frozen is not None
        assert results.reencoded is not None
        frozen.append(results.frozen)
        assert results.frozen.matrix[0] == results.reencoded.matrix[0]
        assert results.frozen != results.untrained
    assert frozen[0] == frozen[1]


def test_the_frozen_floor_is_what_the_frozen_method_reaches(tmp_path: Path) -> None:
    """Two ways to the same number: measured beside i-CTRL, and learned by the method of that name."""
    floor = run(short(), tmp_path / "ictrl").results.frozen
    results = run(short(method={"name": "frozen"}), tmp_path / "frozen").results
    assert floor is not None
    assert results.reencoded is not None
    assert results.memory.matrix == results.reencoded.matrix == floor.matrix
    assert results.memory == results.reencoded  # nothing moves: memory is exact


def test_a_validation_run_never_sees_the_test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = short(tasks=2, stream={"validation": 0.2})
    results = run(recipe, tmp_path / "run").results
    assert results.measured_on == "validation images"
    assert sum(results.test_images) == pytest.approx(0.2 * 1433, abs=5)

    def blank(*arguments: Any) -> Any:
        dataset = load_dataset(*arguments)
        return replace(dataset, test_images=torch.zeros_like(dataset.test_images))

    monkeypatch.setattr("ictrl.experiment.run_data.load_dataset", blank)
    assert timeless(run(recipe, tmp_path / "blank").results) == timeless(results)
