"""wide, learning on: its encoder moves in later tasks, held by distillation, and what is kept moves along."""

from pathlib import Path
from typing import Any

import pytest
import torch
from method_support import TASKS, TEST_LABELS, TESTS, everything, learner_of, recipe_of, same, stop_after
from support import pictures
from torch import Tensor, nn

from ictrl import ConfigError, create_learner, load_learner
from ictrl.data import tasks_from_arrays
from ictrl.experiment.evaluation import measure, predict_all
from ictrl.experiment.measured import Measured
from ictrl.memory.compensation import fit_movement
from ictrl.methods.wide import Wide
from ictrl.recipes.tables import beginning, recipe_with

LEARNING_ON = {"epochs": 3, "batch": 15, "learning_rate": 3e-3}


def wide_of(tasks: int = 2, **changes: Any) -> Wide:
    learner = learner_of("wide", tasks, learning_on=LEARNING_ON | changes)
    assert isinstance(learner, Wide)
    return learner


def encoder_of(learner: Any) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in everything(learner).items() if name.startswith("encoder.")}


def drift(learner: Wide) -> float:
    """How far the wide features of the first task's images have moved since, in units of their spread."""
    X = TASKS[0][0]
    before, after = learner_of("wide", 1).wide_features(X), learner.wide_features(X)  # type: ignore[attr-defined]
    return float(((after - before) / before.std(0).clamp(min=1e-6)).square().mean())


def test_the_encoder_moves_and_batchnorm_keeps_its_statistics() -> None:
    recipe = recipe_of("wide", learning_on=LEARNING_ON, network={"kind": "resnet"})
    learner = create_learner(recipe).learn(*TASKS[0])
    first = encoder_of(learner)
    second = encoder_of(learner.learn(*TASKS[1]))
    weights = [name for name in first if name.endswith("weight")]
    statistics = [name for name in first if "running" in name or "num_batches" in name]
    assert statistics
    assert all(not torch.equal(first[name], second[name]) for name in weights)
    assert all(torch.equal(first[name], second[name]) for name in statistics)


def test_the_first_task_is_the_same() -> None:
    assert same(everything(wide_of(1)), everything(learner_of("wide", 1)))
    assert beginning(recipe_of("wide", learning_on=LEARNING_ON)) == beginning(recipe_of("wide"))


def test_distillation_holds_wide_features() -> None:
    free, held = drift(wide_of(distillation=0.0)), drift(wide_of(distillation=100.0))
    assert held < 0.5 * free


def test_memory_follows_the_encoder() -> None:
    """By the map that the new images show, and no old one."""
    first, second, X = wide_of(1), wide_of(2), TASKS[1][0]
    before, after = (
        learner.wide_features(torch.cat([X.rot90(i, (2, 3)) for i in range(4)])) for learner in (first, second)
    )
    moved = first.kept.moved(fit_movement(before, after, second.settings.learning_on.compensation_ridge, len(X)))
    torch.testing.assert_close(second.kept.means[:2], moved.means)
    assert not torch.allclose(moved.means, first.kept.means)
    with_new = moved.with_classes(second.wide_features(X), TASKS[1][1])
    torch.testing.assert_close(second.kept.covariance(), with_new.covariance())


def test_old_classes_are_still_known() -> None:
    assert wide_of().score(TESTS, TEST_LABELS) > 0.9


def test_a_task_can_be_stopped_and_resumed_and_a_learner_saved_and_loaded(tmp_path: Path) -> None:
    whole = everything(wide_of())
    learner = wide_of(1)
    learner.save(tmp_path / "learner")
    stop_after(learner, TASKS[1], 2, tmp_path / "task")
    assert same(everything(learner), everything(wide_of(1)))  # a task that fails leaves no trace
    learner = load_learner(tmp_path / "learner")
    assert same(everything(learner.learn(*TASKS[1], resume=tmp_path / "task")), whole)
    learner.save(tmp_path / "learner")
    assert torch.equal(load_learner(tmp_path / "learner").scores(TESTS), learner.scores(TESTS))


def test_it_keeps_as_many_bytes_as_a_frozen_one() -> None:
    assert wide_of().kept_bytes == learner_of("wide").kept_bytes


def test_reencoded_is_what_all_images_say() -> None:
    _, tasks = tasks_from_arrays([(*task, *task) for task in TASKS])
    learner = wide_of(distillation=0.0)
    assert set(predict_all(learner_of("wide"), tasks)) == {"memory"}  # frozen, the two are the same
    measured = Measured([len(X) for X, _ in TASKS])
    measure(learner, tasks, measured)
    assert len(measured.reencoded[-1]) == 2
    again = learner.remembering()
    for task in TASKS:
        again.learn(*task)
    assert torch.equal(predict_all(learner, tasks)["reencoded"][0][1], again.predict(tasks[0].images))
    assert torch.equal(again.wide_features(TESTS), learner.wide_features(TESTS))  # it has trained on nothing


def test_an_encoder_of_ones_own_learns_on_too() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 8, 3, 2, 1)
            self.last = nn.Linear(8 * 16, 16)

        def stages(self, X: Tensor) -> list[Tensor]:
            return [self.conv(X).relu()]

        def forward(self, X: Tensor) -> Tensor:
            return self.last(self.stages(X)[0].flatten(1))

    own = Own()
    learner = Wide(recipe_of("wide", learning_on=LEARNING_ON), encoder=own).learn(*TASKS[0])
    before = learner.reader.encoder.conv.weight.clone()
    learner.learn(*TASKS[1])
    assert not torch.equal(before, learner.reader.encoder.conv.weight)
    assert learner.score(TESTS, TEST_LABELS) > 0.9


def test_a_reduction_of_the_first_task_stays() -> None:
    reading = {"pool": 2, "reduction": "channels", "sizes": [6]}
    learner = create_learner(recipe_of("wide", learning_on=LEARNING_ON, reading=reading)).learn(*TASKS[0])
    before = [matrix.clone() for matrix in learner.kept.reduction.matrices]
    learner.learn(*pictures([2, 30], each=30))
    assert all(torch.equal(one, other) for one, other in zip(before, learner.kept.reduction.matrices))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": -1}, "epochs to be at least 0"),
        ({"distillation": -1.0}, "learning_on.distillation to be at least 0"),
        ({"compensation_ridge": 0.0}, "learning_on.compensation_ridge to be above 0"),
    ],
)
def test_settings_out_of_range(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe_with(recipe_of("wide"), {"method": {"learning_on": settings}})
