"""Methods whose encoder learns the first task alone: what they share."""

from typing import Any

import pytest
import torch
from method_support import TASKS, TEST_LABELS, TESTS, everything, learner_of, recipe_of, same, undisturbed

from ictrl import ConfigError, InputError, load_learner
from ictrl.methods.storage import LEARNER, Stored, read_stored, write_stored
from ictrl.recipes.tables import recipe_with

METHODS = ["slda", "fecam", "analytic"]


@pytest.mark.parametrize("method", METHODS)
def test_the_encoder_learns_the_first_task_and_never_again(method: str) -> None:
    new, first, second = (everything(learner_of(method, tasks)) for tasks in (0, 1, 2))
    encoder = [name for name in new if name.startswith("encoder.")]
    assert any(not torch.equal(new[name], first[name]) for name in encoder if name.endswith("weight"))
    assert all(torch.equal(first[name], second[name]) for name in encoder)
    assert torch.equal(first["generator"], second["generator"])


def test_all_of_them_have_the_same_encoder() -> None:
    slda, fecam, analytic = (learner_of(method)._state.networks["encoder"].state_dict() for method in METHODS)
    assert all(torch.equal(slda[name], other[name]) for other in (fecam, analytic) for name in slda)


@pytest.mark.parametrize("method", METHODS)
def test_the_head_is_thrown_away_with_its_optimiser(method: str) -> None:
    learner = learner_of(method)
    assert learner._state.networks["head"].state_dict()["weight"].shape == (0, 16)
    assert not any(name.startswith("network_optimiser") for name in everything(learner))
    assert learner.parameter_count == learner_of(method, 0).parameter_count


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_forgotten(method: str) -> None:
    """Where cross-entropy on each task alone forgets the first."""
    old = (TEST_LABELS == 5) | (TEST_LABELS == -4)
    assert learner_of(method, first={"epochs": 20}).score(TESTS[old], TEST_LABELS[old]) > 0.9
    finetuned = learner_of("finetune", first={"epochs": 20}, later={"epochs": 20, "learning_rate": 1e-2})
    assert finetuned.score(TESTS[old], TEST_LABELS[old]) < 0.2


@pytest.mark.parametrize("method", METHODS)
def test_a_class_that_cannot_be_remembered_leaves_it_as_it_was(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later tasks have no epochs that could fail."""
    learner: Any = learner_of(method, tasks=1)
    before = everything(learner)
    with monkeypatch.context() as failing:
        failing.setattr(learner, "remembered", lambda Z, y: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            learner.learn(*TASKS[1])
    assert same(everything(learner), before)
    assert same(everything(learner.learn(*TASKS[1])), undisturbed(method))


@pytest.mark.parametrize("method", METHODS)
def test_what_is_kept_of_other_classes_is_refused(method: str, tmp_path: Any) -> None:
    learner = learner_of(method)
    learner.save(tmp_path / "learner")
    stored = read_stored(tmp_path / "learner", LEARNER)
    fewer = Stored(stored.recipe, stored.seed, stored.labels[:3], stored.device, stored.tensors)
    write_stored(tmp_path / "fewer", LEARNER, fewer)
    with pytest.raises(InputError, match="do not fit: what is kept has shapes"):
        load_learner(tmp_path / "fewer")


@pytest.mark.parametrize("method", METHODS)
def test_rotations_are_refused(method: str) -> None:
    with pytest.raises(ConfigError, match="Expected first.augmentation.rotations to be false"):
        recipe_with(recipe_of(method), {"method": {"first": {"augmentation": {"rotations": True}}}})
